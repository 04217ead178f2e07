"""The journal: what a run leaves for the next one survives the way into the store and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from neve.compact.execution.rewritten_group import Fingerprint, RewrittenGroup
from neve.compact.journal import RUNS, Entry, Journal, Stage
from neve.compact.plan import Estimate, Executor, Group, InputFile, Layout, Level, Partition, Plan
from tests.compact.tables import documents_in

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 31, tzinfo=UTC)
GROUP = Group(
    id="g1",
    partition=Partition(3, ("acme", "2026-01-31", None, 7, 1.5, True), "organization_id=acme/…"),
    files=(InputFile("s3://b/1.parquet", 10, 5, 2, sort_order_id=1, delete_files=1, deleted_rows=2),),
    level=Level.MAJOR,
    strategy="deletes",
    layout=Layout("sort", ("a", "b")),
    executor=Executor.SPARK,
    executor_reason="deletes",
    reason="because",
    estimate=Estimate(1, 10, 0.5, 7, 0.001),
)
PLAN = Plan(
    "run1",
    "telemetry.logs",
    1 << 62,
    9,
    "adaptive",
    512,
    "why",
    61.5,
    3,
    30,
    1,
    (GROUP,),
    check_duplicates=(GROUP.partition,),
)
DONE = RewrittenGroup(
    "g1",
    Executor.SPARK,
    ({"file-path": "x", "file-size-in-bytes": 4},),
    Fingerprint(5, 1 << 70),
    Fingerprint(5, 1 << 70),
    1.5,
)


def test_what_was_noted_comes_back(tmp_path: Path) -> None:
    """Runs with their plans, groups with what was written, numbers larger than JSON is sure of."""
    journal = Journal(documents_in(tmp_path), "telemetry.logs")
    journal.begin(PLAN, "file:///data/neve-run1", NOW)
    journal.note("run1", Entry(GROUP, Stage.PUBLISHING, DONE, "compact:run1:0", 1 << 61, "words"))
    [run] = journal.runs()
    assert (run.plan, run.folder, run.snapshot_id) == (PLAN, "file:///data/neve-run1", 1 << 62)
    assert journal.entries("run1") == [Entry(GROUP, Stage.PUBLISHING, DONE, "compact:run1:0", 1 << 61, "words")]
    journal.end("run1")
    assert not list(journal.runs())
    assert not journal.entries("run1")


def test_tables_do_not_see_each_other(tmp_path: Path) -> None:
    """Not even where one's name begins with the other's."""
    documents = documents_in(tmp_path)
    Journal(documents, "telemetry.logs").begin(PLAN, "f", NOW)
    assert not list(Journal(documents, "telemetry.log").runs())


def test_a_late_note_is_forgotten(tmp_path: Path) -> None:
    """A process that was taken for dead wrote one more group: nobody would ever look at it."""
    journal = Journal(documents_in(tmp_path), "telemetry.logs")
    journal.begin(PLAN, "f", NOW)
    journal.note("run1", Entry(GROUP, Stage.WRITTEN, DONE))
    assert journal.forget_strays() == 0
    journal.end("run1")
    journal.note("run1", Entry(GROUP, Stage.WRITTEN, DONE))
    assert journal.forget_strays() == 1
    assert not journal.entries("run1")


def test_killed_while_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is only half forgotten is not taken for one that published nothing."""
    documents = documents_in(tmp_path)
    journal = Journal(documents, "telemetry.logs")
    journal.begin(PLAN, "f", NOW)
    journal.note("run1", Entry(GROUP, Stage.COMMITTED, DONE))
    forgotten: list[str] = []

    def delete_once(space: str, _key: str) -> None:
        forgotten.append(space)
        raise KeyboardInterrupt

    monkeypatch.setattr(documents, "delete", delete_once)
    with pytest.raises(KeyboardInterrupt):
        journal.end("run1")
    assert forgotten == [RUNS]
