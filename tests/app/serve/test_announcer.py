"""Every commit is announced, whoever made it, and once a look has told of it not again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from neve.app.serve import announcer as module
from neve.app.serve.announcer import Announcer, BusAway
from neve.errors import LakeError
from neve.lake.changes import changed_files
from neve.lake.commits import append_once
from neve.lake.sql_bus import SqlBus
from neve.lake.sql_documents import SqlDocuments
from neve.lake.writer import Target, write_files
from neve.model.tables import LOGS
from neve.work.announcement import Announcement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.bus import Bus, Reader
    from neve.lake.changes import ChangedFile
    from neve.lake.lake import Lake
    from neve.lake.state import State

DAY = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def announcer(lake: Lake, state: State) -> Announcer:
    """The one that is tried."""
    return Announcer(lake, SqlDocuments(state), SqlBus(state))


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


def told(announcer: Announcer, topic: str = "ingest.logs") -> list[Announcement]:
    """What the bus has for a group that reads it from the beginning."""
    with announcer.bus.reader(f"group-{id(object())}", [topic]) as reader:
        return [Announcement.of(message.value) for message in reader.take(100)]


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
    [one] = told(announcer, "other.logs")
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


@dataclass
class LeavingBus:
    """A bus that takes a few commits, and is away then."""

    bus: Bus
    takes: int

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Take them, or be away."""
        if self.takes == 0:
            raise LakeError("the broker is away")
        self.takes -= 1
        self.bus.publish(topic, messages)

    def reader(self, group: str, topics: Sequence[str]) -> Reader:
        """Nobody reads here."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing is open."""


def test_a_bus_that_is_away_costs_one_commit(lake: Lake, announcer: Announcer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it took is not told again, and what it did not take is not read before its turn."""
    commit(lake, "a", DAY)
    announcer.look("logs")
    ids = [commit(lake, f"b{number}", DAY) for number in range(4)]
    read: list[int] = []

    def reading(table: Table, snapshot: Snapshot) -> Iterator[ChangedFile]:
        read.append(snapshot.snapshot_id)
        return changed_files(table, snapshot)

    monkeypatch.setattr(module, "changed_files", reading)
    leaving = replace(announcer, bus=LeavingBus(announcer.bus, takes=2))
    for seen in (ids[:3], [ids[2]]):
        with pytest.raises(BusAway, match="the broker is away"):
            leaving.look("logs")
        assert read == seen
        read.clear()
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
