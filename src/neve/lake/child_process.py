"""Run requests in a child process with a memory limit, so that a crash or a hang costs one request only.

The parent sends a request, a small JSON header and a body of bytes, over the child's standard input and gets a
response of the same form. A child exits at the end of its input, so none outlives its parent. It is started as a
module of its own, never forked: the parents have threads, and Arrow's and gRPC's do not survive a fork.

A child gets no settings, passwords or tokens from its parent's environment, works in an empty folder of its own, and
imports nothing from the folder that its parent was started in.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEADER = struct.Struct("<IQ")  # length of the JSON, length of the body
READY = "ready"
STATM = Path("/proc/self/statm")
PIECE = 1024 * 1024
MAX_USED = 0.5  # of its memory; a child that retains more is replaced, or later requests would have less
# Variables that a child inherits from its parent. Settings, passwords and tokens are excluded.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")

Header = dict[str, Any]


class ChildFailed(NeveError):
    """Raised when a child did not respond. The message contains the way it ended.

    `by_limit` is true if the request itself exceeded a limit. A child that died may have been killed for other reasons.
    """

    def __init__(self, message: str, *, by_limit: bool = False) -> None:
        super().__init__(message)
        self.by_limit = by_limit


class Child:
    """A child process that handles one request at a time, for one thread at a time."""

    def __init__(self, module: str, memory_bytes: int, *arguments: str, paths: Sequence[str] = ()) -> None:
        """Start a module; `paths` are further import paths. Raises `ChildFailed` if the process can't be started."""
        self._memory_bytes = memory_bytes
        self._used = 0
        command = [sys.executable, "-P", "-m", module, str(memory_bytes), *arguments]
        with ExitStack() as made:
            try:
                self._folder = tempfile.mkdtemp(prefix="neve-child-")
                made.callback(shutil.rmtree, self._folder, ignore_errors=True)
                requests, self._requests = _open_pipe(made)
                self._answers, answers = _open_pipe(made)
                self._process = subprocess.Popen(
                    command, stdin=requests, stdout=answers, cwd=self._folder, env=minimal_environment(paths=paths)
                )
            except OSError as error:
                raise ChildFailed(f"its process could not be started: {error}") from None
            made.pop_all()
        os.close(requests)
        os.close(answers)

    @property
    def is_fit(self) -> bool:
        """Return whether the child runs and has most of its memory left."""
        return self._process.poll() is None and self._used <= MAX_USED * self._memory_bytes

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def wait_ready(self, seconds: float) -> None:
        """Wait until the child has imported its modules and responds. Raises `ChildFailed` if it does not."""
        self.ask({READY: True}, b"", seconds)

    def ask(self, header: Header, body: bytes, seconds: float) -> tuple[Header, bytes]:
        """Send a request and wait for the response. Raises `ChildFailed`, and then the child can't be used again."""
        try:
            _write_message(self._requests, header, body)
            answer, data = _read_message(self._answers, time.monotonic() + seconds)
        except TimeoutError:
            self.kill()
            raise ChildFailed(f"it took more than {seconds:g} s", by_limit=True) from None
        except (EOFError, OSError):
            self.kill()
            raise ChildFailed(_describe_exit(self._process.returncode, self._memory_bytes)) from None
        self._used = int(answer.pop("used", 0))
        if error := answer.pop("out_of_memory", None):
            self.kill()
            raise ChildFailed(f"it took more than {self._memory_bytes} bytes of memory ({error})", by_limit=True)
        return answer, data

    def kill(self) -> None:
        """Kill the child, even during a request."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Kill the child and close its pipes. Call it once, when no thread waits for a response."""
        self.kill()
        os.close(self._requests)
        os.close(self._answers)
        shutil.rmtree(self._folder, ignore_errors=True)


def minimal_environment(*, needs_aws: bool = False, paths: Sequence[str] = ()) -> dict[str, str]:
    """Return the environment for a child that must not see its parent's; `paths` come first in its import path."""
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # other pools map a gigabyte in advance
    if needs_aws:
        environment |= {name: value for name, value in os.environ.items() if name.startswith("AWS_") or name == "HOME"}
    # Relative paths would change their meaning in the child's folder. An empty one means the parent's folder, which is
    # not a configured path.
    named = filter(None, (*paths, *environment.pop("PYTHONPATH", "").split(os.pathsep)))
    if wanted := dict.fromkeys(map(os.path.abspath, named)):
        environment["PYTHONPATH"] = os.pathsep.join(wanted)
    return environment


def _open_pipe(made: ExitStack) -> tuple[int, int]:
    """Open a pipe with a buffer for one whole write. A smaller buffer works too, with more system calls."""
    ends = os.pipe()
    for end in ends:
        made.callback(os.close, end)
    with suppress(OSError):
        fcntl.fcntl(ends[0], fcntl.F_SETPIPE_SZ, PIECE)
    return ends


def serve_requests(handle: Callable[[Header, bytes], tuple[Header, bytes]], memory_bytes: int) -> None:
    """Handle the parent's requests until it exits. The child calls it after all its modules are loaded."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all processes; the parent decides
    answers = os.dup(1)
    os.dup2(2, 1)  # output of libraries must not mix with responses
    limit_memory(memory_bytes)
    base = _read_address_space()
    while True:
        try:
            header, body = _read_message(0, None)
        except EOFError:
            return
        try:
            answer, data = ({}, b"") if header.get(READY) else handle(header, body)
        except MemoryError as error:
            answer, data = {"out_of_memory": f"{type(error).__name__}: {error}"[:200]}, b""
        del body
        with suppress(BrokenPipeError):
            _write_message(answers, {**answer, "used": max(0, _read_address_space() - base)}, data)


def limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to its current size and `more_bytes`."""
    if not STATM.exists():
        return  # only Linux reports the size and enforces the limit
    limit = _read_address_space() + more_bytes
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _read_address_space() -> int:
    return int(STATM.read_text().split()[0]) * resource.getpagesize() if STATM.exists() else 0


def _describe_exit(code: int | None, memory_bytes: int) -> str:
    limit = f"its memory limit was {memory_bytes} bytes"
    if code is not None and code < 0:
        return f"its process was ended by {signal.Signals(-code).name} ({limit})"
    return f"its process ended with code {code} ({limit})"


def _write_message(file: int, header: Header, body: bytes) -> None:
    text = json.dumps(header).encode()
    for piece in (HEADER.pack(len(text), len(body)) + text, body):
        view = memoryview(piece)
        while view:
            view = view[os.write(file, view[:PIECE]) :]


def _read_message(file: int, deadline: float | None) -> tuple[Header, bytes]:
    words, size = HEADER.unpack(_read_exactly(file, HEADER.size, deadline))
    return json.loads(_read_exactly(file, words, deadline)), bytes(_read_exactly(file, size, deadline))


def _read_exactly(file: int, size: int, deadline: float | None) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        _wait_readable(file, deadline)
        count = os.readv(file, [view[at : at + PIECE]])
        if not count:
            raise EOFError
        at += count
    return found


def _wait_readable(file: int, deadline: float | None) -> None:
    if deadline is None:
        return
    poll = select.poll()
    poll.register(file, select.POLLIN)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise TimeoutError
