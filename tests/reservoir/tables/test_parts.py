"""What a run is made of, on a lake without Spark: changes, files that are read, rows that give way, names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.errors import ConfigError
from neve.lake.calendar import micros_of
from neve.lake.commit.append import append_once
from neve.lake.read.positions import find_changes
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.time_ranges import BEGINNING, END, Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS_SAMPLE, SPANS, SPANS_SAMPLE
from neve.reservoir.config import LakeSampling
from neve.reservoir.tables.expressions import group_sql, resolve_column
from neve.reservoir.tables.run_context import RESERVOIR, Position, find_changed_windows
from neve.reservoir.tables.tasks import FetchTask, MarkTask
from tests.reservoir.tables.records import START, put, record, records

if TYPE_CHECKING:
    from neve.lake.lake import Lake

BEGIN, MINUTE = micros_of(START), 60_000_000
CONFIG = LakeSampling(k=4, window_seconds=60)


def test_windows_are_those_of_files_that_came(lake: Lake) -> None:
    """Of each organization its own; from no snapshot at all, those of every file."""
    put(lake, [*records(range(61)), *records(range(5), owner="other")], "one")
    table = lake.table("logs")
    first = table.metadata.current_snapshot_id
    put(lake, [record(7, seconds=190)], "two")
    table = lake.table("logs")
    assert find_changed_windows(table, find_changes(table, first).snapshots, MINUTE) == {"acme": {BEGIN + 3 * MINUTE}}
    everything = find_changes(table, None).snapshots
    windows = {"acme": {BEGIN, BEGIN + MINUTE, BEGIN + 3 * MINUTE}, "other": {BEGIN}}
    assert find_changed_windows(table, everything, MINUTE) == windows


def test_files_that_are_gone_have_the_windows_between_their_bounds(lake: Lake) -> None:
    """As nobody can look into them any more."""
    put(lake, [record(1, seconds=10), record(2, seconds=130)], "one")
    table = lake.table("logs")
    for task in table.scan().plan_files():
        table.io.delete(task.file.file_path)
    found = find_changed_windows(table, find_changes(table, None).snapshots, MINUTE)
    assert found == {"acme": {BEGIN, BEGIN + MINUTE, BEGIN + 2 * MINUTE}}


def test_kept_records_are_read_once_with_what_was_decided(lake: Lake) -> None:
    """By window and id: a record that lies twice in a file comes once, one of another window does not come."""
    rows = records(range(100))
    put(lake, [*rows, dict(rows[7], ingested_at=START + timedelta(hours=1)), dict(rows[8], timestamp=START)], "one")
    table = lake.table("logs")
    [task] = table.scan().plan_files()
    fetch = FetchTask(Target.of(table), Target.of(lake.table("logs_sample")), {task.file.file_path: task}, CONFIG)
    decisions = pa.table(
        {
            "organization_id": ["acme"] * 3,
            "sampling_window": [BEGIN, BEGIN + MINUTE, BEGIN + MINUTE],
            "sampling_group": ["x", "y", None],
            "record_id": [rows[number]["record_id"] for number in (7, 65, 8)],
            "weight": [1.0, 2.0, 1.0],
            "adjusted_count": [3.0, 4.5, 1.0],
        }
    )
    found = {row["adjusted_count"]: row for row in fetch.records(task.file.file_path, decisions).to_pylist()}
    assert set(found) == {3.0, 4.5}
    assert found[3.0]["attributes"] == [("n", "7"), ("sampling.adjusted_count", "3")]
    assert dict(found[4.5]["attributes"]) == {"n": "65", "sampling.adjusted_count": "4.5"}
    assert dict(found[4.5]["attribute_types"]) == {"n": "int", "sampling.adjusted_count": "double"}
    assert found[4.5]["sampling_window_end"] == START + timedelta(minutes=2)
    assert (found[4.5]["sampling_group"], found[4.5]["sampler"]) == ("y", f"lake@{CONFIG.policy}")


def test_rows_of_windows_give_way(lake: Lake) -> None:
    """A file of which every row goes goes as a whole; of others the rows are marked; others' rows stay."""
    table = lake.table("logs_sample")
    own = {
        "adjusted_count": 1.0,
        "sampling_window": START,
        "sampling_window_end": START + timedelta(minutes=1),
    }
    rows = [row | own for row in (*records(range(100)), *records(range(30), owner="other"))]
    files = write_files(Target.of(table), pa.Table.from_pylist(rows, schema=LOGS_SAMPLE.schema))
    append_once(table, files, batch_id="one", operation="test")
    table = lake.table("logs_sample")
    first = Ranges.of([(BEGIN, BEGIN + MINUTE)])
    marker = MarkTask(Target.of(table), {"acme": first, "other": first})
    found = [marker(task.file) for task in scan_files(table, filter_by_time(first))]
    assert sorted((len(one.removed), len(one.deletes)) for one in found) == [(0, 1), (1, 0)]
    [deletes] = [file for one in found for file in one.deletes]
    assert deletes["record-count"] == 60
    assert scan_files(table, filter_by_time(Ranges.of([(END - 1, END)]))) == []


def test_names_of_groups(lake: Lake) -> None:
    """Columns, keys of maps, and attributes of the resource by their bare names."""
    schema = lake.table("spans").schema()
    assert resolve_column(schema, "span_kind") == ("span_kind", None)
    assert resolve_column(schema, "service.name") == ("service_name", None)
    assert resolve_column(schema, "host.name") == ("resource_attrs", "host.name")
    assert resolve_column(schema, "attributes['it's']") == ("attributes", "it's")
    assert group_sql(schema, ()) == "''"
    assert group_sql(schema, ["trace_id"]) == "lower(hex(trace_id))"
    for name in ("nothing", "attributes", "events", "span_kind['a']", "nothing['a']"):
        with pytest.raises(ConfigError, match="is neither a column with plain values nor an attribute"):
            resolve_column(schema, name)


def test_a_sample_has_the_columns_of_its_source() -> None:
    """And what was decided, before the payload; few rows need no buckets."""
    names = [column.name for column in SPANS_SAMPLE.columns]
    assert {column.name for column in SPANS.columns} < set(names)
    assert names.index("adjusted_count") < names.index("attributes")
    assert SPANS_SAMPLE.partition == (("organization_id", "identity"), ("timestamp", "day"))


def test_a_position_comes_back_from_a_commit(lake: Lake) -> None:
    """The newest of the sampler counts, and commits of others do not."""
    table = lake.table("logs_sample")
    assert Position.load(table, RESERVOIR) is None
    position = Position(5, "policy", "4 by x, priority", 60, BEGINNING, mixed=True)
    append_once(table, [], batch_id="one", operation="test", summary=position.to_summary(RESERVOIR))
    append_once(table, [], batch_id="two", operation="test")
    assert Position.load(lake.table("logs_sample"), RESERVOIR) == position
