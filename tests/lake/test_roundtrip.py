"""OTLP in, table, OTLP out: the same message, whichever engine reads the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from neve.lake.commit.append import append_once
from neve.lake.duckdb import connect, scan_sql
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.model.tables import BY_SIGNAL
from neve.otlp import Intake, decode, encode
from tests.otlp.canonical import canonical
from tests.otlp.messages import CLASSES, MESSAGES, NOW

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake

SOME = settings(
    max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.generate,), derandomize=True
)


def by_spark(lake: Lake, signal: Signal) -> pa.Table:
    """A table as Spark reads it."""
    return lake.spark.table(lake.spark_name(signal.table)).toArrow()


def by_duckdb(lake: Lake, signal: Signal) -> pa.Table:
    """A table as DuckDB reads it."""
    with connect(lake.s3, on_s3=False) as engine:
        return engine.execute(f"SELECT * FROM {scan_sql(lake.table(signal.table))}").to_arrow_table()


def by_pyiceberg(lake: Lake, signal: Signal) -> pa.Table:
    """A table as pyiceberg reads it."""
    return lake.table(signal.table).scan().to_arrow()


@pytest.mark.parametrize(
    "read", [by_spark, *(pytest.param(read, marks=pytest.mark.long) for read in (by_duckdb, by_pyiceberg))]
)
@pytest.mark.parametrize("signal", list(Signal))
def test_what_comes_out_is_what_went_in(
    spark_lake: Lake, signal: Signal, read: Callable[[Lake, Signal], pa.Table]
) -> None:
    """Sixty generated messages, each record of them, through the files and back."""
    messages: list[Any] = []

    @SOME
    @given(MESSAGES[signal])
    def collect(message: Any) -> None:
        messages.append(message)

    collect()
    wires = [message.SerializeToString() for message in messages]
    rows = decode(signal, wires, Intake("acme", NOW)).batch
    table = spark_lake.table(signal.table)
    append_once(table, write_files(Target.of(table), pa.Table.from_batches([rows])), batch_id="b", operation="test")
    assert rows.num_rows > 10
    back = read(spark_lake, signal)
    assert records(signal, back) == records(signal, pa.Table.from_batches([rows]))


def records(signal: Signal, table: pa.Table) -> list[bytes]:
    """Every row as a canonical message of its own, in an order that does not depend on the reader."""
    schema = pa.schema([field.with_nullable(True) for field in BY_SIGNAL[signal].schema])
    [batch] = table.select(schema.names).cast(schema).combine_chunks().to_batches()
    wires = (encode(signal, batch.slice(row, 1)) for row in range(batch.num_rows))
    return sorted(canonical(signal, CLASSES[signal].FromString(wire)) for wire in wires)
