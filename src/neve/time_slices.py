"""Request short time slices from Linux, so that a thread that wakes up runs at once on a busy machine.

An acknowledgement needs several threads in turn: the event loop, the thread that syncs, the event loop again. A query
needs the event loop, a thread that plans, a worker process, the threads of its engine, and the first two again. On a
machine whose processors are all busy, each of them waits for the time slice of another process to end, also for one of
a lower priority. The scheduler (EEVDF, Linux 6.12 and later) lets a thread with a shorter slice preempt one with a
longer slice when it wakes up. The share of the processor stays the same. Older kernels accept the request and ignore
it, and other systems don't have it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

SHORT_NANOSECONDS = 200_000  # Linux allows 0.1 to 100 ms; its own default is 1.4 ms on two processors, more on others
DEFAULT = 0
# The number of `sched_setattr`, for which Python and the C library have no function. `sched_getattr` is the next one.
SYSTEM_CALLS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period, utilisation (two numbers).
ATTRIBUTES = struct.Struct("<IIQiIQQQII")
CALLING_THREAD = 0


def request_time_slices(nanoseconds: int, thread: int = CALLING_THREAD) -> bool:
    """Set the time slice of a thread, and of threads and processes that it starts. Return whether that worked.

    `DEFAULT` restores the slice of the system. The niceness does not change. A thread with another policy than the
    normal one keeps it, and its slice.
    """
    number = _system_call()
    if number is None or os.sched_getscheduler(thread) != os.SCHED_OTHER:
        return False
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    attributes = ATTRIBUTES.pack(ATTRIBUTES.size, os.SCHED_OTHER, 0, niceness, 0, nanoseconds, 0, 0, 0, 0)
    return _call(number, thread, ctypes.create_string_buffer(attributes)) == 0


def current_time_slice() -> int:
    """Return the time slice of this thread in nanoseconds, or 0 if it is unknown."""
    number = _system_call()
    attributes = ctypes.create_string_buffer(ATTRIBUTES.size)
    if number is None or _call(number + 1, CALLING_THREAD, attributes, ATTRIBUTES.size) != 0:
        return 0
    runtime: int = ATTRIBUTES.unpack(attributes.raw)[5]
    return runtime


def _system_call() -> int | None:
    return SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None


def _call(number: int, thread: int, attributes: ctypes.Array[ctypes.c_char], *further: int) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    found: int = library.syscall(number, thread, attributes, *further, 0)
    return found
