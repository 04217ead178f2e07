"""Waiting for a service to say where it listens, and saying what keeps it from that."""

from __future__ import annotations

import json
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from neve.errors import NeveError

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable
    from pathlib import Path

LATE_SECONDS = 30.0  # after which it is said what is late, and as often as that
LOOK_SECONDS = 0.1


def await_addresses(
    process: subprocess.Popen[str], log: Path, stopped: threading.Event, tell: Callable[[str], None]
) -> dict[str, Any] | None:
    """Where a service listens, from its first line; none where somebody wants to stop before that.

    What is late is told, again and again. Raises `NeveError` when the service ends before it listens.
    """
    began, before, late = time.monotonic(), log.stat().st_size, LATE_SECONDS
    line = _first_line(process)
    while not stopped.is_set():
        try:
            return _read(line.get(timeout=LOOK_SECONDS), process, log)
        except Empty:
            seconds = time.monotonic() - began
        if seconds >= late:
            late += LATE_SECONDS
            reason = why_late(_lines(log, before))
            tell(f"not ready after {seconds:.0f} s{f', {reason}' if reason else ''}; the log is {log}")
    return None


def why_late(lines: Iterable[str]) -> str:
    """Which processes a service's log says it waits for, and what the last one of them that ended complained of.

    >>> why_late(['{"event": "part failed", "part": "tend"}', '{"error": "no Java was found"}'])
    'waiting for tend: no Java was found'
    """
    missing, complaint = "", ""
    for line in lines:
        said = _document(line)
        if said.get("event") == "part failed" and not missing:
            missing = str(said.get("part"))
        elif "waiting_for" in said:
            missing = ", ".join(said["waiting_for"])
        elif "event" not in said and "error" in said:
            complaint = str(said["error"])
    return ": ".join(words for words in (f"waiting for {missing}" if missing else "", complaint) if words)


def _first_line(process: subprocess.Popen[str]) -> SimpleQueue[str]:
    """The line that the service will say; empty when it ends without one. Read beside, since a read hears no signal."""
    found: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        found.put(process.stdout.readline())

    threading.Thread(target=read, name="first line", daemon=True).start()
    return found


def _read(line: str, process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    if not line:
        process.wait()
        raise NeveError(f"`neve serve` ended with {process.returncode} before it listened", hint=f"its log is {log}")
    addresses: dict[str, Any] = json.loads(line)
    return addresses


def _lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as said:
        said.seek(start)
        return said.read().decode(errors="replace").splitlines()


def _document(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
