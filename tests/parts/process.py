"""Processes of real parts: started with a log, awaited until they answer, stopped by the id that was started."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.parts.account import group_of

HOST = "127.0.0.1"
LOG_NAME = "part.log"
TAIL_LINES = 30
POLL_SECONDS = 0.05
STOP_SECONDS = 10.0
# Ports that no system gives to clients: what is free in a moment is not taken by somebody's connection meanwhile.
PORTS = range(15_000, 32_000)


_ports = itertools.count()


class PartError(RuntimeError):
    """Raised when a part ends, or does not answer by its deadline; its message holds the end of its log."""


@dataclass(frozen=True)
class Part:
    """One process to start, and how to know that it answers."""

    name: str
    command: Sequence[str]
    answers: Callable[[], bool]
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_with: signal.Signals = signal.SIGTERM
    deadline_seconds: float = 600.0  # ends a run that hangs, and no other: a busy machine is slow

    @property
    def log(self) -> Path:
        """Where the process writes what it says."""
        return self.folder / LOG_NAME


@contextmanager
def running(part: Part) -> Iterator[subprocess.Popen[bytes]]:
    """Start a part, hand it over once it answers, and stop it and its children however the block ends."""
    process = _start(part)
    try:
        _await(part, process)
        yield process
    finally:
        _stop(part, process)


@contextmanager
def scratch(name: str, user: str | None = None) -> Iterator[Path]:
    """Yield a short-lived folder that belongs to `user`, for data and log of one part."""
    with tempfile.TemporaryDirectory(prefix=f"neve-{name}-") as made:
        if user is not None:
            shutil.chown(made, user)
        yield Path(made)


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return as many different loopback ports that nothing listens on now.

    Each process begins elsewhere and gives out a port only once before all others.
    """
    found: list[int] = []
    while len(found) < count:
        port = PORTS[(os.getpid() * 97 + next(_ports)) % len(PORTS)]
        with suppress(OSError), socket.create_server((HOST, port)):
            found.append(port)
    return found


def _start(part: Part) -> subprocess.Popen[bytes]:
    """Start the process as the leader of a group of its own, so that its children can be stopped with it."""
    with part.log.open("wb") as log:
        return subprocess.Popen(
            part.command,
            cwd=part.folder,
            env={**os.environ, **part.environment},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            user=part.user,
            group=group_of(part.user),
            extra_groups=[] if part.user else None,
            start_new_session=True,
        )


def _await(part: Part, process: subprocess.Popen[bytes]) -> None:
    """Return when the part answers; raise as soon as it has ended, or at its deadline."""
    deadline = time.monotonic() + part.deadline_seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PartError(f"part ended too soon: part={part.name} exit={process.returncode}\n{_tail(part)}")
        with suppress(OSError):
            if part.answers():
                return
        time.sleep(POLL_SECONDS)
    raise PartError(f"part did not answer: part={part.name} seconds={part.deadline_seconds}\n{_tail(part)}")


def _stop(part: Part, process: subprocess.Popen[bytes]) -> None:
    """Ask the part to end, and kill its process group when it does not."""
    process.send_signal(part.stop_with)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _tail(part: Part) -> str:
    """Return the last lines that the part wrote."""
    return "\n".join(part.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])
