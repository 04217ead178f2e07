"""All processes that come from one that was started as the leader of a session."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import psutil

JVM, WORKER = "java", "python"


def members(leader: int) -> list[int]:
    """The processes of a session; Spark's Python workers have a process group of their own, but not a session."""
    return [pid for pid in psutil.pids() if _session(pid) == leader]


def jvms(leader: int) -> list[int]:
    """The JVMs of a session."""
    return [pid for pid in members(leader) if _name(pid) == JVM]


def workers(leader: int) -> list[int]:
    """The Python processes that a JVM of the session started: there are some when Spark is at work."""
    return [pid for pid in members(leader) if pid != leader and _name(pid).startswith(WORKER)]


def kill(pids: list[int]) -> None:
    """SIGKILL, to each of them that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def reap(pids: list[int], but: int) -> None:
    """Ask for the end of those that became children of this process: their own parent may have ended before them."""
    for pid in pids:
        if pid != but:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _name(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""
