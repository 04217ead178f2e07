"""What handlers make of jobs, as far as no engine is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from neve.app.serve.parts.build import _PartBuilder
from neve.app.serve.parts.worker import MAX_LEASE_SECONDS, JobHandlers, WorkerPart, build_progress
from neve.app.settings import Settings
from neve.errors import Cancelled, LakeError, LeaseTaken
from neve.ingest.spark_crashes import engine_is_gone
from neve.jobs.job import Task
from neve.jobs.queue import JobQueue
from neve.maintain import job as maintenance
from neve.maintain.step import History
from neve.maintain.step import Outcome as Step
from neve.state.config import StateConfig
from neve.state.leases import find_lease_holder, hold_worker_lease
from neve.state.sql_documents import SqlDocuments

if TYPE_CHECKING:
    from pathlib import Path

    from neve.jobs.worker import Outcome
    from neve.lake.lake import Lake
    from neve.maintain.step import StepContext
    from neve.state.store import StateStore


@dataclass
class Asked:
    """A report that keeps what it is told; `cancelled` is what the handler is told."""

    is_cancelled: bool = False
    said: list[tuple[str, int, int]] = field(default_factory=list)

    def progress(self, step: str, done: int, total: int) -> None:
        """Keep it."""
        self.said.append((step, done, total))


@pytest.fixture
def documents(state: StateStore) -> SqlDocuments:
    """What all who share the lake see."""
    return SqlDocuments(state)


@pytest.fixture
def handlers(lake: Lake, documents: SqlDocuments, tmp_path: Path) -> JobHandlers:
    """The work of a lake without an engine."""
    settings = Settings().model_copy(update={"state": StateConfig(path=f"{tmp_path}/state.db")})
    return JobHandlers(settings, lake, documents)


def done_by(handlers: JobHandlers, task: Task, table: str, report: Asked | None = None) -> Outcome:
    """What comes of a job."""
    job = JobQueue(handlers.documents).request(task, table, reason="test")
    return handlers.of(task)(job, report or Asked())


def test_what_is_cancelled_ends_at_its_next_step() -> None:
    """Unless that is its last: then it is done."""
    report = Asked()
    tell = build_progress(report)
    tell("groups", 1, 3)
    report.is_cancelled = True
    with pytest.raises(Cancelled, match="at 2 of 3 of groups"):
        tell("groups", 2, 3)
    tell("groups", 3, 3)
    assert report.said == [("groups", 1, 3), ("groups", 2, 3), ("groups", 3, 3)]


def test_maintenance_says_what_changed(handlers: JobHandlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, with the reason of each step for programs."""
    monkeypatch.setitem(maintenance.STEPS, "expire", lambda _work: Step("3 snapshots went", changed=True))
    outcome = done_by(handlers, Task.MAINTAIN, "spans")
    assert outcome.words == "expire: 3 snapshots went"
    assert list(outcome.result) == ["retention", "deletes", "manifests", "tags", "expire", "orphans"]


def test_maintenance_that_fails_names_the_step(handlers: JobHandlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """And counts as an attempt."""

    def fails(_work: StepContext) -> Step:
        raise LakeError("no room left")

    monkeypatch.setitem(maintenance.STEPS, "tags", fails)
    with pytest.raises(LakeError, match=r"^maintenance of spans: tags: no room left$"):
        done_by(handlers, Task.MAINTAIN, "spans")


def test_maintenance_of_a_table_that_another_one_is_at_is_no_failure(
    handlers: JobHandlers, documents: SqlDocuments
) -> None:
    """The worker sees who is at it, and puts the job back without counting it."""
    with (
        hold_worker_lease(documents, "maintain:telemetry.spans", owner="somebody", seconds=60),
        pytest.raises(LeaseTaken, match="somebody"),
    ):
        done_by(handlers, Task.MAINTAIN, "spans")


def test_maintenance_that_is_cancelled_ends(
    handlers: JobHandlers, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps after it are not begun, and none is remembered as failed."""

    def long(work: StepContext) -> Step:
        work.report_progress("retention", 1, 2)
        return Step("it went on")

    monkeypatch.setitem(maintenance.STEPS, "retention", long)
    with pytest.raises(Cancelled):
        done_by(handlers, Task.MAINTAIN, "spans", Asked(is_cancelled=True))
    assert History(documents).runs() == []


def test_workers_hold_what_they_work_at_for_a_short_time(
    handlers: JobHandlers, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a killed one's job is gone on with as soon as it is claimed again."""
    seen: list[float] = []

    def look(_work: StepContext) -> Step:
        holder = find_lease_holder(documents, "maintain:telemetry.spans")
        assert holder is not None
        seen.append((holder.until - documents.now()).total_seconds())
        return Step("looked")

    monkeypatch.setitem(maintenance.STEPS, "tags", look)
    [part, *_others] = _PartBuilder(handlers.settings, handlers.lake, "here").workers([Task.MAINTAIN])
    assert isinstance(part, WorkerPart)
    part.worker.handlers[Task.MAINTAIN](JobQueue(documents).request(Task.MAINTAIN, "spans", reason="test"), Asked())
    [seconds] = seen
    assert 0 < seconds <= MAX_LEASE_SECONDS


def test_workers_ask_whether_the_engine_lives(handlers: JobHandlers) -> None:
    """As the process does that they are in."""
    parts = _PartBuilder(handlers.settings, handlers.lake, "here").workers([Task.MAINTAIN])
    assert [part.worker.engine_is_gone for part in parts if isinstance(part, WorkerPart)] == [engine_is_gone] * 2
