"""The leader turns announcements and the clock into jobs; the others stand by until it ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from neve.app.serve.parts import scheduler
from neve.app.serve.parts.announcer import Announcer, AnnouncerPart, ChangedTables
from neve.app.serve.parts.build import ActiveRules
from neve.app.serve.parts.scheduler import BusGatherer, Intervals, SchedulerPart, StoreGatherer
from neve.app.settings import Settings
from neve.app.wiring import build_policy_store
from neve.errors import LakeError
from neve.jobs.batcher import PendingBatches
from neve.jobs.job import Task
from neve.jobs.pauses import Pauses
from neve.jobs.queue import JobQueue
from neve.jobs.scheduler import Scheduler
from neve.lake.commit.append import append_once
from neve.state.sql_documents import SqlDocuments
from tests.contracts.memory_bus import MemoryBus

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pytest

    from neve.jobs.routing import Announcement
    from neve.lake.lake import Lake
    from neve.state.store import StateStore
    from tests.contracts.memory_bus import MemoryReader

NOW = {"name": "at-once", "tasks": {"rollup": {"batch": {"age_seconds": 0}}, "compact": {"enabled": False}}}


def part(lake: Lake, state: StateStore, bus: MemoryBus | None = None) -> SchedulerPart:
    """A part whose policy rolls up as soon as something was committed."""
    documents = SqlDocuments(state)
    jobs = JobQueue(documents)
    rules = ActiveRules(build_policy_store(Settings.model_validate({"policies": [NOW]}), documents), Pauses(documents))
    scheduler = Scheduler(documents, jobs, rules.policies, lake.table_names)
    pending = pending_of(documents, rules)
    return SchedulerPart(
        documents,
        jobs,
        ChangedTables(),
        lake.table_names,
        lambda: StoreGatherer(pending, jobs) if bus is None else BusGatherer(bus, pending, jobs),
        scheduler,
        "host-1",
    )


def pending_of(documents: SqlDocuments, rules: ActiveRules | None = None) -> PendingBatches:
    """The batches of a store, by the policy of these tests."""
    settings = Settings.model_validate({"policies": [NOW]})
    rules = rules or ActiveRules(build_policy_store(settings, documents), Pauses(documents))
    return PendingBatches(documents, batch_of=lambda task, table: rules.policies().batch(task, table))


class Running:
    """A part in a thread."""

    def __init__(self, one: SchedulerPart) -> None:
        self.stop, self.said = threading.Event(), list[dict[str, object]]()
        self.thread = threading.Thread(target=one.run, args=(self.stop, lambda words: self.said.append(dict(words))))
        self.thread.start()

    def end(self) -> None:
        """Tell it to stop, and wait for it."""
        self.stop.set()
        self.thread.join(600)
        assert not self.thread.is_alive()


def until(seen: Callable[[], object], seconds: float = 600.0) -> None:
    """Wait for something to happen."""
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_commit_becomes_a_job_and_the_next_leader_takes_over(lake: Lake, state: StateStore) -> None:
    """Nobody announces it: the leader looks. Of two, one leads; when that one ends, the other does."""
    first, second = part(lake, state), part(lake, state)
    leader = Running(first)
    try:
        until(lambda: any("leader" in words for words in leader.said))
        other = Running(second)
        try:
            until(lambda: any("instance host-1 " in str(words.get("standby")) for words in other.said))
            append_once(lake.table("metrics"), [], batch_id="a", operation="ingest-stream")
            announced = pending_of(SqlDocuments(state))
            Announcer(lake, first.documents, lambda _table, told: announced.add(told)).look("metrics")
            until(lambda: first.jobs.list(task=Task.ROLLUP))
            assert [job.table for job in first.jobs.list(task=Task.ROLLUP)] == ["metrics_1m"]
            assert not first.jobs.list(task=Task.COMPACT)
            leader.end()
            until(lambda: any("leader" in words for words in other.said))
        finally:
            other.end()
    finally:
        leader.end()


def test_turns() -> None:
    """The first is at once, the next when its time has come."""
    now = [0.0]
    turns = Intervals(lambda: now[0])
    assert turns.due("a", 5)
    assert not turns.due("a", 5)
    assert turns.due("b", 1)
    now[0] = 5.0
    assert turns.due("a", 5)


class AwayBus(MemoryBus):
    """A bus that nobody can reach while it is away."""

    away = True

    def reader(self, group: str, topics: Sequence[str]) -> MemoryReader:
        """A reader, or none."""
        if self.away:
            raise LakeError("the broker does not answer")
        return super().reader(group, topics)


def test_without_a_bus_the_clock_starts_work(lake: Lake, state: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, tried again, and over as soon as the bus is back."""
    monkeypatch.setattr(scheduler, "AWAY_SECONDS", 0.1)
    bus = AwayBus()
    one = part(lake, state, bus)
    running = Running(one)
    try:
        until(lambda: one.jobs.list(task=Task.SEARCH))
        until(lambda: any("does not answer" in str(words.get("error")) for words in running.said))
        bus.away = False
        until(lambda: running.said and "error" not in running.said[-1] and running.said[-1]["leader"])
    finally:
        running.end()


def test_tables_that_are_noted_are_announced_and_kept_while_the_bus_is_away(lake: Lake, state: StateStore) -> None:
    """Whoever notes a table goes on at once."""
    away, taken, noted = threading.Event(), list[str](), ChangedTables()
    away.set()

    def publish(table: str, _told: Sequence[Announcement]) -> None:
        if away.is_set():
            raise LakeError("the broker does not answer")
        taken.append(table)

    announcing = AnnouncerPart(Announcer(lake, SqlDocuments(state), publish), noted, "bus")
    append_once(lake.table("metrics"), [], batch_id="a", operation="ingest-stream")
    noted.note(["metrics"])
    stop, said = threading.Event(), list[dict[str, object]]()
    thread = threading.Thread(target=announcing.run, args=(stop, lambda words: said.append(dict(words))))
    thread.start()
    until(lambda: any("error" in words for words in said))
    away.clear()
    stop.set()
    thread.join(600)
    assert taken == ["metrics"]
