"""A compactor as a real process: started early, let go when its round begins, and killed."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.chaos.house import COMPILED_ONCE
from tests.chaos.service import POLL_SECONDS, Service, ServiceError
from tests.race.compactor import DEATH
from tests.race.deaths import Point
from tests.race.house import LEASE_SECONDS

if TYPE_CHECKING:
    from tests.race.deaths import Death

ROOT = Path(__file__).parents[2]
START_SECONDS = 120.0
STALL_SECONDS = LEASE_SECONDS + 3  # another one has the time to settle what the one that sleeps began
LINGER_SECONDS = 1.5  # a JVM that lost its Python may still commit


class Child:
    """One compactor and its death."""

    def __init__(self, name: str, folder: Path, death: Death, patience: float) -> None:
        self.death = death
        self.hit = False
        self._patience = patience
        self._gate = folder / name
        command = [sys.executable, "-m", "tests.race.compactor", str(folder), str(self._gate)]
        self._service = Service(name, command, folder, {**COMPILED_ONCE, DEATH: death.words, **_path()})
        self._executioner = threading.Thread(target=self._end_it, name=f"death of {name}", daemon=True)

    def start(self) -> None:
        """Start the process; it waits before its first run."""
        self._service.start()

    def let_go(self) -> None:
        """Wait until it is ready, and let it run to its death."""
        if not self._service.wait_until(lambda _service: bool(self.events("ready")), START_SECONDS):
            raise ServiceError(f"{self._service.name} is not ready\n{self._service.tail()}")
        self._gate.touch()
        self._executioner.start()

    @property
    def is_dead(self) -> bool:
        """Whether nothing of it is left."""
        return not self._executioner.is_alive()

    def wait(self) -> None:
        """Wait for its death."""
        self._executioner.join()

    def kill(self) -> None:
        """Kill it now, whatever it does."""
        self._service.kill()

    def events(self, kind: str) -> list[dict[str, Any]]:
        """What it said of one kind."""
        said = [json.loads(line) for line in self._service.lines() if line.startswith("{")]
        return [event for event in said if event["event"] == kind]

    @property
    def tail(self) -> str:
        """The end of its log."""
        return self._service.tail()

    def _end_it(self) -> None:
        deadline = time.monotonic() + self._patience
        while not self._service.ended and not self._is_due() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.hit = self._is_due()
        if self.hit:
            self._let_live_on()
        self._service.kill()

    def _let_live_on(self) -> None:
        if self.death.point is Point.STALLED:
            time.sleep(STALL_SECONDS)
            os.killpg(self._service.pid, signal.SIGCONT)
        if self.death.point in (None, Point.STALLED):
            time.sleep(self.death.seconds)
        if self.death.point is Point.ORPHANED:
            time.sleep(LINGER_SECONDS)

    def _is_due(self) -> bool:
        if self.death.point is None:
            return len(self.events("begin")) >= self.death.number
        return bool(self.events("dies"))


def _path() -> dict[str, str]:
    """The process has another folder than this one, and finds these tests all the same."""
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
