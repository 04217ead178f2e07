"""The writer of the Arrow lane: partitions, order, bounds, sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from neve.ingest.files.ledger import LedgerTable
from neve.ingest.files.source_files import HashedFile, SourceFile
from neve.lake.write import data_file_writer
from neve.lake.write.table_writer import Target, write_files
from neve.model.properties import TARGET_FILE_SIZE_BYTES
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.telemetry import NOW, decoded, logs, traces

if TYPE_CHECKING:
    import pytest
    from pyiceberg.manifest import DataFile

    from neve.lake.lake import Lake


def read(file: DataFile) -> pa.Table:
    """The rows of a data file."""
    return pq.ParquetFile(file.file_path.removeprefix("file://")).read()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 4000), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=60))
def test_files_agree_with_those_of_pyiceberg(lake: Lake, rows: list[tuple[int, str]]) -> None:
    """For any rows: the same partitions, the same rows in each, the same counts and bounds as pyiceberg's writer."""
    wires = [traces(1, first=number, service=service) for number, service in rows]
    batch = pa.Table.from_batches([decode(Signal.TRACES, wires, Intake("acme", NOW)).batch])
    target = Target.of(lake.table("spans"))
    ours = {str(file.partition): file for file in write_files(target, batch)}
    theirs = {str(file.partition): file for file in _dataframe_to_data_files(target.metadata, batch, target.io)}
    assert ours.keys() == theirs.keys()
    for partition, file in ours.items():
        other = theirs[partition]
        assert file.record_count == other.record_count
        assert (file.lower_bounds, file.upper_bounds) == (other.lower_bounds, other.upper_bounds)
        assert (file.value_counts, file.null_value_counts) == (other.value_counts, other.null_value_counts)
        keys = [(row["service_name"], row["timestamp"]) for row in read(file).to_pylist()]
        assert keys == sorted(keys)
        assert sorted(read(file).column("record_id").to_pylist()) == sorted(read(other).column("record_id").to_pylist())


def test_a_file_ends_when_it_has_its_size(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The target is a table property; row groups are sized in bytes; nothing is lost at the seams."""
    with lake.table("logs").transaction() as transaction:
        transaction.set_properties({TARGET_FILE_SIZE_BYTES: "4000"})
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_BYTES", 4000)

    rows = pa.Table.from_batches([decoded(Signal.LOGS, logs(400)).batch])
    files = write_files(Target.of(lake.table("logs")), rows)
    assert len(files) > 3
    assert sum(file.record_count for file in files) == 400
    assert sorted(value for file in files for value in read(file).column("message").to_pylist()) == sorted(
        rows.column("message").to_pylist()
    )


def test_only_text_has_bloom_filters(lake: Lake) -> None:
    """DuckDB 1.5 gives wrong answers for bloom filters on binary columns, so the tables declare none there."""
    spans = write_files(
        Target.of(lake.table("spans")), pa.Table.from_batches([decoded(Signal.TRACES, traces(5)).batch])
    )
    ledger = LedgerTable(lake, "acme")
    ledger.plan("b", [HashedFile(SourceFile("a.pb", 1, 1), "00ff")], read_at=None)
    [line] = lake.table("ingested_files").inspect.files().column("file_path").to_pylist()
    assert bloom_columns(spans[0].file_path) == set()
    assert bloom_columns(line) == {"content_hash"}


def bloom_columns(path: str) -> set[str]:
    """The columns of a file that have a bloom filter."""
    statement = "SELECT path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL"
    return {name for (name,) in duckdb.execute(statement, [path.removeprefix("file://")]).fetchall()}


def test_a_column_that_only_the_table_has_is_null(lake: Lake) -> None:
    """A column of a user, or of a newer release, does not stop an older writer."""
    with lake.table("spans").update_schema() as update:
        from pyiceberg.types import StringType

        update.add_column("team", StringType())
    [*files] = write_files(
        Target.of(lake.table("spans")), pa.Table.from_batches([decoded(Signal.TRACES, traces(2)).batch])
    )
    assert {value for file in files for value in read(file).column("team").to_pylist()} == {None}


def test_bounds_hold_for_values_that_parquet_keeps_none_of(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row group whose text is too long for statistics leaves the file without bounds, not with those of others."""
    with lake.table("logs").transaction() as transaction:
        transaction.set_properties({"write.metadata.metrics.column.message": "full"})
    monkeypatch.setattr(data_file_writer, "ROW_GROUP_BYTES", 3000)
    table, rows = lake.table("logs"), pa.Table.from_batches([decoded(Signal.LOGS, logs(2)).batch])
    texts = pa.chunked_array([["m", "n"]], pa.string())
    long = pa.chunked_array([["a" * 5000, "z" * 5000]], pa.string())
    place = rows.schema.get_field_index("message")
    both = [rows.set_column(place, rows.schema.field(place), column) for column in (texts, long)]
    [file] = write_files(Target.of(table), pa.concat_tables(both))
    message = table.schema().find_field("message").field_id
    assert file.record_count == 4
    assert message not in file.lower_bounds
    assert message not in file.upper_bounds
    assert table.schema().find_field("timestamp").field_id in file.lower_bounds
