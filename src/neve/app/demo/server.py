"""`neve up`: runs `neve serve` on the demo's lake as a child process, and waits until it listens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

import yaml

from neve.app.demo.demo import Demo
from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from neve.app.demo.demo import DemoFolder


LATE_SECONDS = 30.0  # interval of the messages about a late start
LOOK_SECONDS = 0.1


def await_addresses(
    process: subprocess.Popen[str], log: Path, stopped: threading.Event, tell: Callable[[str], None]
) -> dict[str, Any] | None:
    """Return the addresses of a service from its first line, or none if a stop is requested before that.

    A late start is reported repeatedly. Raises `NeveError` if the service ends before it listens.
    """
    began, before, late = time.monotonic(), log.stat().st_size, LATE_SECONDS
    line = _read_first_line(process)
    while not stopped.is_set():
        try:
            return _parse_addresses(line.get(timeout=LOOK_SECONDS), process, log)
        except Empty:
            seconds = time.monotonic() - began
        if seconds >= late:
            late += LATE_SECONDS
            reason = explain_delay(_read_log(log, before))
            tell(f"not ready after {seconds:.0f} s{f', {reason}' if reason else ''}; the log is {log}")
    return None


def explain_delay(lines: Iterable[str]) -> str:
    """Return the processes that a service waits for by its log, and the last error of those that ended.

    >>> explain_delay(['{"event": "part failed", "part": "tend"}', '{"error": "no Java was found"}'])
    'waiting for tend: no Java was found'
    """
    missing, complaint = "", ""
    for line in lines:
        entry = _parse_line(line)
        if entry.get("event") == "part failed" and not missing:
            missing = str(entry.get("part"))
        elif "waiting_for" in entry:
            missing = ", ".join(entry["waiting_for"])
        elif "event" not in entry and "error" in entry:
            complaint = str(entry["error"])
    return ": ".join(words for words in (f"waiting for {missing}" if missing else "", complaint) if words)


def _read_first_line(process: subprocess.Popen[str]) -> SimpleQueue[str]:
    """Return a queue for the first line of the service; the line is empty if the service ends without one.

    A thread reads it, since a blocking read is not interrupted by signals.
    """
    found: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        found.put(process.stdout.readline())

    threading.Thread(target=read, name="first line", daemon=True).start()
    return found


def _parse_addresses(line: str, process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    if not line:
        process.wait()
        raise NeveError(f"`neve serve` ended with {process.returncode} before it was ready", hint=f"its log is {log}")
    addresses: dict[str, Any] = json.loads(line)
    return addresses


def _read_log(log: Path, start: int) -> list[str]:
    with log.open("rb") as entry:
        entry.seek(start)
        return entry.read().decode(errors="replace").splitlines()


def _parse_line(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


SERVER_MARK = "# created by `neve up`\n"
STOP_SECONDS = 60.0


@dataclass(frozen=True)
class DemoServer:
    """A running service of the demo's lake, and its addresses."""

    config: Path
    addresses: dict[str, Any]
    process: subprocess.Popen[str]

    @property
    def receivers(self) -> Sequence[str]:
        """The addresses that receive OTLP over HTTP."""
        return [self.addresses["http"]]

    @property
    def has_ended(self) -> bool:
        """True if the service has ended."""
        return self.process.poll() is not None


def prepare(folder: Path) -> Path:
    """Create the demo's lake and its tables, and return the configuration file of its service."""
    demo = Demo.at(folder)
    demo.init()
    config = demo.place.folder / "up.yaml"
    config.write_text(SERVER_MARK + yaml.safe_dump(service_settings(demo.place), sort_keys=False))
    return config


def service_settings(place: DemoFolder) -> dict[str, Any]:
    """Return the demo's settings with additions for a service: its own folders, and a lake that is written to."""
    settings: dict[str, Any] = yaml.safe_load(place.config.read_text())
    lake = place.folder.resolve() / "lake"
    return {
        **settings,
        "raw": {"location": str(lake / "raw")},
        "ingest": {"checkpoints": str(lake / "checkpoints")},
        "compact": {},  # by default: the demo alone has no writer that still adds to a partition
        "rules": {"files": {settings["organization"]: [str(place.rules.resolve())]}},
    }


@contextmanager
def run_server(
    config: Path, log: Path, stopped: threading.Event, tell: Callable[[str], None]
) -> Iterator[DemoServer | None]:
    """Start `neve serve` and wait until it reports its addresses; at the end stop it, and let it drain.

    Yields none if a stop is requested before the service listens. A late start is reported meanwhile.
    """
    command = [sys.executable, "-m", "neve", "-c", str(config), "serve", "--json"]
    with log.open("a") as errors:
        # A separate session: Ctrl+C goes to this process alone, which first stops sending.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        addresses = await_addresses(process, log, stopped, tell)
        yield None if addresses is None else DemoServer(config, addresses, process)
    finally:
        _stop_process(process)


def _stop_process(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
