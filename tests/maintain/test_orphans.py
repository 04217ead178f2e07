"""Orphans: found by path, left alone while they are young, and never what a snapshot knows."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.errors import ConfigError
from neve.lake.commit.append import append_once
from neve.lake.storage.paths import normalize_path
from neve.lake.write.table_writer import Target, write_files
from neve.maintain.job import Maintainer
from neve.maintain.orphans import ListedFile, OrphanLimits, check_age, plan_orphans
from neve.maintain.step import Guards
from neve.model.signals import Signal
from tests.maintain.lines import HOUR, NOW
from tests.telemetry import decoded, traces

if TYPE_CHECKING:
    from neve.lake.lake import Lake
    from neve.maintain.step import StepResult

NOW_HERE = datetime.now(UTC)
LONG_AGO = NOW_HERE - timedelta(days=30)
LIMITS = OrphanLimits("/t", NOW - 72 * HOUR)


def listed(path: str, hours: float = 100) -> ListedFile:
    """A file that was changed so many hours ago."""
    return ListedFile(path, 10, NOW - hours * HOUR)


def spans(lake: Lake, batch: str) -> list[Path]:
    """Commit spans; the data files that came of it."""
    table = lake.table("spans")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded(Signal.TRACES, traces(3)).batch]))
    append_once(table, files, batch_id=batch, operation="test")
    return [Path(file.file_path.removeprefix("file://")) for file in files]


def folder(lake: Lake, name: str = "spans") -> Path:
    """Where a table's files are."""
    return Path(lake.table(name).location().removeprefix("file://"))


def run(
    lake: Lake, *, dry_run: bool = False, guards: Guards | None = None, ahead: timedelta = timedelta()
) -> StepResult:
    """Look for orphans among files that are all a month old, but for those called young."""
    for path in folder(lake).rglob("*"):
        if path.is_file() and "young" not in path.name:
            os.utime(path, (LONG_AGO.timestamp(), LONG_AGO.timestamp()))
    maintainer = Maintainer(lake, guards=guards or Guards(), clock=lambda: NOW_HERE + ahead)
    [result] = maintainer.run("spans", ["orphans"], dry_run=dry_run)
    assert result.error is None
    return result


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ("file:///t/a", "/t/a"),
        ("file:/t/a", "file:///t/a"),
        ("hdfs://one:8020/t/a", "hdfs://two/t/a"),
        ("/t//a", "/t/a"),
    ],
)
def test_paths_are_compared_and_not_how_they_are_written(known: str, found: str) -> None:
    """A file that the metadata names by another scheme or machine is no orphan."""
    assert plan_orphans([listed(found)], frozenset({normalize_path(known)}), LIMITS).remove == ()


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_the_schemes_of_s3_are_one_and_buckets_are_not(scheme: str) -> None:
    """The same key in another bucket is another file."""
    limits = OrphanLimits("s3://bucket/t", LIMITS.older_than)
    known = frozenset({normalize_path(f"{scheme}://bucket/t/a")})
    found = [listed("s3://bucket/t/a"), listed("s3a://bucket/t/b")]
    assert [file.path for file in plan_orphans(found, known, limits).remove] == ["s3a://bucket/t/b"]
    assert normalize_path("s3://other/t/a") not in known


def test_each_file_that_nobody_knows_has_a_reason() -> None:
    """Young, spoken for, another table's, out of the folder, or an orphan."""
    files = [
        *(listed("/t/data/orphan"), listed("/t/data/young", 71), listed("/t/data/written")),
        *(listed("/t/raw/segment"), listed("/t/inner/metadata/1.metadata.json"), listed("/t/inner/data/a")),
        *(listed("/elsewhere/a"), listed("/t/metadata/version-hint.text"), listed("/t/metadata/old.metadata.json")),
    ]
    limits = OrphanLimits("/t", LIMITS.older_than, frozenset({"/t/data/written"}), ("/t/raw",))
    plan = plan_orphans(files, frozenset(), limits)
    assert [file.path for file in plan.remove] == ["/t/data/orphan", "/t/metadata/old.metadata.json"]
    reasons = {entry.what: entry.reason for entry in plan.entries if entry.action == "keep"}
    assert reasons == {
        "/t/data/young": "modified 2026-11-13 04:20:00: a writer may be about to commit it",
        "/t/data/written": "a compaction in progress needs it",
        "/t/raw/segment": "/t/raw is excluded",
        "/t/inner/metadata/1.metadata.json": "another table is at /t/inner",
        "/t/inner/data/a": "another table is at /t/inner",
        "/elsewhere/a": "it is not below /t",
        "/t/metadata/version-hint.text": "it points to the table's metadata",
    }


paths = st.text("ab/", min_size=1, max_size=6).map(lambda text: f"/t/{text}x")


@pytest.mark.slow
@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(st.tuples(paths, st.integers(0, 200))), st.frozensets(paths), st.frozensets(paths))
def test_nothing_known_young_or_protected_is_ever_removed(
    files: list[tuple[str, int]], known: frozenset[str], protected: frozenset[str]
) -> None:
    """Whatever stands in the folder, and however it is written."""
    reachable, kept = frozenset(map(normalize_path, known)), frozenset(map(normalize_path, protected))
    limits = OrphanLimits("/t", LIMITS.older_than, kept)
    for file in plan_orphans([listed(f"file://{path}", age) for path, age in files], reachable, limits).remove:
        assert normalize_path(file.path) not in reachable | kept
        assert file.modified < limits.older_than


@pytest.mark.parametrize(("hours", "forced"), [(23.9, False), (24, True), (1, True)])
def test_an_age_that_is_not_safe_must_be_forced(hours: float, forced: bool) -> None:
    """A writer's files look like orphans until they are committed."""
    if forced:
        check_age(hours * HOUR, force_young=hours < 24)
        return
    with pytest.raises(ConfigError, match=r"is 23.9 h, expected at least 24 h"):
        check_age(hours * HOUR, force_young=False)


def test_orphans_are_removed_and_every_snapshot_still_reads(lake: Lake) -> None:
    """Of a dry run nothing is touched; then the orphan goes, and files of each snapshot and branch stay."""
    committed = spans(lake, "a") + spans(lake, "b")
    orphan = folder(lake) / "data" / "left behind.parquet"
    orphan.write_bytes(b"x" * 100)
    dry = run(lake, dry_run=True)
    assert (dry.outcome.gain.files, dry.outcome.gain.bytes, orphan.exists()) == (1, 100, True)
    assert dry.outcome.reason.startswith("1 orphan among ")
    result = run(lake)
    assert (result.outcome.changed, result.outcome.gain.files, orphan.exists()) == (True, 1, False)
    assert all(path.exists() for path in committed)
    table = lake.table("spans")
    counts = [table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().num_rows for snapshot in table.metadata.snapshots]
    assert counts == [3, 6]
    assert run(lake).outcome.reason.startswith("no orphans among ")


def test_files_that_are_young_or_spoken_for_stay(lake: Lake) -> None:
    """A file that was just written, and one that a journal is about to commit."""
    spans(lake, "a")
    young, journalled = folder(lake) / "data" / "young.parquet", folder(lake) / "data" / "journalled.parquet"
    for path in (young, journalled):
        path.write_bytes(b"x")
    result = run(lake, guards=Guards(protected=frozenset({f"file:{journalled}"})))
    assert (result.outcome.changed, young.exists(), journalled.exists()) == (False, True, True)


def test_a_commit_between_plan_and_removal_saves_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old files that somebody begins to use while orphans are looked for are not removed."""
    table = lake.table("spans")
    files = write_files(Target.of(table), pa.Table.from_batches([decoded(Signal.TRACES, traces(3)).batch]))
    planned = plan_orphans

    def plan_then_commit(*arguments: object) -> object:
        plan = planned(*arguments)  # type: ignore[arg-type]
        append_once(table, files, batch_id="late", operation="test")
        return plan

    monkeypatch.setattr("neve.maintain.orphans.plan_orphans", plan_then_commit)
    assert run(lake).outcome.gain.files == 0
    assert lake.table("spans").scan().to_arrow().num_rows == 3


@pytest.mark.parametrize("ahead", [timedelta(days=4), timedelta(days=4000)])
def test_a_clock_that_is_ahead_removes_nothing_of_writers_at_work(lake: Lake, ahead: timedelta) -> None:
    """The age of a file is told by the clock that its time is of: the storage's. What is old by both goes."""
    spans(lake, "a")
    young, old = folder(lake) / "data" / "young.parquet", folder(lake) / "data" / "old.parquet"
    for path in (young, old):
        path.write_bytes(b"x")
    before = set(folder(lake).rglob("*")) - {old}
    result = run(lake, ahead=ahead)
    assert result.outcome.gain.files == 1
    assert set(folder(lake).rglob("*")) == before  # the file that told the time is gone, too


def test_a_clock_that_is_behind_removes_nothing(lake: Lake) -> None:
    """It is young by one of the two."""
    (folder(lake) / "data").mkdir(exist_ok=True)
    (folder(lake) / "data" / "old.parquet").write_bytes(b"x")
    assert run(lake, ahead=timedelta(days=-29)).outcome.gain.files == 0


def test_where_the_storage_does_not_tell_the_time_nothing_is_removed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dry run still lists what it would be by this machine's clock."""
    spans(lake, "a")
    (folder(lake) / "data" / "old.parquet").write_bytes(b"x")

    def read_only(_folder: object) -> datetime:
        raise PermissionError("read only")

    monkeypatch.setattr("neve.maintain.orphans._Folder.now", read_only)
    assert run(lake, dry_run=True).outcome.gain.files == 1
    [refused] = Maintainer(lake, clock=lambda: NOW_HERE).run("spans", ["orphans"])
    assert refused.error is not None
    assert "can't read the clock of the storage" in refused.error
    assert (folder(lake) / "data" / "old.parquet").exists()


def test_a_table_whose_owner_forbids_it_is_left_alone(lake: Lake) -> None:
    """gc.enabled=false means that other tables may use its files."""
    with lake.table("spans").transaction() as transaction:
        transaction.set_properties({"gc.enabled": "false"})
    assert run(lake).outcome.reason == "nothing is removed: the table property gc.enabled is false"
