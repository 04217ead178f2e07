"""The scheduler part: one leader batches announcements, runs schedules and queues jobs; the others are on standby."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from neve.errors import LakeError, LeaseLost, LeaseTaken
from neve.jobs.batcher import Batcher
from neve.jobs.metrics import clear_queue, update_bus_lag, update_queue
from neve.jobs.routing import list_topics
from neve.logger import get_logger
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Sequence

    from neve.app.serve.part import ReportDetails
    from neve.app.serve.parts.announcer import ChangedTables
    from neve.jobs.batcher import PendingBatches
    from neve.jobs.job import Job
    from neve.jobs.queue import JobQueue
    from neve.jobs.scheduler import Scheduler
    from neve.state.bus import Bus, Reader
    from neve.state.documents import Documents
    from neve.state.leases import Lease

LEASE = "serve:scheduler"
LEASE_SECONDS, STANDBY_SECONDS = 15.0, 2.0
GROUP = "boxer"
TURN_SECONDS = 1.0
SCHEDULE_SECONDS, LOOK_SECONDS, AWAY_SECONDS, PRUNE_SECONDS = 5.0, 30.0, 15.0, 3600.0

log = get_logger("neve.jobs")


@dataclass(frozen=True)
class SchedulerPart:
    """Part that turns announcements and the clock into jobs while it is the leader.

    `look` runs twice a minute on the leader, and `leave` when it stops leading. `instance` names the leading service to
    the instances on standby.
    """

    documents: Documents
    jobs: JobQueue
    changed_tables: ChangedTables
    tables: Callable[[], Sequence[str]]
    gather: Callable[[], Gatherer]
    scheduler: Scheduler
    instance: str
    look: Callable[[], None] = lambda: None
    leave: Callable[[], None] = lambda: None
    name: str = "scheduler"

    def run(self, stop: threading.Event, report: ReportDetails) -> None:
        """Lead until asked to stop; while another instance leads, be on standby."""
        while not stop.is_set():
            try:
                what = f"the scheduler of instance {self.instance}"
                with hold_worker_lease(self.documents, LEASE, seconds=LEASE_SECONDS, what=what) as lease:
                    self._lead(lease, stop, report)
            except LeaseTaken as error:
                report({"standby": error.message})
                stop.wait(STANDBY_SECONDS)
            finally:
                clear_queue()
                self.leave()

    def _lead(self, lease: Lease, stop: threading.Event, report: ReportDetails) -> None:
        turns, gathering = Intervals(), self.gather()
        try:
            while not stop.is_set():
                if turns.due("look", LOOK_SECONDS):
                    tables = self.tables()
                    self.changed_tables.note(tables)
                    gathering.read(list_topics(tables))
                    self.look()
                wanted = gathering.turn(stop)
                if turns.due("schedule", SCHEDULE_SECONDS):
                    lease.check()
                    wanted += self.scheduler.turn()
                    update_queue(self.jobs)
                    report(gathering.status | {"leader": True})
                if turns.due("prune", PRUNE_SECONDS):
                    self.jobs.prune()
                _log_jobs(wanted)
        finally:
            gathering.close()


class Gatherer(Protocol):
    """Source of jobs from announcements and their status."""

    status: dict[str, object]

    def read(self, topics: list[str]) -> None:
        """Use these topics from now on."""

    def turn(self, stop: threading.Event) -> list[Job]:
        """Wait a moment for announcements, and return the jobs that were requested."""

    def close(self) -> None:
        """End it."""


class StoreGatherer:
    """Jobs of the pending batches of the state store, to which announcers add by themselves."""

    def __init__(self, pending: PendingBatches, jobs: JobQueue) -> None:
        self._pending, self._jobs = pending, jobs
        self.status: dict[str, object] = {}

    def read(self, topics: list[str]) -> None:
        """Do nothing: the store has no topics."""

    def turn(self, stop: threading.Event) -> list[Job]:
        """Wait a moment, and request the jobs of due batches."""
        stop.wait(TURN_SECONDS)
        return self._pending.request_jobs(self._jobs)

    def close(self) -> None:
        """Do nothing: the store belongs to the caller."""


class BusGatherer:
    """The batcher and its bus reader. While the bus is unavailable, the clock alone starts jobs.

    Both are reopened when tables are created or dropped, and after the bus was unavailable.
    """

    def __init__(self, bus: Bus, pending: PendingBatches, jobs: JobQueue) -> None:
        self._bus = bus
        self._pending, self._jobs = pending, jobs
        self._topics: list[str] = []
        self._reader: Reader | None = None
        self._batcher: Batcher | None = None
        self._again = 0.0
        self.status: dict[str, object] = {}

    def read(self, topics: list[str]) -> None:
        """Read these topics from now on."""
        if topics != self._topics:
            self.close()
            self._topics = topics
        reader = self._reader
        if reader is not None:
            self._run_guarded(lambda: update_bus_lag(reader.lag()))

    def turn(self, stop: threading.Event) -> list[Job]:
        """Collect announcements for a moment; returns no jobs while the bus is unavailable, and retries later."""
        if self._batcher is None and time.monotonic() < self._again:
            stop.wait(TURN_SECONDS)
            return []
        found: list[Job] = []
        self._run_guarded(lambda: found.extend(self._open_batcher().turn(TURN_SECONDS)))
        return found

    def _open_batcher(self) -> Batcher:
        if self._batcher is None:
            self._reader = self._bus.reader(GROUP, self._topics)
            self._batcher = Batcher(self._reader, self._pending, self._jobs)
        return self._batcher

    def close(self) -> None:
        """Leave the consumer group."""
        reader, self._reader, self._batcher = self._reader, None, None
        if reader is not None:
            reader.close()

    def _run_guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
            self.status = {}
        except LeaseLost:
            raise
        except LakeError as error:
            if not self.status:
                log.warning("announcements can't be read", error=error.message, hint=error.hint)
            self.status = {"error": f"only schedules start jobs: {error.message}"}
            self._again = time.monotonic() + AWAY_SECONDS
            self.close()


class Intervals:
    """Timers of periodic actions; the first time is at once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[str, float] = {}

    def due(self, what: str, seconds: float) -> bool:
        """Return whether an action is due; if so, schedule its next time after these seconds."""
        now = self._clock()
        if now < self._next.get(what, now):
            return False
        self._next[what] = now + seconds
        return True


def _log_jobs(jobs: Sequence[Job]) -> None:
    for job in jobs:
        log.info("job queued", job=job.id, task=job.task.value, table=job.table, window=job.window, reason=job.reason)
