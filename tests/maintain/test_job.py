"""A run: one at a time for a table, remembered, and not stopped by a step that fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.errors import Cancelled, LakeError, LeaseTaken, TableMissing
from neve.maintain import job
from neve.maintain.config import MaintainConfig, OrphansConfig, StatisticsConfig
from neve.maintain.job import FAILURES, RUNS, Maintainer
from neve.maintain.step import Gain, History, Outcome
from neve.state.config import StateConfig
from neve.state.leases import hold_worker_lease
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.lake.lake import Lake
    from neve.maintain.step import StepContext

NAME = "telemetry.spans"


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[SqlDocuments]:
    """A store of its own."""
    store = SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db"))))
    yield store
    store.close()


def test_a_failing_step_does_not_stop_the_next(
    lake: Lake, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told, counted and remembered; orphans are only listed, and listing is not remembered as a removal."""

    def fails(_work: StepContext) -> Outcome:
        raise LakeError("no room left", hint="make room")

    before = [counter.labels("expire", NAME)._value.get() for counter in (RUNS, FAILURES)]
    monkeypatch.setitem(job.STEPS, "expire", fails)
    results = Maintainer(lake, documents=documents).round("spans")
    assert [result.step for result in results] == ["retention", "deletes", "manifests", "tags", "expire", "orphans"]
    assert [result.is_failure for result in results] == [False] * 4 + [True, False]
    assert (results[4].error, results[4].hint) == ("no room left", "make room")
    assert all(result.outcome.reason for result in results)
    remembered = History(documents).runs("telemetry.spans")
    assert {run["step"]: run["error"] for run in remembered}["expire"] == "no room left"
    assert [counter.labels("expire", NAME)._value.get() for counter in (RUNS, FAILURES)] == [one + 1 for one in before]


def test_dry_runs_are_not_remembered_and_take_no_lease(lake: Lake, documents: SqlDocuments) -> None:
    """Looking is free, also while somebody is at work."""
    maintainer = Maintainer(lake, documents=documents)
    with hold_worker_lease(documents, f"maintain:{NAME}", owner="other", seconds=60):
        assert not any(result.is_failure for result in maintainer.round("spans", dry_run=True))
    assert History(documents).runs() == []


def test_one_maintainer_at_a_time(lake: Lake, documents: SqlDocuments) -> None:
    """The second says who is at work, and does nothing; afterwards it can."""
    maintainer = Maintainer(lake, documents=documents)
    with hold_worker_lease(documents, f"maintain:{NAME}", owner="somebody", seconds=60):
        with pytest.raises(LeaseTaken, match="somebody") as taken:
            maintainer.run("spans", ["expire"])
        told = maintainer.report_lease_taken("spans", taken.value)
        assert (told.step, told.table, told.error) == ("lease", NAME, taken.value.message)
        assert told.hint == "wait until it ends; if its holder is dead, take it with --steal"
        [stolen] = replace(maintainer, steal=True).run("spans", ["expire"])
        assert not stolen.is_failure
    [result] = maintainer.run("telemetry.spans", ["expire"])
    assert not result.is_failure


def test_a_round_that_is_cancelled_ends(lake: Lake, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch) -> None:
    """No step has failed, none comes after it, and the lease is free."""

    def given_up(_work: StepContext) -> Outcome:
        raise Cancelled("it was told to stop")

    monkeypatch.setitem(job.STEPS, "deletes", given_up)
    with pytest.raises(Cancelled):
        Maintainer(lake, documents=documents).round("spans")
    assert [(run["step"], run["error"]) for run in History(documents).runs()] == [("retention", None)]
    with hold_worker_lease(documents, f"maintain:{NAME}", owner="other", seconds=60):
        pass


def test_a_table_that_is_not_there_is_an_error(lake: Lake) -> None:
    """Of whoever called."""
    with pytest.raises(TableMissing, match=r"no table sales\.orders"):
        Maintainer(lake).run("sales.orders", ["expire"])


def test_the_history_is_by_table_and_forgets(
    lake: Lake, documents: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest first, by table and step, with what it gained and cost; what is too old goes."""
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    monkeypatch.setitem(job.STEPS, "expire", lambda _work: Outcome("done", True, gain=Gain(snapshots=3)))
    monkeypatch.setitem(job.STEPS, "tags", lambda _work: Outcome("none due"))
    maintainer = Maintainer(lake, MaintainConfig(history_days=10), documents=documents, clock=lambda: clock[0])
    for days in (0, 5, 11):
        clock[0] = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=days)
        maintainer.run("spans", ["expire", "tags"])
        maintainer.run("logs", ["expire"])
    history = History(documents)
    runs = history.runs("telemetry.spans")
    assert [(run["started_at"][:10], run["step"]) for run in runs if run["step"] == "expire"] == [
        ("2026-01-12", "expire"),
        ("2026-01-06", "expire"),
    ]
    assert runs[-1]["gain"]["snapshots"] in (0, 3)
    assert len(history.runs(step="tags")) == 2
    assert len(history.runs(limit=1)) == 1


def test_the_steps_of_a_round_are_those_that_are_set(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics only where they are enabled; orphans are removed only where that is."""
    seen: list[bool] = []

    def look(work: StepContext) -> Outcome:
        seen.append(work.dry_run)
        return Outcome("looked")

    monkeypatch.setitem(job.STEPS, "orphans", look)
    monkeypatch.setitem(job.STEPS, "statistics", lambda _work: Outcome("computed"))
    for delete in (False, True):
        config = MaintainConfig(orphans=OrphansConfig(delete=delete), statistics=StatisticsConfig(enabled=True))
        steps = [result.step for result in Maintainer(lake, config).round("spans")]
        assert steps.index("statistics") < steps.index("tags") < steps.index("expire") < steps.index("orphans")
    assert seen == [True, False]
