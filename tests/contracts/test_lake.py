"""What every lake does, whichever catalog knows its tables."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.lake.commit.append import append_once, find_batch
from neve.lake.duckdb import connect, scan_sql
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.columns import Column
from neve.model.commits import BATCH_ID, OPERATION, VERSION
from neve.model.signals import Signal
from neve.model.tables import SPANS, TABLES
from tests.telemetry import decoded, traces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.lake.lake import Lake

pytestmark = pytest.mark.parts


def append_spans(lake: Lake, batch_id: str, *, first: int = 0, count: int = 3) -> None:
    """Write some spans and commit them as a batch."""
    table = lake.table("spans")
    rows = pa.Table.from_batches([decoded(Signal.TRACES, traces(count, first=first)).batch])
    append_once(table, write_files(Target.of(table), rows), batch_id=batch_id, operation="test")


def rows_by_duckdb(lake: Lake) -> int:
    """How many spans DuckDB counts."""
    with connect(lake.s3, on_s3=lake.lake.on_s3) as engine:
        answer = engine.execute(f"SELECT count(*) FROM {scan_sql(lake.table('spans'))}").fetchone()
    assert answer is not None
    return int(answer[0])


def test_init_makes_every_table_once(any_lake: Lake) -> None:
    """A second run finds nothing to do."""
    assert [outcome.created for outcome in init_tables(any_lake)] == [True] * len(TABLES)
    again = init_tables(any_lake)
    assert [(outcome.created, outcome.changes) for outcome in again] == [(False, ())] * len(TABLES)
    assert set(any_lake.table_names()) == {table.name for table in TABLES}


def test_spark_pyiceberg_and_duckdb_see_the_same_rows(any_lake: Lake, spark: SparkSession) -> None:
    """Rows written without a JVM are read by all three, and so are rows that Spark wrote."""
    assert any_lake.spark is spark
    init_tables(any_lake)
    append_spans(any_lake, "b1", count=5)
    name = any_lake.spark_name("spans")
    assert spark.table(name).count() == 5
    assert rows_by_duckdb(any_lake) == 5
    spark.sql(f"INSERT INTO {name} SELECT * FROM {name}")
    assert any_lake.table("spans").scan().to_arrow().num_rows == 10
    assert rows_by_duckdb(any_lake) == 10


def test_a_commit_carries_its_keys_and_happens_once(any_lake: Lake, spark: SparkSession) -> None:
    """The batch's id is in the snapshot summary that Spark shows, and the same batch again changes nothing."""
    assert any_lake.spark is spark
    init_tables(any_lake)
    append_spans(any_lake, "b1")
    append_spans(any_lake, "b1")
    snapshots = spark.sql(f"SELECT summary FROM {any_lake.spark_name('spans')}.snapshots").collect()
    assert [{key: row.summary[key] for key in (BATCH_ID, OPERATION)} for row in snapshots] == [
        {BATCH_ID: "b1", OPERATION: "test"}
    ]
    assert VERSION in snapshots[0].summary
    assert rows_by_duckdb(any_lake) == 3


def test_writers_that_meet_all_get_in(any_lake: Lake) -> None:
    """Conflicting commits are tried again until each batch is there exactly once."""
    needs_versions(any_lake)
    init_tables(any_lake)
    batches = [f"b{number}" for number in range(6)]
    in_parallel([lambda batch=batch: append_spans(any_lake, batch) for batch in batches])
    table = any_lake.table("spans")
    assert all(find_batch(table, batch) for batch in batches)
    assert len(table.metadata.snapshots) == len(batches)
    assert rows_by_duckdb(any_lake) == 3 * len(batches)


def test_two_writers_of_one_batch_write_it_once(any_lake: Lake) -> None:
    """Whoever comes second finds the batch's id and leaves the table alone."""
    needs_versions(any_lake)
    init_tables(any_lake)
    in_parallel([lambda: append_spans(any_lake, "same")] * 4)
    assert len(any_lake.table("spans").metadata.snapshots) == 1
    assert rows_by_duckdb(any_lake) == 3


def needs_versions(lake: Lake) -> None:
    """Skip where the server does not notice that a table has changed since it was read."""
    if lake.catalog_config.kind == "glue":
        pytest.skip("Glue: the moto server does not check table versions, so commits that meet overwrite each other")


def in_parallel(works: list[object]) -> None:
    """Run every work at once, each on a thread, and raise what any of them raised."""
    failures: list[BaseException] = []

    def run(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_an_older_lake_gets_its_new_columns(any_lake: Lake, spark: SparkSession) -> None:
    """Columns of a newer release appear without a rewrite: old rows have nulls, new rows have values."""
    assert any_lake.spark is spark
    older = replace(
        SPANS, columns=tuple(column for column in SPANS.columns if column.name not in ("flags", "record_id"))
    )
    init_tables(any_lake, [older])
    append_spans(any_lake, "old")
    before = set(any_lake.table("spans").inspect.files().column("file_path").to_pylist())
    [outcome] = init_tables(any_lake, [SPANS])
    assert [str(change) for change in outcome.changes] == ["add column flags long", "add column record_id binary"]
    append_spans(any_lake, "new", first=3)
    rows = spark.sql(
        f"SELECT count(*) AS rows, count(record_id) AS ids, count(flags) AS flags FROM {any_lake.spark_name('spans')}"
    ).first()
    assert rows is not None
    assert (rows.rows, rows.ids, rows.flags) == (6, 3, 3)
    assert before < set(any_lake.table("spans").inspect.files().column("file_path").to_pylist())


def test_a_column_of_another_type_is_refused_by_name(any_lake: Lake) -> None:
    """Nothing is touched when a table can't become what is declared."""
    from neve.errors import IncompatibleTable

    text = Column("duration_ms", pa.string(), "milliseconds, as text")
    wrong = replace(SPANS, columns=tuple(text if column.name == text.name else column for column in SPANS.columns))
    init_tables(any_lake, [wrong])
    with pytest.raises(IncompatibleTable, match="table spans: column duration_ms is string, expected double"):
        init_tables(any_lake)
    assert any_lake.table_names() == ["spans"]
