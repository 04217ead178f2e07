"""Both executors, on real tables: the same rows, laid out as asked, published by Iceberg's own rewrite."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from neve.compact.execution import arrow_rewriter
from neve.compact.execution.rewritten_group import RewrittenGroup, RowsDiffer
from neve.compact.execution.spark_rewriter import SparkRewriter
from neve.compact.execution.verification import choose_hashed_columns
from neve.compact.plan import Executor, Group, InputFile, Layout
from neve.errors import CommitConflict
from neve.lake.commit.java_commit import Replacement, replace_files
from neve.lake.write.data_file_json import make_minimal_json
from neve.lake.write.table_writer import Target
from tests.compact.tables import fill_logs, group_of, messages

if TYPE_CHECKING:
    from neve.lake.lake import Lake

BIG = 512 * 1024 * 1024
EXECUTORS = [Executor.ARROW, Executor.SPARK]


def rewrite(lake: Lake, group: Group, executor: Executor, verify: str = "full") -> RewrittenGroup:
    """A group rewritten by one of the executors."""
    table = lake.table("logs")
    hashed = choose_hashed_columns(table.schema(), table.sort_order(), verify)  # type: ignore[arg-type]
    folder = f"{table.location()}/data/neve-test"
    if executor is Executor.ARROW:
        done = arrow_rewriter.rewrite_group(arrow_rewriter.ArrowTask(Target.of(table), group, folder, BIG, hashed, BIG))
        assert isinstance(done, RewrittenGroup)
        return done.verify(group)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    rewriter = SparkRewriter(lake.spark, lake.spark_name("logs"), table, snapshot.snapshot_id, folder, BIG, hashed)
    return rewriter.rewrite(group).verify(group)


def publish(lake: Lake, group: Group, done: RewrittenGroup, snapshot_id: int, batch: str = "b1") -> None:
    """What a run does with a rewritten group."""
    removed = tuple(
        make_minimal_json(file.path, "parquet", 0, group.partition.values, file.bytes, file.rows)
        for file in group.files
    )
    replacement = Replacement(removed, done.added, snapshot_id, None, done.removed_deletes)
    replace_files(lake, "logs", replacement, batch_id=batch, operation="compact", summary={})


def snapshot_of(lake: Lake) -> int:
    """The current snapshot."""
    snapshot = lake.table("logs").current_snapshot()
    assert snapshot is not None
    return snapshot.snapshot_id


@pytest.mark.parametrize("executor", EXECUTORS)
def test_six_files_become_one(spark_lake: Lake, executor: Executor) -> None:
    """The rows are the same to every reader, column by column, and the snapshot is a replacement."""
    fill_logs(spark_lake)
    order = [("record_id", "ascending")]
    before = spark_lake.table("logs").scan().to_arrow().sort_by(order)
    group = group_of(spark_lake)
    done = rewrite(spark_lake, group, executor)
    publish(spark_lake, group, done, snapshot_of(spark_lake))
    table = spark_lake.table("logs")
    assert table.scan().to_arrow().sort_by(order).equals(before)
    summary = table.current_snapshot().summary  # type: ignore[union-attr]
    assert summary is not None
    assert summary.operation.value == "replace"
    assert (summary["deleted-data-files"], summary["added-data-files"]) == ("6", "1")
    assert spark_lake.spark.table(spark_lake.spark_name("logs")).count() == 60


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_manifests_say_is_kept(spark_lake: Lake, executor: Executor) -> None:
    """Bounds, counts, field ids, the sort order and the bloom filters that the table declares are in the new file."""
    fill_logs(spark_lake)
    table = spark_lake.table("logs")
    sort = tuple(table.schema().find_column_name(field.source_id) for field in table.sort_order().fields)
    group = group_of(spark_lake, layout=Layout("sort", sort))  # type: ignore[arg-type]
    publish(spark_lake, group, rewrite(spark_lake, group, executor), snapshot_of(spark_lake))
    [file] = spark_lake.table("logs").inspect.files().to_pylist()
    assert file["sort_order_id"] == table.metadata.default_sort_order_id
    assert file["record_count"] == 60
    readable = file["readable_metrics"]
    assert readable["service_name"]["lower_bound"] == "s0"
    assert readable["service_name"]["upper_bound"] == "s2"
    footer = pq.ParquetFile(file["file_path"].removeprefix("file://").removeprefix("file:"))
    rows = footer.read().to_pylist()
    keys = [tuple(row[name] for name in sort) for row in rows]
    assert keys == sorted(keys)
    assert footer.schema_arrow.field("message").metadata[b"PARQUET:field_id"] == (
        str(table.schema().find_field("message").field_id).encode()
    )
    assert footer.metadata.row_group(0).column(0).compression == "ZSTD"


def test_position_deletes_are_applied_and_gone(spark_lake: Lake) -> None:
    """Deleted rows do not come back, and the delete files that nothing needs any more go in the same commit."""
    fill_logs(spark_lake)
    spark, name = spark_lake.spark, spark_lake.spark_name("logs")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM {name} WHERE message LIKE 'line %5'")
    kept = messages(spark_lake)
    assert len(kept) == 54
    group = group_of(spark_lake)
    done = rewrite(spark_lake, group, Executor.SPARK)
    assert done.after.rows == 54
    assert done.removed_deletes
    publish(spark_lake, group, done, snapshot_of(spark_lake))
    assert messages(spark_lake) == kept
    assert [row["content"] for row in spark_lake.table("logs").inspect.files().to_pylist()] == [0]


def test_a_delete_meanwhile_wins(spark_lake: Lake) -> None:
    """Rows that are deleted while a group is rewritten stay deleted: the group is refused, and nothing else happens."""
    fill_logs(spark_lake)
    start = snapshot_of(spark_lake)
    group = group_of(spark_lake)
    done = rewrite(spark_lake, group, Executor.ARROW)
    spark, name = spark_lake.spark, spark_lake.spark_name("logs")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    spark.sql(f"DELETE FROM {name} WHERE message = 'line 5'")
    with pytest.raises(CommitConflict, match="new delete"):
        publish(spark_lake, group, done, start)
    assert "line 5" not in messages(spark_lake)
    assert len(messages(spark_lake)) == 59


def test_an_append_meanwhile_is_no_conflict(spark_lake: Lake) -> None:
    """New rows and a rewrite do not hinder each other; the same batch again changes nothing."""
    fill_logs(spark_lake)
    start = snapshot_of(spark_lake)
    group = group_of(spark_lake)
    done = rewrite(spark_lake, group, Executor.ARROW)
    fill_logs(spark_lake, 1, 3, first=100)
    publish(spark_lake, group, done, start)
    publish(spark_lake, group, done, start)
    assert len(messages(spark_lake)) == 63
    assert len(spark_lake.table("logs").inspect.files().to_pylist()) == 2


def test_two_compactors_do_not_double_rows(spark_lake: Lake) -> None:
    """Who comes second with the same files is refused."""
    fill_logs(spark_lake)
    start = snapshot_of(spark_lake)
    group = group_of(spark_lake)
    first, second = (rewrite(spark_lake, group, Executor.ARROW) for _ in range(2))
    publish(spark_lake, group, first, start)
    with pytest.raises(CommitConflict):
        publish(spark_lake, group, second, start, batch="b2")
    assert len(messages(spark_lake)) == 60


def test_z_order(spark_lake: Lake) -> None:
    """Rows lie along the curve: with two outputs neither column's range is everything in both."""
    fill_logs(spark_lake, files=4, rows=50)
    group = group_of(spark_lake, layout=Layout("zorder", ("service_name", "message")))
    done = rewrite(spark_lake, group, Executor.SPARK)
    publish(spark_lake, group, done, snapshot_of(spark_lake))
    assert len(messages(spark_lake)) == 200


def test_duplicates_go_once(spark_lake: Lake) -> None:
    """A record that came twice is kept once; what has no time is never taken for a repetition."""
    fill_logs(spark_lake, files=3)
    fill_logs_again(spark_lake)
    group = group_of(spark_lake, deduplicate=True)
    done = rewrite(spark_lake, group, Executor.SPARK)
    assert done.duplicates == 10
    publish(spark_lake, group, done, snapshot_of(spark_lake))
    assert len(messages(spark_lake)) == 30


def fill_logs_again(lake: Lake) -> None:
    """The first file's records once more, as a client's resend after the horizon would leave them."""
    import pyarrow as pa

    from neve.lake.commit.append import append_once
    from neve.lake.write.table_writer import write_files
    from neve.model.signals import Signal
    from tests.telemetry import decoded, logs

    table = lake.table("logs")
    batch = decoded(Signal.LOGS, logs(10, service="s0")).batch
    append_once(
        table, write_files(Target.of(table), pa.Table.from_batches([batch])), batch_id="again", operation="test"
    )


def test_a_file_that_lies_is_not_rewritten(spark_lake: Lake) -> None:
    """More or fewer rows than the metadata says: nothing is published."""
    fill_logs(spark_lake)
    group = group_of(spark_lake)
    wrong = replace(group, files=tuple(replace(file, rows=file.rows + 1) for file in group.files))
    table = spark_lake.table("logs")
    task = arrow_rewriter.ArrowTask(Target.of(table), wrong, f"{table.location()}/data/x", BIG, (), BIG)
    done = arrow_rewriter.rewrite_group(task)
    assert isinstance(done, arrow_rewriter.UnsuitedGroup)
    assert "metadata has 11" in done.reason


def test_a_difference_is_never_published(spark_lake: Lake) -> None:
    """Whatever made the rows differ, the rewrite refuses itself."""
    fill_logs(spark_lake, files=2)
    group = group_of(spark_lake)
    done = rewrite(spark_lake, group, Executor.ARROW)
    with pytest.raises(RowsDiffer, match="read 20 rows"):
        replace(done, after=replace(done.after, rows=19)).verify(group)


def test_older_files_get_the_schema_of_today(spark_lake: Lake) -> None:
    """A column that was added later is null in older rows, one that was renamed keeps its values."""
    fill_logs(spark_lake, files=2)
    spark, name = spark_lake.spark, spark_lake.spark_name("logs")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN extra int")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN message TO body")
    fill = group_of(spark_lake)
    done = rewrite(spark_lake, fill, Executor.ARROW)
    publish(spark_lake, fill, done, snapshot_of(spark_lake))
    rows = spark_lake.table("logs").scan(selected_fields=("body", "extra")).to_arrow().to_pylist()
    assert sorted(row["body"] for row in rows) == sorted(f"line {number}" for number in range(20))
    assert {row["extra"] for row in rows} == {None}


def test_files_of_several_schemas_together(spark_lake: Lake) -> None:
    """Files from before and after a column was added are one group; newer ones are read with their dictionaries."""
    fill_logs(spark_lake, files=2)
    spark_lake.spark.sql(f"ALTER TABLE {spark_lake.spark_name('logs')} ADD COLUMN extra int")
    fill_logs(spark_lake, files=2, first=100)
    group = group_of(spark_lake)
    newest_first = replace(group, files=tuple(sorted(group.files, key=lambda file: -file.bytes)))
    for files in (newest_first, replace(group, files=newest_first.files[::-1])):
        assert rewrite(spark_lake, files, Executor.ARROW, "sample").after.rows == 40
    publish(spark_lake, group, rewrite(spark_lake, newest_first, Executor.ARROW, "sample"), snapshot_of(spark_lake))
    assert len(messages(spark_lake)) == 40


def test_input_files_know_their_path(spark_lake: Lake) -> None:
    """A file that is not in the snapshot is a conflict, not a crash."""
    fill_logs(spark_lake, files=2)
    group = group_of(spark_lake)
    gone = replace(group, files=(*group.files, InputFile("file:///nowhere.parquet", 1, 1, 1)))
    with pytest.raises(CommitConflict, match="1 of 3 files"):
        rewrite(spark_lake, gone, Executor.SPARK)
