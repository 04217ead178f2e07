"""The scheduler as a part: one leader among all gathers announcements, keeps schedules, and hands out jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.errors import LakeError, LeaseLost, LeaseTaken
from neve.lake.leases import work_under
from neve.work.metrics import forget_queue, watch_bus, watch_queue
from neve.work.routes import all_topics

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from neve.app.serve.part import Say
    from neve.app.serve.parts.announcing import Noted
    from neve.lake.bus import Bus, Reader
    from neve.lake.documents import Documents
    from neve.lake.leases import Lease
    from neve.work.boxer import Boxer
    from neve.work.job import Job
    from neve.work.jobs import Jobs
    from neve.work.scheduler import Scheduler

LEASE = "serve:scheduler"
LEASE_SECONDS, STANDBY_SECONDS = 15.0, 2.0
GROUP = "boxer"
TURN_SECONDS = 1.0
SCHEDULE_SECONDS, LOOK_SECONDS, AWAY_SECONDS, PRUNE_SECONDS = 5.0, 30.0, 15.0, 3600.0

log = structlog.get_logger("neve.work")


@dataclass(frozen=True)
class DispatchPart:
    """Turns announcements and the clock into jobs, while it is the leader; without a bus, the clock alone.

    `look` is what a leader does twice a minute beside it, `leave` what it does when it leads no more; `instance` tells
    those who stand by which service leads.
    """

    documents: Documents
    bus: Bus
    jobs: Jobs
    noted: Noted
    tables: Callable[[], Sequence[str]]
    boxer: Callable[[Reader], Boxer]
    scheduler: Scheduler
    instance: str
    look: Callable[[], None] = lambda: None
    leave: Callable[[], None] = lambda: None
    name: str = "scheduler"

    def run(self, stop: threading.Event, say: Say) -> None:
        """Lead until told to stop; while another one leads, wait for that one to end."""
        while not stop.is_set():
            try:
                what = f"handing out work by the service {self.instance}"
                with work_under(self.documents, LEASE, seconds=LEASE_SECONDS, what=what) as lease:
                    self._lead(lease, stop, say)
            except LeaseTaken as error:
                say({"standby": error.message})
                stop.wait(STANDBY_SECONDS)
            finally:
                forget_queue()
                self.leave()

    def _lead(self, lease: Lease, stop: threading.Event, say: Say) -> None:
        turns, gathering = Turns(), Gathering(self.bus, self.boxer)
        try:
            while not stop.is_set():
                if turns.due("look", LOOK_SECONDS):
                    tables = self.tables()
                    self.noted.note(tables)
                    gathering.read(all_topics(tables))
                    self.look()
                wanted = gathering.turn(stop)
                if turns.due("schedule", SCHEDULE_SECONDS):
                    lease.check()
                    wanted += self.scheduler.turn()
                    watch_queue(self.jobs)
                    say(gathering.said | {"leader": True})
                if turns.due("prune", PRUNE_SECONDS):
                    self.jobs.prune()
                _tell(wanted)
        finally:
            gathering.close()


class Gathering:
    """The boxer and its reader, opened anew when tables came or went, and when the bus was away."""

    def __init__(self, bus: Bus, boxer: Callable[[Reader], Boxer]) -> None:
        self._bus = bus
        self._make = boxer
        self._topics: list[str] = []
        self._reader: Reader | None = None
        self._boxer: Boxer | None = None
        self._again = 0.0
        self.said: dict[str, object] = {}

    def read(self, topics: list[str]) -> None:
        """Read these topics from now on."""
        if topics != self._topics:
            self.close()
            self._topics = topics
        reader = self._reader
        if reader is not None:
            self._guarded(lambda: watch_bus(reader.lag()))

    def turn(self, stop: threading.Event) -> list[Job]:
        """Gather for a moment; nothing where the bus is away, which is tried again after a while."""
        if self._boxer is None and time.monotonic() < self._again:
            stop.wait(TURN_SECONDS)
            return []
        found: list[Job] = []
        self._guarded(lambda: found.extend(self._opened().turn(TURN_SECONDS)))
        return found

    def _opened(self) -> Boxer:
        if self._boxer is None:
            self._reader = self._bus.reader(GROUP, self._topics)
            self._boxer = self._make(self._reader)
        return self._boxer

    def close(self) -> None:
        """Leave the group of readers."""
        reader, self._reader, self._boxer = self._reader, None, None
        if reader is not None:
            reader.close()

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
            self.said = {}
        except LeaseLost:
            raise
        except LakeError as error:
            if not self.said:
                log.warning("announcements can't be gathered", error=error.message, hint=error.hint)
            self.said = {"error": f"the clock alone starts work: {error.message}"}
            self._again = time.monotonic() + AWAY_SECONDS
            self.close()


class Turns:
    """What is done every so often: the first time at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}

    def due(self, what: str, seconds: float) -> bool:
        """Whether it is time; if so, the next time is so many seconds from now."""
        now = self._clock()
        if now < self._next.get(what, now):
            return False
        self._next[what] = now + seconds
        return True


def _tell(jobs: Sequence[Job]) -> None:
    for job in jobs:
        log.info("job wanted", job=job.id, task=job.task.value, table=job.table, window=job.window, reason=job.reason)
