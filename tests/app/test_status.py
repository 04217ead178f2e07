"""How the lake and those who tend it are: what is counted, what is behind, and what can't be looked at."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.app.control import count_queue, open_control
from neve.app.lake_reports import LagReader, TableReports
from neve.compact.compactor import Compactor
from neve.compact.plan import Request
from neve.errors import LakeError
from neve.jobs.job import Job, JobState, Task
from neve.lake.lake import Lake
from neve.lake.ttl_cache import TtlCache
from neve.model.signals import Signal
from neve.raw.zone import OTLP, RawZone
from tests.app.control_lake import control_settings, controlled, dead_job, done_job, running_job, some_parts
from tests.query.lakes import logs, put

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.control import Control
    from neve.compact.health import TableHealth

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[Control]:
    """The control of a small lake with work in every state."""
    with controlled(tmp_path_factory.mktemp("lake")) as found:
        running_job(found.documents)
        done_job(found.documents)
        dead_job(found.documents)
        some_parts(found.documents)
        found.start(Task.COMPACT, "logs", "2026-01-31", reason="by hand")
        found.pause(Task.MAINTAIN, "*", by="me", reason="migration", until=None)
        yield found


def test_work_is_counted_by_task_and_state(control: Control) -> None:
    """Every task has a line, also one that has no jobs."""
    status = control.status()
    assert {one.task: (one.queued, one.running, one.dead) for one in status.queues} == {
        "compact": (1, 1, 0),
        "maintain": (0, 0, 0),
        "rollup": (0, 0, 0),
        "search": (0, 0, 1),
        "series": (0, 0, 0),
        "traces": (0, 0, 0),
        "autopilot": (0, 0, 0),
        "simulate": (0, 0, 0),
        "layout": (0, 0, 0),
    }
    assert [(job.table, job.progress.step, job.progress.done) for job in status.running] == [("spans", "groups", 3)]
    assert [(job.table, job.outcome) for job in status.ended] == [("metrics_1m", "12 rows in 3 windows")]
    assert [(job.table, job.hint) for job in status.dead] == [("logs", "remove it")]
    assert [(part.name, part.state, part.restarts) for part in status.parts] == [
        ("ingest:raw", "running", 0),
        ("tail", "failed", 3),
    ]
    assert [(one.task, one.reason) for one in status.pauses] == [("maintain", "migration")]


def test_a_status_is_the_same_after_it_went_over_the_wire(control: Control) -> None:
    """What a server sends is what its client shows."""
    status = control.status()
    assert type(status).model_validate(status.plain) == status


def test_what_is_behind_is_told(control: Control) -> None:
    """Tables by their last commit, levels by their windows, the selector by its cycles."""
    lags = control.status().lags
    assert lags.unknown == []
    ages = {one.table: one.age_seconds for one in lags.tables}
    assert ages["metrics_1m"] is None
    assert 0 <= (ages["spans"] or 0.0) < 600
    assert [one.level for one in lags.rollups] == ["1m", "5m", "1h", "1d"]
    assert lags.tail is not None
    assert (lags.tail.cycle, lags.tail.behind) == (0, "all")


def test_what_was_received_and_not_taken_in_is_told(control: Control, tmp_path: Path) -> None:
    """How much, and for how long the oldest of it waits."""
    settings = control_settings(tmp_path)
    zone = RawZone.of(settings.raw.location, settings.s3, OTLP)
    folder = tmp_path / "raw" / OTLP / "host-1"
    folder.mkdir(parents=True)
    for number, age in ((0, 500), (1, 60), (2, 5)):
        segment = folder / f"{number:020}.raw"
        segment.write_bytes(b"x" * 100)
        os.utime(segment, (time.time() - age, time.time() - age))
    zone.mark_consumed({"host-1": 1})
    otlp, events = LagReader(settings, control.lake).look().zones
    assert (otlp.zone, otlp.segments, otlp.bytes) == ("otlp", 2, 200)
    assert 55 < otlp.oldest_seconds < 120
    assert (events.segments, round(events.oldest_seconds)) == (0, 0)


def test_what_can_not_be_looked_at_is_said(control: Control) -> None:
    """And keeps nothing else from being told."""

    class Broken(Lake):
        """A lake whose tables can't be read."""

        def table(self, name: str) -> object:  # type: ignore[override]
            """Never."""
            raise LakeError(f"{name} can't be read")

        table_metadata = table  # type: ignore[assignment]

    lake = Broken(control.lake.lake, control.lake.catalog_config)
    lags = LagReader(control.settings, lake).look()
    assert (lags.tables, lags.rollups, lags.tail) == ([], [], None)
    assert len(lags.zones) == 2
    assert lags.unknown == [
        "the tables: audit can't be read",
        "the rollups: metrics_1m can't be read",
        "tail sampling: trace_decisions can't be read",
    ]


def test_a_lake_that_is_not_there_has_a_status(tmp_path: Path) -> None:
    """With nothing in it; looking makes nothing."""
    settings = control_settings(tmp_path)
    with open_control(settings, Lake(settings.lake, settings.catalog)) as control:
        status = control.status()
    assert (status.parts, status.lags.tables, status.lags.tail, status.lags.unknown) == ([], [], None, [])


def test_tables_are_looked_at_again_when_they_changed(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or when the last look is old: a look is dear."""
    looked, now = [], [0.0]

    class Counted(Compactor):
        """Counts how often tables are looked at."""

        def health(self, name: str, request: Request = Request()) -> TableHealth:  # noqa: B008 - frozen
            """How a table is."""
            looked.append(name)
            return super().health(name, request)

    compactor = Counted(control.lake, documents=control.documents)
    reports = TableReports(lambda: compactor, monotonic=lambda: now[0])
    names = [one.name for one in reports.all() if not one.error]
    assert looked == names == control.lake.table_names()
    reports.all()
    assert looked == names
    put(control.lake, "acme", Signal.LOGS, logs("third"), batch="again")
    [changed] = [one for one in reports.all() if one.name == "logs"]
    assert (looked, changed.rows) == ([*names, "logs"], 4)
    now[0] = 60.0
    reports.all()
    assert looked == [*names, "logs", *names]


def test_a_dear_value_is_made_once_in_a_while() -> None:
    """And what could not be made is not kept."""
    now, made = [0.0], []

    def make() -> int:
        made.append(now[0])
        if len(made) == 1:
            raise LakeError("not now")
        return len(made)

    kept = TtlCache(make, 5, lambda: now[0])
    with pytest.raises(LakeError):
        kept.get()
    assert (kept.get(), kept.get()) == (2, 2)
    now[0] = 5.0
    assert kept.get() == 3


@given(waits=st.lists(st.integers(-3600, 3600), max_size=5), running=st.integers(0, 3), dead=st.integers(0, 3))
def test_the_oldest_is_the_one_that_could_have_begun_first(waits: list[int], running: int, dead: int) -> None:
    """One that waits for its time has not waited at all."""
    states = [*([JobState.RUNNING] * running), *([JobState.DEAD] * dead)]
    jobs = [_job(JobState.QUEUED, wait) for wait in waits] + [_job(state, 9999) for state in states]
    found = count_queue(Task.COMPACT, jobs, NOW)
    assert (found.queued, found.running, found.dead) == (len(waits), running, dead)
    assert found.oldest_seconds == (max(0, *waits) if waits else None)
    assert count_queue(Task.SEARCH, jobs, NOW).oldest_seconds is None


def _job(state: JobState, wait: int) -> Job:
    begins = NOW - timedelta(seconds=wait)
    return Job("1", Task.COMPACT, "spans", "", "because", created=begins, not_before=begins, state=state)
