"""Whole runs on a real table, and what is left when one dies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from neve.compact import Compactor
from neve.compact.config import CompactConfig
from neve.compact.execution import group_runner
from neve.compact.journal import Entry, Journal, Stage
from neve.errors import CommitUnknown, LeaseTaken
from neve.lake.commit.java_commit import TableBusy, replace_files
from neve.state.leases import hold_worker_lease
from tests.compact.tables import documents_in, fill_logs, messages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from neve.lake.lake import Lake

EAGER = CompactConfig(fragments=2, hot_seconds=0, minor_seconds=0, deduplicate=False, groups_per_commit=1)


class Killed(BaseException):
    """What stands for a kill: nothing in the product catches it."""


@dataclass
class Bench:
    """A lake whose logs are many small files, and compactors for it."""

    lake: Lake
    folder: Path
    rows: list[str] = field(default_factory=list)

    def compactor(self, config: CompactConfig = EAGER, **given: Any) -> Compactor:
        """A compactor as a new process would make it."""
        return Compactor(self.lake, documents=documents_in(self.folder), config=config, **given)

    def die(self, monkeypatch: pytest.MonkeyPatch, place: Any, name: str, instead: Callable[..., Any]) -> None:
        """A run that is killed at a place."""
        with monkeypatch.context() as patched:
            patched.setattr(place, name, instead)
            with pytest.raises(Killed):
                self.compactor().compact("logs", steal=True)

    @property
    def leavings(self) -> list[Path]:
        """Data files under runs' folders that the table does not know."""
        known = {row["file_path"].split("warehouse")[-1] for row in self.lake.table("logs").inspect.files().to_pylist()}
        found = self.folder.glob("warehouse/telemetry/logs/data/neve-*/**/*.parquet")
        return [path for path in found if str(path).split("warehouse")[-1] not in known]


@pytest.fixture
def bench(spark_lake: Lake, tmp_path: Path) -> Bench:
    """Six files of log records."""
    fill_logs(spark_lake)
    return Bench(spark_lake, tmp_path, messages(spark_lake))


def test_a_run_and_one_more(bench: Bench) -> None:
    """Small files become one, the rows stay, the story is told; the second run has nothing to do."""
    result = bench.compactor().compact("logs")
    assert (result.files_in, result.files_out, result.committed) == (6, 1, 1)
    assert result.rows == 60
    assert result.is_whole
    assert messages(bench.lake) == bench.rows
    again = bench.compactor().compact("telemetry.logs")
    assert (again.planned, again.files_in) == (0, 0)
    assert again.reason
    [past] = bench.compactor().history("logs")
    assert past == result
    assert not list(Journal(bench.compactor().documents, "telemetry.logs").runs())


def test_killed_before_the_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written and proven is published by the next run and not rewritten."""

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    bench.die(monkeypatch, group_runner, "replace_files", kill)
    assert messages(bench.lake) == bench.rows
    assert len(bench.leavings) == 1
    with monkeypatch.context() as patched:
        patched.setattr(group_runner, "run_tasks", kill)  # nobody may rewrite anything
        result = bench.compactor().compact("logs", steal=True)
    assert (result.published_for_dead, result.planned, len(result.continued)) == (1, 0, 1)
    assert messages(bench.lake) == bench.rows
    assert len(bench.lake.table("logs").inspect.files()) == 1
    assert not bench.leavings


def test_killed_after_the_commit(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that happened is recognised, and its files are not taken for leavings."""

    def commit_and_kill(*given: Any, **named: Any) -> None:
        replace_files(*given, **named)
        raise Killed

    bench.die(monkeypatch, group_runner, "replace_files", commit_and_kill)
    result = bench.compactor().compact("logs", steal=True)
    assert (result.published_for_dead, result.planned, result.orphans) == (0, 0, 0)
    assert messages(bench.lake) == bench.rows
    assert not list(Journal(bench.compactor().documents, "telemetry.logs").runs())


@pytest.mark.long
def test_killed_after_the_commit_and_its_snapshot_expired(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the table no longer remembers the commit, its files are part of it and stay."""

    def commit_and_kill(*given: Any, **named: Any) -> None:
        replace_files(*given, **named)
        raise Killed

    bench.die(monkeypatch, group_runner, "replace_files", commit_and_kill)
    fill_logs(bench.lake, 1, 5, first=500)
    bench.lake.spark.sql(
        f"CALL {bench.lake.catalog_config.name}.system.expire_snapshots("
        "table => 'telemetry.logs', older_than => TIMESTAMP '2999-01-01', retain_last => 1)"
    )
    bench.compactor().compact("logs", steal=True)
    assert len(messages(bench.lake)) == 65


def test_killed_while_writing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that nobody noted are found in the run's folder and removed; the work is done again."""
    note = Journal.note

    def kill(self: Journal, run_id: str, entry: Entry) -> None:
        if entry.stage is Stage.WRITTEN:
            raise Killed
        note(self, run_id, entry)

    bench.die(monkeypatch, Journal, "note", kill)
    assert len(bench.leavings) == 1
    result = bench.compactor().compact("logs", steal=True)
    assert (result.orphans, result.files_in, result.files_out) == (1, 6, 1)
    assert messages(bench.lake) == bench.rows
    assert not bench.leavings


def test_a_commit_of_unknown_outcome_keeps_its_files(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the run nor anyone else removes what may be in the table; the next run asks and goes on."""

    def unknown(*_: Any, **__: Any) -> None:
        raise CommitUnknown("the catalog does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(group_runner, "replace_files", unknown)
        result = bench.compactor().compact("logs")
    assert (result.unknown, result.is_whole) == (1, False)
    assert len(bench.leavings) == 1
    result = bench.compactor().compact("logs")
    assert result.published_for_dead == 1
    assert messages(bench.lake) == bench.rows


def test_what_was_written_must_still_be_there(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead run's file that someone removed since is not published; the group is rewritten."""

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    bench.die(monkeypatch, group_runner, "replace_files", kill)
    [written] = bench.leavings
    written.unlink()
    result = bench.compactor().compact("logs", steal=True)
    assert (result.published_for_dead, result.files_in, result.files_out) == (0, 6, 1)
    assert messages(bench.lake) == bench.rows


def test_a_busy_table_costs_no_work(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where other writers are quicker each time, what was written is kept, and the next run publishes it."""

    def busy(*_: Any, **__: Any) -> None:
        raise TableBusy("other writers committed first")

    with monkeypatch.context() as patched:
        patched.setattr(group_runner, "replace_files", busy)
        result = bench.compactor().compact("logs")
    assert (result.committed, result.is_whole, len(bench.leavings)) == (0, False, 1)
    assert bench.compactor().compact("logs").published_for_dead == 1
    assert messages(bench.lake) == bench.rows


def test_a_conflict_costs_the_group(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that are deleted while a group waits to be published stay deleted; the next run takes it up again."""
    spark, name = bench.lake.spark, bench.lake.spark_name("logs")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")

    def delete_first(*given: Any, **named: Any) -> Any:
        spark.sql(f"DELETE FROM {name} WHERE message = 'line 7'")
        return replace_files(*given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(group_runner, "replace_files", delete_first)
        result = bench.compactor().compact("logs")
    assert (result.conflicts, result.committed) == (1, 0)
    assert result.is_whole
    assert "line 7" not in messages(bench.lake)
    assert not bench.leavings
    result = bench.compactor().compact("logs")
    assert result.committed == 1
    assert messages(bench.lake) == [row for row in bench.rows if row != "line 7"]
    assert [row["content"] for row in bench.lake.table("logs").inspect.files().to_pylist()] == [0]
    assert bench.compactor().compact("logs").planned == 0


def test_one_compactor_at_a_time(bench: Bench) -> None:
    """A lease keeps a second one off the table, and says who has it."""
    compactor = bench.compactor()
    held = hold_worker_lease(compactor.documents, "compact:telemetry.logs", owner="other", seconds=60)
    with held, pytest.raises(LeaseTaken, match="other"):
        compactor.compact("logs")
    assert compactor.compact("logs").committed == 1


def test_any_table(spark_lake: Lake, tmp_path: Path) -> None:
    """A table that Neve did not make: no partitions, no record ids, another namespace."""
    spark, catalog = spark_lake.spark, spark_lake.catalog_config.name
    spark.sql(f"CREATE NAMESPACE {catalog}.shop")
    spark.sql(f"CREATE TABLE {catalog}.shop.orders (id bigint, amount decimal(10,2), at timestamp_ntz) USING iceberg")
    for number in range(5):
        spark.sql(
            f"INSERT INTO {catalog}.shop.orders VALUES ({number}, {number}.50, TIMESTAMP_NTZ '2026-01-01 00:00:00')"
        )
    bench = Bench(spark_lake, tmp_path)
    result = bench.compactor(EAGER.model_copy(update={"verify": "full"})).compact("shop.orders")
    assert (result.files_in, result.files_out) == (5, 1)
    rows = spark.sql(f"SELECT id, amount FROM {catalog}.shop.orders ORDER BY id").collect()
    assert [(row.id, str(row.amount)) for row in rows] == [(number, f"{number}.50") for number in range(5)]
