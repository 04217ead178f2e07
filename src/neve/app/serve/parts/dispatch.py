"""The scheduler as a part: one leader among all gathers announcements, keeps schedules, and hands out jobs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.errors import LeaseTaken
from neve.lake.leases import work_under
from neve.work.metrics import watch_queue
from neve.work.routes import all_topics

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from neve.app.serve.announcer import Announcer
    from neve.app.serve.part import Say
    from neve.lake.bus import Bus, Reader
    from neve.lake.documents import Documents
    from neve.lake.leases import Lease
    from neve.work.boxer import Boxer
    from neve.work.jobs import Jobs
    from neve.work.scheduler import Scheduler

LEASE = "serve:scheduler"
LEASE_SECONDS, STANDBY_SECONDS = 15.0, 2.0
GROUP = "boxer"
TURN_SECONDS = 1.0
SCHEDULE_SECONDS, LOOK_SECONDS, PRUNE_SECONDS = 5.0, 30.0, 3600.0

log = structlog.get_logger("neve.work")


@dataclass(frozen=True)
class DispatchPart:
    """Turns announcements and the clock into jobs, while it is the leader."""

    documents: Documents
    bus: Bus
    jobs: Jobs
    announcer: Announcer
    tables: Callable[[], Sequence[str]]
    boxer: Callable[[Reader], Boxer]
    scheduler: Scheduler
    name: str = "scheduler"

    def run(self, stop: threading.Event, say: Say) -> None:
        """Lead until told to stop; while another one leads, wait for that one to end."""
        while not stop.is_set():
            try:
                with (
                    work_under(self.documents, LEASE, seconds=LEASE_SECONDS, what="handing out work") as lease,
                    self.bus.reader(GROUP, all_topics(self.tables())) as reader,
                ):
                    self._lead(self.boxer(reader), lease, stop, say)
            except LeaseTaken as error:
                say({"standby": error.message})
                stop.wait(STANDBY_SECONDS)

    def _lead(self, boxer: Boxer, lease: Lease, stop: threading.Event, say: Say) -> None:
        turns = Turns()
        while not stop.is_set():
            if turns.due("look", LOOK_SECONDS):
                self.announcer.look_at(self.tables())
            wanted = boxer.turn(TURN_SECONDS)
            if turns.due("schedule", SCHEDULE_SECONDS):
                lease.check()
                wanted += self.scheduler.turn()
                watch_queue(self.jobs)
                say({"leader": True, "jobs": {state.value: count for state, count in self.jobs.counts().items()}})
            if turns.due("prune", PRUNE_SECONDS):
                self.jobs.prune()
            for job in wanted:
                log.info(
                    "job wanted", job=job.id, task=job.task.value, table=job.table, window=job.window, reason=job.reason
                )


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
