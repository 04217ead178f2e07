"""CPU seconds and memory of this process and all that it started: Spark's JVM and its Python workers too.

The kernel adds the CPU of a process that ended to the parent that waited for it. A process whose parent ended first
would escape. This process therefore adopts orphans of its tree, as an init process does. The tree is read again if it
changed meanwhile, and a total never falls.

Peak memory is the growth of this process above its memory when the work began (an earlier way's memory is not counted
again), and with Spark also all memory of the JVM and its workers. Pages that several processes share are counted once
(PSS); without `/proc/PID/smaps_rollup` (Linux), memory is RSS.
"""

from __future__ import annotations

import ctypes
import gc
import resource
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import psutil
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

SAMPLE_SECONDS = 0.1
ATTEMPTS = 20  # to read a tree that does not change meanwhile
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


@dataclass
class Usage:
    """Cost of a stretch of work."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0

    def per_second(self, count: int) -> float:
        """Return how many of something one CPU second does."""
        return count / self.cpu_s


class Meter:
    """Measures the work inside a `with` block."""

    def __init__(self, *, with_children: bool) -> None:
        self._with_children = with_children

    def __enter__(self) -> Usage:
        self.usage = Usage()
        self._watched_s = 0.0  # CPU seconds of the measurement itself
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        gc.collect()
        pa.default_memory_pool().release_unused()
        self._memory = read_memory(psutil.Process())
        self._started = time.monotonic()
        self._cpu = tree_cpu()
        self._watcher.start()
        return self.usage

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._watcher.join()
        self.usage.cpu_s = tree_cpu() - self._cpu - self._watched_s
        self.usage.wall_s = time.monotonic() - self._started

    def _watch(self) -> None:
        me = psutil.Process()
        while True:
            held = sum(map(read_memory, _descendants(me))) if self._with_children else 0
            own = read_memory(me) - self._memory
            self.usage.peak_mb = max(self.usage.peak_mb, (own + held) / 1e6)
            self._watched_s = time.thread_time()
            if self._stop.wait(SAMPLE_SECONDS):
                return


class CpuClock:
    """CPU seconds of this process and of all that it ever started."""

    def __init__(self) -> None:
        self._highest = 0.0
        adopt_orphans()

    def read(self) -> float:
        """Return the total, which never falls."""
        total = 0.0
        for _attempt in range(ATTEMPTS):
            total, is_consistent = self._sum_tree()
            if is_consistent:
                break
        self._highest = max(self._highest, total)
        return self._highest

    def _sum_tree(self) -> tuple[float, bool]:
        """Sum up the tree, and return whether no process of it ended meanwhile.

        Parents are read before their children. If a child ends in between, its time is at neither or at both of them.
        """
        me = psutil.Process()
        waited, before = _waited(), _descendants(me)
        total = time.process_time() + waited
        try:
            total += sum(map(_own_and_waited, before))
        except psutil.Error:
            return total, False
        return total, before == _descendants(me) and waited == _waited()


@cache
def _clock() -> CpuClock:
    return CpuClock()


def tree_cpu() -> float:
    """Return the CPU seconds of this process and of all that it ever started."""
    return _clock().read()


@cache
def adopt_orphans() -> None:
    """Become the parent of processes of this tree whose own parent ends, on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def run_apart(command: Sequence[str]) -> tuple[str, Usage]:
    """Run a command; return the last line that it prints, and the cost of its whole tree."""
    began, cpu, usage = time.monotonic(), tree_cpu(), Usage()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        stop = threading.Event()
        watcher = threading.Thread(target=_watch_tree, args=(psutil.Process(process.pid), usage, stop), daemon=True)
        watcher.start()
        output, _error = process.communicate()
        stop.set()
        watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with exit code {process.returncode}")
    usage.cpu_s, usage.wall_s = tree_cpu() - cpu, time.monotonic() - began
    return output.splitlines()[-1], usage


def read_memory(process: psutil.Process) -> int:
    """Return the bytes of a process: pages that several share are counted in parts (PSS)."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0
    except AttributeError:
        return int(process.memory_info().rss) if process.is_running() else 0


def _watch_tree(root: psutil.Process, usage: Usage, stop: threading.Event) -> None:
    while True:
        held = sum(map(read_memory, [root, *_descendants(root)]))
        usage.peak_mb = max(usage.peak_mb, held / 1e6)
        if stop.wait(SAMPLE_SECONDS):
            return


def _descendants(root: psutil.Process) -> list[psutil.Process]:
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []


def _own_and_waited(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _waited() -> float:
    """CPU seconds of children that this process waited for, with all that those had waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
