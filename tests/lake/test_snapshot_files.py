"""Files of snapshots: read in one module, the same by manifests and by scans, with the times and deletes that apply."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.manifest import DataFileContent
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField, TimestamptzType

import neve
from neve.errors import LakeError
from neve.lake.calendar import micros_of
from neve.lake.read.snapshot_files import (
    MAX_RANGES,
    filter_by_time,
    find_live_paths,
    iterate_data_files,
    iterate_entries,
    list_all_manifests,
    list_changed_files,
    list_manifests,
    read_entries,
    scan_files,
    scan_paths,
)
from neve.lake.tables import init_tables
from neve.lake.time_ranges import EVERYTHING, NO_TIME, Ranges
from neve.model.tables import LOGS
from tests.query.deleting import commit_deletes, delete_rows, equality_deletes, rewrite_files
from tests.reservoir.tables.records import START, put, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake

READS = re.compile(r"\.manifests\(|\.fetch_manifest_entry\(|\.plan_files\(|\.inspect\.|read_avro\(")
READERS = {"lake/read/snapshot_files.py", "lake/read/file_index.py", "lake/read/file_index_sql.py"}
HOUR = 3_600_000_000
ONE_COLUMN = Schema(NestedField(1, "timestamp", TimestamptzType()))


@pytest.fixture
def lake(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with logs of two files, one hour apart."""
    lake = make_lake(init=False)
    init_tables(lake, (LOGS,))
    put(lake, [record(1), record(2)], "one")
    put(lake, [record(3, seconds=3600)], "two")
    return lake


def test_one_package_reads_manifests() -> None:
    """All others call it, so that what a snapshot's files are is decided once."""
    root = Path(neve.__file__).parent
    found = {str(file.relative_to(root)) for file in root.rglob("*.py") if READS.search(file.read_text())}
    assert found == READERS


def test_manifests_and_scans_have_the_same_files(lake: Lake) -> None:
    """Live files alone: after a rewrite the old ones are gone, and other snapshots still have theirs."""
    table = lake.table("logs")
    before = scan_paths(table)
    assert sorted(file.file_path for file in iterate_data_files(table)) == sorted(before)
    first, second = table.metadata.snapshots
    assert len([*iterate_data_files(table, first)]) == 1
    assert [change.file.file_path for change in list_changed_files(table, first)] == [
        file.file_path for file in iterate_data_files(table, first)
    ]
    rewrite_files(table)
    [after] = scan_paths(table)
    assert [file.file_path for file in iterate_data_files(table)] == [after]
    assert sorted(file.file_path for file in iterate_data_files(table, second)) == sorted(before)
    assert find_live_paths(table, [*before, after, "nowhere"]) == {*before, after}
    assert find_live_paths(table, [*before, after], since=table.last_sequence_number) == {after}
    listed = list_all_manifests(table)
    assert len({one.manifest_path for one in listed}) == len(listed) == 3
    assert {entry.data_file.file_path for one in listed for entry in read_entries(table, one)} == {*before, after}


def test_an_empty_table_has_no_files(make_lake: Callable[..., Lake]) -> None:
    """Neither manifests nor files, and no error."""
    lake = make_lake(init=False)
    init_tables(lake, (LOGS,))
    table = lake.table("logs")
    assert (list_manifests(table), [*iterate_entries(table)], scan_files(table)) == ([], [], [])


def test_delete_files_come_with_their_data_files(lake: Lake) -> None:
    """Entries have both, data files are data files, and a scan has them together."""
    table = lake.table("logs")
    file = next(file for file in iterate_data_files(table) if file.record_count == 2)
    path = delete_rows(table, file, [0])
    contents = [entry.data_file.content for entry in iterate_entries(table)]
    assert sorted(contents) == [DataFileContent.DATA, DataFileContent.DATA, DataFileContent.POSITION_DELETES]
    assert {one.content for one in iterate_data_files(table)} == {DataFileContent.DATA}
    deletes = {task.file.file_path: [one.file_path for one in task.delete_files] for task in scan_files(table)}
    assert deletes[file.file_path] == [path]
    assert sorted(map(len, deletes.values())) == [0, 1]


def test_equality_deletes_are_refused_with_a_hint(lake: Lake) -> None:
    """No reader without Spark may take the rows that they delete for rows of the table."""
    table = lake.table("logs")
    commit_deletes(table, equality_deletes(next(iterate_data_files(table))), 0)
    with pytest.raises(LakeError, match=r"telemetry\.logs has equality deletes") as caught:
        scan_files(table)
    assert "neve compact run telemetry.logs --strategy deletes" in str(caught.value.hint)


def test_files_of_a_time_range(lake: Lake) -> None:
    """By their bounds; no time has no file, and all time has all."""
    table, begin = lake.table("logs"), micros_of(START)
    assert [len(scan_files(table, filter_by_time(time))) for time in (NO_TIME, EVERYTHING)] == [0, 2]
    later = Ranges.of([(begin + HOUR, begin + 2 * HOUR)])
    [found] = scan_files(table, filter_by_time(later))
    assert found.file.record_count == 1


@given(st.sets(st.integers(0, 200), max_size=120), st.integers(0, 200))
def test_a_filter_by_time_passes_the_rows_of_its_ranges(windows: set[int], number: int) -> None:
    """All of them, and no others unless there are too many ranges."""
    time = Ranges.of_windows((window * HOUR for window in windows), HOUR)
    passes = expression_evaluator(ONE_COLUMN, filter_by_time(time), case_sensitive=True)(Record(number * HOUR))
    assert passes or number not in windows
    if len(time.parts) <= MAX_RANGES:
        assert passes == (number in windows)
