"""Equality deletes and deletion vectors: rows that were deleted stay deleted, whatever is rewritten around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from neve.compact.config import CompactConfig
from neve.compact.execution.group_runner import Publisher
from neve.compact.journal import Entry, Journal, Stage
from neve.compact.plan import Executor
from neve.lake.spark.java_table import JavaTable
from tests.compact.tables import documents_in, fill_logs, group_of, messages
from tests.compact.test_executors import rewrite, snapshot_of

if TYPE_CHECKING:
    from pathlib import Path

    from neve.compact.plan import Group
    from neve.lake.lake import Lake


def delete_by_equality(lake: Lake, group: Group, message: str) -> None:
    """What a Flink job writes: every earlier row of the partition with this message is gone."""
    table = lake.table("logs")
    field_id = table.schema().find_field("message").field_id
    schema = pa.schema([pa.field("message", pa.string(), metadata={"PARQUET:field_id": str(field_id)})])
    path = f"{table.location()}/data/eq-{message.replace(' ', '-')}.parquet"
    pq.write_table(pa.table({"message": [message]}, schema=schema), path.removeprefix("file://"))
    java = JavaTable(lake.spark, lake.spark_name("logs"))
    [file] = java.files(
        [
            {
                "spec-id": 0,
                "content": "equality-deletes",
                "file-path": path,
                "file-format": "parquet",
                "partition": list(group.partition.values),
                "file-size-in-bytes": table.io.new_input(path).__len__(),
                "record-count": 1,
                "equality-ids": [field_id],
            }
        ]
    )
    java.java.newRowDelta().addDeletes(file).commit()


def by_spark(lake: Lake) -> list[str]:
    """The messages, by the one reader here that knows equality deletes."""
    lake.spark.catalog.refreshTable(lake.spark_name("logs"))
    return sorted(row.message for row in lake.spark.table(lake.spark_name("logs")).select("message").collect())


def publish(lake: Lake, folder: Path, group: Group, start: int, executor: Executor) -> Stage:
    """Rewrite a group as it was at a snapshot, and publish it as a run does."""
    table = lake.table("logs")
    snapshot = table.metadata.snapshot_by_id(start)
    assert snapshot is not None
    journal = Journal(documents_in(folder), "telemetry.logs")
    publisher = Publisher(lake, "logs", journal, "run", start, snapshot.sequence_number or 0, lambda: None)
    entry = Entry(group, Stage.WRITTEN, rewrite(lake, group, executor))
    [done] = publisher.publish([entry])
    return done.stage


def test_equality_deletes_are_applied_and_gone(spark_lake: Lake, tmp_path: Path) -> None:
    """The deleted row is in no new file, and the delete file goes with the files that needed it."""
    fill_logs(spark_lake, files=3)
    group = group_of(spark_lake)
    delete_by_equality(spark_lake, group, "line 5")
    assert publish(spark_lake, tmp_path, group, snapshot_of(spark_lake), Executor.SPARK) is Stage.COMMITTED
    assert "line 5" not in by_spark(spark_lake)
    assert len(messages(spark_lake)) == 29
    assert [row["content"] for row in spark_lake.table("logs").inspect.files().to_pylist()] == [0]


def test_an_equality_delete_meanwhile_still_applies(spark_lake: Lake, tmp_path: Path) -> None:
    """A row that is deleted by equality while its file is rewritten does not come back, and nobody has to retry."""
    fill_logs(spark_lake, files=3)
    group, start = group_of(spark_lake), snapshot_of(spark_lake)
    delete_by_equality(spark_lake, group, "line 7")
    assert publish(spark_lake, tmp_path, group, start, Executor.ARROW) is Stage.COMMITTED
    assert len(by_spark(spark_lake)) == 29
    assert "line 7" not in by_spark(spark_lake)


def test_a_delete_file_that_groups_share_goes_when_all_are_done(spark_lake: Lake, tmp_path: Path) -> None:
    """No group alone knows that it is the last that needed it; after the run nothing applies to nothing."""
    from neve.compact import Compactor

    fill_logs(spark_lake, files=6)
    delete_by_equality(spark_lake, group_of(spark_lake), "line 5")
    config = CompactConfig(fragments=2, hot_seconds=0, minor_seconds=0, deduplicate=False, group_files=2)
    result = Compactor(spark_lake, documents=documents_in(tmp_path), config=config).compact("logs")
    assert result.committed > 1
    assert len(by_spark(spark_lake)) == 59
    assert {row["content"] for row in spark_lake.table("logs").inspect.files().to_pylist()} == {0}


def test_deletion_vectors(spark_lake: Lake, tmp_path: Path) -> None:
    """A table of format version 3: the rows of its deletion vectors are gone for good, and so are the vectors."""
    from neve.compact import Compactor

    spark, catalog = spark_lake.spark, spark_lake.catalog_config.name
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {catalog}.shop")
    spark.sql(
        f"CREATE TABLE {catalog}.shop.orders (id bigint) USING iceberg "
        "TBLPROPERTIES ('format-version'='3', 'write.delete.mode'='merge-on-read')"
    )
    for number in range(4):
        spark.sql(f"INSERT INTO {catalog}.shop.orders SELECT id + {number * 10} FROM range(0, 10, 1, 1)")
    spark.sql(f"DELETE FROM {catalog}.shop.orders WHERE id % 10 = 3")
    lineage = spark.sql(f"SELECT id, _row_id FROM {catalog}.shop.orders ORDER BY id").collect()
    config = CompactConfig(fragments=2, hot_seconds=0, minor_seconds=0)
    result = Compactor(spark_lake, documents=documents_in(tmp_path), config=config).compact("shop.orders")
    assert (result.files_in, result.files_out, result.rows) == (4, 1, 36)
    assert spark.sql(f"SELECT id, _row_id FROM {catalog}.shop.orders ORDER BY id").collect() == lineage
    assert spark.sql(f"SELECT * FROM {catalog}.shop.orders.delete_files").count() == 0
