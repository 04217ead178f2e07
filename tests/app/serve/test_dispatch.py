"""The leader turns announcements and the clock into jobs; the others stand by until it ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.app.policies import build_policy_store
from neve.app.serve.announcer import Announcer
from neve.app.serve.parts import dispatch
from neve.app.serve.parts.announcing import AnnouncePart, Noted
from neve.app.serve.parts.dispatch import DispatchPart, Turns
from neve.app.serve.rules import Rules
from neve.app.settings import Settings
from neve.errors import LakeError
from neve.lake.commits import append_once
from neve.lake.sql_bus import SqlBus
from neve.lake.sql_documents import SqlDocuments
from neve.work.boxer import Boxer
from neve.work.jobs import Jobs
from neve.work.pauses import Pauses
from neve.work.scheduler import Scheduler
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

    from neve.lake.lake import Lake
    from neve.lake.sql_bus_reader import SqlReader
    from neve.lake.state import State

NOW = {"name": "at-once", "tasks": {"rollup": {"batch": {"age_seconds": 0}}, "compact": {"enabled": False}}}


def part(lake: Lake, state: State) -> DispatchPart:
    """A part whose policy rolls up as soon as something was committed."""
    documents, bus = SqlDocuments(state), SqlBus(state)
    jobs = Jobs(documents)
    rules = Rules(build_policy_store(Settings.model_validate({"policies": [NOW]}), documents), Pauses(documents))
    scheduler = Scheduler(documents, jobs, rules.policies, lake.table_names)
    return DispatchPart(
        documents,
        bus,
        jobs,
        Noted(),
        lake.table_names,
        lambda reader: Boxer(documents, reader, jobs, batch_of=lambda task, table: rules.policies().batch(task, table)),
        scheduler,
        "host-1",
    )


class Running:
    """A part in a thread."""

    def __init__(self, one: DispatchPart) -> None:
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


def test_a_commit_becomes_a_job_and_the_next_leader_takes_over(lake: Lake, state: State) -> None:
    """Nobody announces it: the leader looks. Of two, one leads; when that one ends, the other does."""
    first, second = part(lake, state), part(lake, state)
    leader = Running(first)
    try:
        until(lambda: any("leader" in words for words in leader.said))
        other = Running(second)
        try:
            until(lambda: any("service host-1 " in str(words.get("standby")) for words in other.said))
            append_once(lake.table("metrics"), [], batch_id="a", operation="ingest-stream")
            Announcer(lake, first.documents, first.bus).look("metrics")
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
    turns = Turns(lambda: now[0])
    assert turns.due("a", 5)
    assert not turns.due("a", 5)
    assert turns.due("b", 1)
    now[0] = 5.0
    assert turns.due("a", 5)


class AwayBus(SqlBus):
    """A bus that nobody can reach while it is away."""

    away = True

    def reader(self, group: str, topics: Sequence[str]) -> SqlReader:
        """A reader, or none."""
        if self.away:
            raise LakeError("the broker does not answer")
        return super().reader(group, topics)


def test_without_a_bus_the_clock_starts_work(lake: Lake, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, tried again, and over as soon as the bus is back."""
    monkeypatch.setattr(dispatch, "AWAY_SECONDS", 0.1)
    bus = AwayBus(state)
    one = replace(part(lake, state), bus=bus)
    running = Running(one)
    try:
        until(lambda: one.jobs.list(task=Task.SEARCH))
        until(lambda: any("does not answer" in str(words.get("error")) for words in running.said))
        bus.away = False
        until(lambda: running.said and "error" not in running.said[-1] and running.said[-1]["leader"])
    finally:
        running.end()


def test_tables_that_are_noted_are_announced_and_kept_while_the_bus_is_away(lake: Lake, state: State) -> None:
    """Whoever notes a table goes on at once."""

    class Deaf(SqlBus):
        away = True

        def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
            if self.away:
                raise LakeError("the broker does not answer")
            super().publish(topic, messages)

    bus, noted = Deaf(state), Noted()
    announcing = AnnouncePart(Announcer(lake, SqlDocuments(state), bus), noted)
    append_once(lake.table("metrics"), [], batch_id="a", operation="ingest-stream")
    noted.note(["metrics"])
    stop, said = threading.Event(), list[dict[str, object]]()
    thread = threading.Thread(target=announcing.run, args=(stop, lambda words: said.append(dict(words))))
    thread.start()
    until(lambda: any("error" in words for words in said))
    bus.away = False
    stop.set()
    thread.join(600)
    with bus.reader("any", ["other.metrics"]) as reader:
        assert [message.key for message in reader.take(10)] == ["metrics"]
