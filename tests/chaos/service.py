"""A command of Neve as a real process that is killed and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from tests.chaos import session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

POLL_SECONDS = 0.02
TAIL_LINES = 30


class ServiceError(RuntimeError):
    """Raised when a service does not do what it should; its message holds the end of what it said."""


class Service:
    """One command; what it says goes to files, new ones for each start."""

    def __init__(self, name: str, command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        self.starts = 0
        self.started = 0.0
        self._swept = False
        self._command = list(command)
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process that runs now."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it as the leader of a session of its own, so that it can be killed with all its children."""
        self.starts += 1
        self._swept = False
        self.started = time.time()
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )

    def lines(self) -> list[str]:
        """The whole lines that it printed since it was started."""
        return [line for line in self._out.read_text(errors="replace").splitlines(keepends=True) if line[-1:] == "\n"]

    def wait_until(self, happened: Callable[[Service], bool], seconds: float) -> bool:
        """Whether something happens in time; raises `ServiceError` when the process ends by itself."""
        deadline = time.monotonic() + seconds
        while not happened(self):
            if self.ended:
                raise ServiceError(f"{self.name} ended by itself: exit={self.exit_code}\n{self.tail()}")
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    @property
    def ended(self) -> bool:
        """Whether the process is gone."""
        return self._process is None or self._process.poll() is not None

    @property
    def exit_code(self) -> int | None:
        """How it ended."""
        return self._process.returncode if self._process else None

    def kill(self) -> None:
        """SIGKILL to the process and all its children, the first ones in the same instant; once for each start.

        As long as one of them is there the number of their session belongs to them, and no longer.
        """
        if self._process is None or self._swept:
            return
        if not self.ended:
            os.killpg(self.pid, signal.SIGKILL)
        while pids := session.members(self.pid):
            session.kill(pids)
            self._process.poll()  # whoever is dead is a member until someone asked for it
            session.reap(pids, but=self.pid)
            time.sleep(POLL_SECONDS)
        self._process.wait()
        self._swept = True

    def end(self, seconds: float) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self.wait(seconds)
        self.kill()  # what it may have left behind
        return code

    def wait(self, seconds: float) -> int:
        """Its exit code when it ends by itself."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise ServiceError(f"{self.name} did not end in {seconds} seconds\n{self.tail()}") from None

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:])

    @property
    def _out(self) -> Path:
        return self._folder / f"{self.name}-{self.starts}.out"

    @property
    def _log(self) -> Path:
        return self._folder / f"{self.name}-{self.starts}.log"
