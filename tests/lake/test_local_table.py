"""Metadata without pyiceberg is the same as with it, and whatever is unusual is left to it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.types import LongType

from neve.errors import TableMissing
from neve.lake.commit.stream_properties import find_stream_summary, read_stream_properties
from neve.lake.read.history import commit_time, is_rewrite, read_summary, read_totals, walk_history
from neve.lake.read.local_table import LocalTable
from neve.lake.read.positions import find_changes
from neve.lake.read.snapshot_files import (
    filter_by_time,
    iterate_data_files,
    list_manifests,
    read_entries,
    scan_files,
)
from neve.lake.time_ranges import END, Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.rollup.status import may_have_rows_since
from neve.tail.checkpoint import Checkpoint
from neve.tail.cycle_files import commit_open, list_open_files
from neve.tail.status import count_open_traces
from tests.lake.test_local_statistics import append_log

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.lake.lake import Lake


def load_both(lake: Lake, name: str = "logs") -> tuple[LocalTable, Table]:
    """Return a table without and with pyiceberg."""
    local: Table | LocalTable = lake.table_metadata(name)
    assert isinstance(local, LocalTable)
    return local, lake.table(name)


def describe(table: Table | LocalTable) -> list[object]:
    """Return what readers of metadata use."""
    return [
        table.name(),
        table.metadata_location,
        dict(table.metadata.properties),
        [
            (one.snapshot_id, one.parent_snapshot_id, one.sequence_number, one.manifest_list, commit_time(one))
            for one in walk_history(table)  # type: ignore[arg-type] # the purpose of a local table
        ],
        [(read_summary(one), is_rewrite(one)) for one in table.metadata.snapshots],  # type: ignore[arg-type] # as above
        read_totals(table),
    ]


def test_the_metadata_is_that_of_pyiceberg(lake: Lake) -> None:
    """Of a table with appends and deletes, and of an empty one."""
    for moment in (-5, 1_000_000, 7_000_000):
        append_log(lake, moment)
    lake.table("logs").delete("timestamp = '1970-01-01T00:00:07+00:00'")
    for name in ("logs", "spans"):
        local, whole = load_both(lake, name)
        assert describe(local) == describe(whole)
        assert [file.file_path for file in local.data_files()] == [file.file_path for file in iterate_data_files(whole)]


def test_positions_and_changes_are_those_of_pyiceberg(lake: Lake) -> None:
    """Streams are found in summaries and in properties."""
    commit_open(lake.table("open_traces"), [], "tail", Checkpoint(1, "spans", 9, 0, 0, "", ""))
    commit_open(lake.table("open_traces"), [], "other", Checkpoint(2, "spans", 9, 0, 0, "", ""))
    local, whole = load_both(lake, "open_traces")
    for stream in ("tail:tail", "tail:other", "tail:none"):
        found = [find_stream_summary(table, stream) for table in (local, whole)]  # type: ignore[arg-type] # as above
        assert found[0] == found[1]
    assert read_stream_properties(local) == read_stream_properties(whole)  # type: ignore[arg-type] # as above
    first = whole.metadata.snapshots[0].snapshot_id
    for since in (first, None, 7):
        counts = [find_changes(table, since) for table in (local, whole)]  # type: ignore[arg-type] # as above
        assert (len(counts[0].commits), counts[0].gap) == (len(counts[1].commits), counts[1].gap)


def test_rows_since_a_time_are_found_as_by_a_scan(lake: Lake) -> None:
    """Bounds are inclusive."""
    assert not may_have_rows_since(lake.table_metadata("logs"), -1)
    for moment in (1_000_000, 7_000_000):
        append_log(lake, moment)
    local, whole = load_both(lake)
    for moment in (0, 6_999_999, 7_000_000, 7_000_001, 9_000_000):
        expected = bool(scan_files(whole, filter_by_time(Ranges.of([(moment, END)]))))
        assert may_have_rows_since(local, moment) is may_have_rows_since(whole, moment) is expected


@pytest.mark.parametrize("selector", ["tail", "a", "tails", "x" * 40])
def test_open_traces_are_counted_by_selector(lake: Lake, selector: str) -> None:
    """A name that is longer than a bound is compared with its beginning, as a scan does."""
    table = lake.table("open_traces")
    for number, name in enumerate(("tail", "x" * 40)):
        rows = make_open_traces(table, name, number + 2)
        commit_open(table, write_files(Target.of(table), rows), name, Checkpoint(1, "spans", 9, 0, 0, "", ""))
    local, whole = load_both(lake, "open_traces")
    expected = sum(file.record_count for file in list_open_files(whole, selector))
    assert count_open_traces(local, selector) == count_open_traces(whole, selector) == expected
    assert expected == {"tail": 2, "x" * 40: 3}.get(selector, 0)


def make_open_traces(table: Table, selector: str, count: int) -> pa.Table:
    """Return rows of open traces."""
    schema = table.schema().as_arrow()
    values = {"organization_id": "acme", "selector": selector, "trace_id": b"0" * 16, "has_error": False, "facts": []}
    columns = []
    for column in schema:
        value = values.get(column.name, None if column.nullable else 0)
        kind = pa.int64() if value == 0 and pa.types.is_timestamp(column.type) else column.type
        columns.append(pa.array([value] * count, kind).cast(column.type))
    return pa.Table.from_arrays(columns, schema=schema)


def test_schemas_and_specs_are_those_of_pyiceberg(lake: Lake) -> None:
    """Of the current state and of earlier ones, and of each snapshot."""
    append_log(lake, 1)
    with lake.table("logs").update_schema() as change:
        change.add_column("later", LongType())
    with lake.table("logs").update_spec() as change:
        change.remove_field("timestamp_day")
    local, whole = load_both(lake)
    assert local.schema() == whole.schema() != local.schemas()[0]
    assert (local.schemas(), local.metadata.schemas) == (whole.schemas(), whole.metadata.schemas)
    assert (local.metadata.specs(), local.metadata.partition_specs) == (whole.specs(), whole.metadata.partition_specs)
    for name in ("table_uuid", "current_schema_id", "default_spec_id", "current_snapshot_id", "properties"):
        assert str(getattr(local.metadata, name)) == str(getattr(whole.metadata, name)), name
    assert [one.schema_id for one in local.metadata.snapshots] == [one.schema_id for one in whole.metadata.snapshots]


def test_manifests_are_those_of_pyiceberg(lake: Lake) -> None:
    """Of data files and of deletes."""
    for moment in (1, 2):
        append_log(lake, moment)
    lake.table("logs").delete("timestamp = '1970-01-01T00:00:00.000001+00:00'")
    local, whole = load_both(lake)
    found = [list_manifests(table) for table in (local, whole)]  # type: ignore[arg-type] # as above
    assert found[0] == found[1] != []
    entries = [[read_entries(whole, manifest) for manifest in some] for some in found]
    assert [[one.data_file.file_path for one in some] for some in entries[0]] == [
        [one.data_file.file_path for one in some] for some in entries[1]
    ]
    assert "whole" not in vars(local)


def test_other_attributes_open_the_table_of_pyiceberg(lake: Lake) -> None:
    """Scans and transactions are its own."""
    append_log(lake, 1)
    local, whole = load_both(lake)
    assert local.scan().to_arrow().num_rows == 1
    assert local.whole.metadata == whole.metadata


@pytest.mark.parametrize("change", [{"format-version": 1}, {"snapshots": 3}, {"format-version": None}])
def test_unusual_metadata_is_left_to_pyiceberg(
    lake: Lake, change: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of older formats."""
    file = Path(lake.table("logs").metadata_location.removeprefix("file://"))
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    opened: list[str] = []
    monkeypatch.setattr(type(lake), "table", lambda _lake, name: opened.append(name))
    lake.table_metadata("logs")
    assert opened == ["logs"]


def test_a_missing_table_is_named(lake: Lake) -> None:
    """As with pyiceberg."""
    with pytest.raises(TableMissing, match=r"telemetry\.nothing"):
        lake.table_metadata("nothing")
