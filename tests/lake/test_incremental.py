"""What a consumer finds out about its source: changes since a snapshot, and the windows that they touch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.lake.calendar import micros_of
from neve.lake.commit.append import append_once
from neve.lake.read import incremental, positions
from neve.lake.read.incremental import find_rows_within, find_touched_windows
from neve.lake.read.positions import StoredPosition, count_commits_since, find_changes, is_stale
from neve.lake.tables import init_tables
from neve.lake.time_ranges import EVERYTHING, NO_TIME, Ranges
from neve.lake.write.table_writer import Target, write_files
from neve.model.commits import POSITIONS, STREAM, WINDOWS
from neve.model.tables import LOGS, LOGS_SAMPLE
from neve.reservoir.tables.run_context import Position as SamplePosition
from neve.rollup.position import Position as LevelPosition
from neve.tail.checkpoint import Checkpoint
from tests.query.deleting import delete_rows, rewrite_files
from tests.reservoir.tables.records import START, put, record, records

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake

MINUTE = 60_000_000
BEGIN = micros_of(START)


@dataclass(frozen=True)
class Place(StoredPosition):
    """A position of a test."""

    snapshot: int | None
    remark: str = "none"


@pytest.fixture
def lake(make_lake: Callable[..., Lake]) -> Lake:
    """A lake with logs and their sample alone."""
    lake = make_lake(init=False)
    init_tables(lake, (LOGS, LOGS_SAMPLE))
    return lake


def ids(snapshots: tuple[Snapshot, ...]) -> list[int]:
    """The ids of snapshots."""
    return [snapshot.snapshot_id for snapshot in snapshots]


def minutes(*numbers: int) -> Ranges:
    """Minutes after the beginning."""
    return Ranges.of_windows((BEGIN + number * MINUTE for number in numbers), MINUTE)


def without(table: Table, gone: int) -> Table:
    """The table after an expiry by Iceberg in Java, which leaves the ids of expired parents."""
    kept = [one for one in table.metadata.snapshots if one.snapshot_id != gone]
    table.metadata = table.metadata.model_copy(update={"snapshots": kept})
    return table


def test_changes_are_the_snapshots_since_in_order(lake: Lake) -> None:
    """From none at all, from the first, from the current one; a rewrite is a snapshot and no commit."""
    assert find_changes(lake.table("logs"), None).snapshots == ()
    put(lake, records(range(3)), "one")
    put(lake, records(range(3, 6)), "two")
    rewrite_files(lake.table("logs"))
    table = lake.table("logs")
    line = [snapshot.snapshot_id for snapshot in table.metadata.snapshots]
    assert len(line) == 3
    assert ids(find_changes(table, None).snapshots) == line
    assert ids(find_changes(table, line[0]).snapshots) == line[1:]
    assert ids(find_changes(table, line[0]).commits) == [line[1]]
    assert find_changes(table, line[2]).snapshots == ()
    assert [count_commits_since(table, since) for since in (None, *line)] == [2, 1, 0, 0]


def test_a_gap_has_a_reason(lake: Lake) -> None:
    """An expired snapshot, one that was never there, a table that was rolled back, and a lost beginning."""
    for number in range(3):
        put(lake, records(range(3)), str(number))
    first, second, third = (snapshot.snapshot_id for snapshot in lake.table("logs").metadata.snapshots)
    assert find_changes(lake.table("logs"), 5).gap == "snapshot 5 is no longer in the history of the table"
    expired = without(lake.table("logs"), second)
    assert find_changes(expired, first).gap == f"snapshot {first} is no longer in the history of the table"
    assert find_changes(expired, second).gap == f"snapshot {second} is no longer in the history of the table"
    assert find_changes(expired, None).gap == "the first snapshots are no longer in the history of the table"
    assert count_commits_since(expired, first) is None
    lake.table("logs").manage_snapshots().rollback_to_snapshot(snapshot_id=first).commit()
    assert (
        find_changes(lake.table("logs"), third).gap == f"the table was rolled back to a state without snapshot {third}"
    )


def test_a_position_comes_back_from_a_commit(lake: Lake) -> None:
    """The newest of the stream counts, and commits of others do not; unknown fields of it are ignored."""
    table = lake.table("logs_sample")
    assert Place.load(table, "mine") is None
    append_once(table, [], batch_id="one", operation="test", summary=Place(4).to_summary("mine"))
    append_once(table, [], batch_id="two", operation="test", summary=Place(5, "new").to_summary("mine"))
    append_once(table, [], batch_id="three", operation="test", summary=Place(6).to_summary("other"))
    assert Place.load(lake.table("logs_sample"), "mine") == Place(5, "new")
    newer = {STREAM: "mine", POSITIONS: '{"snapshot":7,"invented":true}'}
    append_once(lake.table("logs_sample"), [], batch_id="four", operation="test", summary=newer)
    assert Place.load(lake.table("logs_sample"), "mine") == Place(7)


def test_positions_are_written_as_in_earlier_releases() -> None:
    """Letter by letter: two releases share a lake."""
    level = LevelPosition(1, 2, "abc", partial=True)
    assert level.to_summary("rollup") == {
        STREAM: "rollup",
        POSITIONS: '{"snapshot":1,"closed_until":2,"definition":"abc","partial":true}',
    }
    sample = SamplePosition(None, "p", "how", 60, -5)
    assert sample.to_summary("reservoir")[POSITIONS] == (
        '{"snapshot":null,"policy":"p","how":"how","seconds":60,"until":-5,"mixed":false}'
    )
    assert Checkpoint(3, "spans", 1, 10, 5, "pol", "lay", limits={"a": {"b": 1}}).summary("mine") == {
        STREAM: "tail:mine",
        POSITIONS: '{"cycle": 3, "layout": "lay", "limits": {"a": {"b": 1}}, "now_us": 10, "policies": "pol", '
        '"snapshot_id": 1, "source": "spans", "until_us": 5, "waits": ""}',
    }


def test_a_position_grows_stale(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the source has moved on for half an hour; one that is not known any more is not kept for."""
    put(lake, records(range(3)), "one")
    first = lake.table("logs").metadata.current_snapshot_id
    put(lake, records(range(3)), "two")
    table = lake.table("logs")
    assert not is_stale(table, first)
    monkeypatch.setattr(positions, "STALE_MILLIS", -1)
    assert is_stale(table, first)
    assert not is_stale(table, None)
    assert not is_stale(table, 5)


def test_touched_windows_are_those_of_rows(lake: Lake) -> None:
    """Of each organization its own; a delete touches its partition; a commit may name its windows itself."""
    put(lake, [*records(range(61)), *records(range(5), owner="other")], "one")
    table = lake.table("logs")
    first = find_touched_windows(table, find_changes(table, None).snapshots, MINUTE)
    assert (first.owners, first.everyone, first.commits) == ({"acme": minutes(0, 1), "other": minutes(0)}, NO_TIME, 1)
    assert (first.of("acme"), first.of("nobody"), first.all) == (minutes(0, 1), NO_TIME, minutes(0, 1))
    since = table.metadata.current_snapshot_id
    file = next(task.file for task in table.scan().plan_files() if task.file.record_count == 5)
    delete_rows(table, file, [0])
    day = find_touched_windows(table, find_changes(table, since).snapshots, MINUTE).owners
    assert list(day) == ["other"]
    assert day["other"].length == 86_400_000_000
    since = table.metadata.current_snapshot_id
    words = {WINDOWS: '{"acme":[[60,120]],"*":[[0,60]]}'}
    append_once(table, [], batch_id="said", operation="test", summary=words)
    said = find_touched_windows(table, find_changes(table, since).snapshots, MINUTE)
    assert (said.owners, said.everyone) == ({"acme": Ranges.of([(MINUTE, 2 * MINUTE)])}, Ranges.of([(0, MINUTE)]))


def test_bounds_do_for_files_that_are_gone_or_too_many(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cover all windows of the rows, and perhaps more."""
    put(lake, [record(1, seconds=10), record(2, seconds=130)], "one")
    table = lake.table("logs")
    snapshots = find_changes(table, None).snapshots
    assert find_touched_windows(table, snapshots, MINUTE).owners == {"acme": minutes(0, 2)}
    monkeypatch.setattr(incremental, "MAX_ROWS", 1)
    assert find_touched_windows(table, snapshots, MINUTE).owners == {"acme": minutes(0, 1, 2)}
    monkeypatch.undo()
    for task in table.scan().plan_files():
        table.io.delete(task.file.file_path)
    assert find_touched_windows(table, snapshots, MINUTE).owners == {"acme": minutes(0, 1, 2)}


def test_files_of_several_organizations_touch_windows_of_each(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows tell whose windows they are; without them the windows are everyone's."""
    schema = pa.schema([("organization_id", pa.string()), ("timestamp", pa.timestamp("us", "UTC"))])
    table = lake.catalog.create_table("telemetry.mixed", schema)
    rows = [(record(1, owner="a"), 0), (record(2, owner="b"), 0), (record(3, owner="a", seconds=130), 2)]
    kept = [{name: row[name] for name in schema.names} for row, _minute in rows]
    files = write_files(Target.of(table), pa.Table.from_pylist([*kept, {"timestamp": START}], schema=schema))
    append_once(table, files, batch_id="one", operation="test")
    snapshots = find_changes(table, None).snapshots
    found = find_touched_windows(table, snapshots, MINUTE)
    assert (found.owners, found.everyone) == ({"a": minutes(0, 2), "b": minutes(0)}, minutes(0))
    monkeypatch.setattr(incremental, "MAX_ROWS", 1)
    assert find_touched_windows(table, snapshots, MINUTE).everyone == minutes(0, 1, 2)
    [file] = files
    mine = find_rows_within(table.io, file.file_path, {"a": minutes(0), "b": EVERYTHING})
    read = table.scan().to_arrow().column("organization_id").take(mine.positions).to_pylist()
    assert (sorted(read), mine.moments.tolist(), mine.total) == (["a", "b"], [BEGIN, BEGIN], 4)
