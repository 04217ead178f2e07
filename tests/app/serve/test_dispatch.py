"""The leader turns announcements and the clock into jobs; the others stand by until it ends."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from neve.app.policies import build_policy_store
from neve.app.serve.announcer import Announcer
from neve.app.serve.parts.dispatch import DispatchPart, Turns
from neve.app.serve.rules import Rules
from neve.app.settings import Settings
from neve.lake.commits import append_once
from neve.lake.sql_bus import SqlBus
from neve.lake.sql_documents import SqlDocuments
from neve.work.boxer import Boxer
from neve.work.jobs import Jobs
from neve.work.pauses import Pauses
from neve.work.scheduler import Scheduler
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake
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
        Announcer(lake, documents, bus),
        lake.table_names,
        lambda reader: Boxer(documents, reader, jobs, batch_of=lambda task, table: rules.policies().batch(task, table)),
        scheduler,
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
        self.thread.join(20)
        assert not self.thread.is_alive()


def until(seen: Callable[[], object], seconds: float = 20) -> None:
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
            until(lambda: any("standby" in words for words in other.said))
            append_once(lake.table("metrics"), [], batch_id="a", operation="ingest-stream")
            first.announcer.look("metrics")
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
