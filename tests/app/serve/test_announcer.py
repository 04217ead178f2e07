"""Every commit is announced, whoever made it, and once a look has told of it not again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.app.serve.parts import announcer as module
from neve.app.serve.parts.announcer import AnnouncementsDelayed, Announcer
from neve.errors import LakeError
from neve.lake.commit.append import append_once
from neve.lake.read.snapshot_files import list_changed_files
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS
from neve.state.sql_documents import SqlDocuments

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.jobs.routing import Announcement
    from neve.lake.lake import Lake
    from neve.lake.read.snapshot_files import ChangedFile
    from neve.state.store import StateStore

DAY = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Announced:
    """What was announced; after `takes` commits it is away."""

    told: list[Announcement] = field(default_factory=list)
    takes: int = 1000

    def __call__(self, _table: str, told: Sequence[Announcement]) -> None:
        """Take the announcements of a commit, or be away."""
        if self.takes == 0:
            raise LakeError("the broker is away")
        self.takes -= 1
        self.told += told


@pytest.fixture
def announcer(lake: Lake, state: StateStore) -> Announcer:
    """The one that is tried."""
    return Announcer(lake, SqlDocuments(state), Announced())


def commit(lake: Lake, batch: str, *times: datetime, operation: str = "ingest-stream") -> int:
    """Commit a log at each of these times; the snapshot's id."""
    table = lake.table("logs")
    columns = {"organization_id": ["acme"] * len(times), "timestamp": times}
    rows = pa.Table.from_pylist(
        [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)], LOGS.schema
    )
    files = write_files(Target.of(table), rows) if times else []
    append_once(table, files, batch_id=batch, operation=operation)
    found = lake.table("logs").metadata.current_snapshot_id
    assert found is not None
    return found


def told(announcer: Announcer, operation: str = "ingest-stream") -> list[Announcement]:
    """What was announced about commits of an operation."""
    assert isinstance(announcer.publish, Announced)
    return [one for one in announcer.publish.told if one.operation == operation]


def test_commits_are_announced_by_day(lake: Lake, announcer: Announcer) -> None:
    """With what each added to each day; a second look has nothing to tell."""
    commit(lake, "a", DAY)
    assert announcer.look("logs") == 1
    second = commit(lake, "b", DAY, DAY + timedelta(days=1))
    assert announcer.look("logs") == 1
    assert announcer.look("logs") == 0
    found = [one for one in told(announcer) if one.snapshot_id == second]
    assert [(one.window, one.records, one.files) for one in found] == [("2026-01-31", 1, 1), ("2026-02-01", 1, 1)]
    assert all(one.bytes > 0 and one.operation == "ingest-stream" for one in found)


def test_what_was_there_before_the_first_look_is_announced_as_a_whole(lake: Lake, announcer: Announcer) -> None:
    """A lake that was filled without a service gets its work, too."""
    commit(lake, "a", DAY)
    last = commit(lake, "b", DAY + timedelta(days=1))
    announcer.look("logs")
    [one] = told(announcer, "")
    assert (one.snapshot_id, one.window, one.records, one.files) == (last, "", 2, 2)


def test_every_commit_since_the_last_look_is_told(lake: Lake, announcer: Announcer) -> None:
    """Also those of a process that died before it could say anything, and those that took or added nothing."""
    commit(lake, "a", DAY)
    announcer.look("logs")
    ids = [commit(lake, f"b{number}", DAY) for number in range(3)]
    empty = commit(lake, "c")
    assert announcer.look("logs") == 4
    assert [one.snapshot_id for one in told(announcer)] == [*ids, empty]


def test_a_look_that_died_before_its_end_is_made_again(lake: Lake, announcer: Announcer) -> None:
    """What was published and not written down is published again: readers know it by its id."""
    commit(lake, "a", DAY)
    announcer.look("logs")
    before = announcer.documents.get(module.SPACE, str(lake.table("logs").metadata.table_uuid))
    commit(lake, "b", DAY)
    announcer.look("logs")
    assert before is not None
    announcer.documents.put(module.SPACE, str(lake.table("logs").metadata.table_uuid), before)
    announcer.look("logs")
    first, second = told(announcer)
    assert first == second


def test_a_bus_that_is_away_costs_one_commit(lake: Lake, announcer: Announcer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it took is not told again, and what it did not take is not read before its turn."""
    commit(lake, "a", DAY)
    announcer.look("logs")
    ids = [commit(lake, f"b{number}", DAY) for number in range(4)]
    read: list[int] = []

    def reading(table: Table, snapshot: Snapshot) -> Iterator[ChangedFile]:
        read.append(snapshot.snapshot_id)
        return list_changed_files(table, snapshot)

    monkeypatch.setattr(module, "list_changed_files", reading)
    taken = announcer.publish
    assert isinstance(taken, Announced)
    taken.takes = 2
    for seen in (ids[:3], [ids[2]]):
        with pytest.raises(AnnouncementsDelayed, match="the broker is away"):
            announcer.look("logs")
        assert read == seen
        read.clear()
    taken.takes = 1000
    assert announcer.look("logs") == 2
    assert [one.snapshot_id for one in told(announcer)] == ids


def test_a_commit_of_very_many_files_is_not_read(
    lake: Lake, announcer: Announcer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is announced as a whole, by what its summary says."""
    commit(lake, "a", DAY)
    announcer.look("logs")
    monkeypatch.setattr(module, "MOST_FILES", 1)
    commit(lake, "b", DAY, DAY + timedelta(days=1))
    announcer.look("logs")
    last = told(announcer)[-1]
    assert (last.window, last.files, last.records) == ("", 2, 2)


def test_one_table_that_cannot_be_read_keeps_no_other_back(lake: Lake, announcer: Announcer) -> None:
    """The next look finds what this one left."""
    commit(lake, "a", DAY)
    assert announcer.look_at(["gone", "logs"]) == 1
