"""A process of the group, as a part of it: started, awaited, told to stop, and killed when it does not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from neve.errors import NeveError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neve.app.serve.part import Say

POLL_SECONDS = 0.1
# Who dies of the signal, or is interrupted by it, has not begun anything yet, or has ended everything already.
ENDED_WELL = (0, -signal.SIGTERM, 128 + signal.SIGINT)

log = structlog.get_logger("neve.serve")


@dataclass(frozen=True)
class Child:
    """A command that prints a line of JSON when it is ready, and ends with exit code 0 when it is told to stop.

    `inherited` is a file that it gets from this process, `patience_seconds` how long it may take to end.
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    inherited: int
    patience_seconds: float

    def run(self, stop: threading.Event, say: Say) -> None:
        """Run the process until the event is set; raises `NeveError` when it ends by itself, or not well."""
        process = self._spawn()
        log.info("process started", process=self.name, pid=process.pid)
        try:
            threading.Thread(target=self._listen, args=(process, say), daemon=True).start()
            while process.poll() is None and not stop.wait(POLL_SECONDS):
                pass
            if process.poll() is None:
                self._end(process)
        finally:
            if process.poll() is None:
                process.kill()
        code = process.wait()
        if code not in ENDED_WELL or not stop.is_set():
            raise NeveError(f"the process {self.name} ended: {how(code)}", hint="its log says why")

    def _spawn(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                self.command,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                pass_fds=[self.inherited],
            )
        except OSError as error:
            raise NeveError(f"the process {self.name} can't be started: {error.strerror}") from error

    def _listen(self, process: subprocess.Popen[bytes], say: Say) -> None:
        """Say what the process says when it is ready; whatever else it prints goes where logs go."""
        assert process.stdout is not None  # noqa: S101 - it was started with a pipe
        with process.stdout as lines:
            for line in lines:
                ready = _document(line)
                if ready is not None and process.poll() is None:
                    say({**ready, "pid": process.pid})
                else:
                    sys.stderr.write(line.decode(errors="replace"))

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        process.terminate()
        try:
            process.wait(self.patience_seconds)
        except subprocess.TimeoutExpired:
            log.error("process killed: it did not end in time", process=self.name, seconds=self.patience_seconds)
            process.kill()


def how(code: int) -> str:
    """How a process ended, in words.

    >>> how(1), how(-9)
    ('exit code 1', 'SIGKILL')
    """
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
