"""Little parts, and a store for what they say."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.app.serve.config import ServeConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.serve.part import ReportDetails

# Failures are followed by a new start at once; the end may take as long as a busy machine makes it.
QUICK = ServeConfig(drain_seconds=600, restart_first_seconds=0.02, restart_most_seconds=0.1)


@dataclass
class Steady:
    """A part that runs until it is told to stop, and finishes its work then."""

    name: str = "steady"
    finished: bool = False
    may_finish: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        """Let it finish as soon as it is told to stop."""
        self.may_finish.set()

    def run(self, stop: threading.Event, say: ReportDetails) -> None:
        """Wait."""
        say({"calm": True})
        stop.wait()
        self.may_finish.wait()
        self.finished = True


@dataclass
class Failing:
    """A part that fails a few times, and runs well then; with `late` it fails once more when it is told to stop."""

    error: Exception
    times: int
    name: str = "failing"
    late: bool = False
    starts: list[float] = field(default_factory=list)

    def run(self, stop: threading.Event, say: ReportDetails) -> None:
        """Fail, or wait."""
        self.starts.append(time.monotonic())
        if len(self.starts) <= self.times:
            raise self.error
        say({"attempt": len(self.starts)})
        stop.wait()
        if self.late:
            raise self.error


@dataclass
class Deaf:
    """A part that does not hear that it should stop."""

    name: str = "deaf"
    wakes: threading.Event = field(default_factory=threading.Event)

    def run(self, _stop: threading.Event, say: ReportDetails) -> None:
        """Wait for something else."""
        say({})
        self.wakes.wait()


def wait_until(happened: Callable[[], bool], seconds: float = 600.0) -> None:
    """Return when something has happened; fails when it does not in time."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
