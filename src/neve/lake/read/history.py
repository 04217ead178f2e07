"""History of a table: the snapshots that led to its current state, and their summaries.

Tables are pyiceberg's or `LocalTable`s, so this module imports neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.read.local_table import LocalSnapshot, LocalTable

REPLACE = "replace"  # the operation of a snapshot with the same rows in other files


def walk_ancestors(parents: Mapping[int, int | None], snapshot_id: int | None) -> Iterator[int]:
    """Yield a snapshot and its ancestors, newest first, up to the first one that is unknown.

    >>> list(walk_ancestors({3: 2, 2: 1}, 3))
    [3, 2]
    """
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in parents and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield snapshot_id
        snapshot_id = parents[snapshot_id]


def list_ancestors(table: Table, snapshot_id: int | None) -> list[int]:
    """List a snapshot and its ancestors, newest first, as far as the table retains them."""
    parents = {one.snapshot_id: one.parent_snapshot_id for one in table.metadata.snapshots}
    return list(walk_ancestors(parents, snapshot_id))


def walk_history(table: Table) -> Iterator[Snapshot]:
    """Yield the current snapshot and its ancestors, newest first, as far as the table retains them."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    parents = {number: snapshot.parent_snapshot_id for number, snapshot in known.items()}
    for number in walk_ancestors(parents, table.metadata.current_snapshot_id):
        yield known[number]


def commit_time(snapshot: Snapshot | LocalSnapshot) -> datetime:
    """Return the time at which a snapshot was committed."""
    return EPOCH + timedelta(milliseconds=snapshot.timestamp_ms)


def is_rewrite(snapshot: Snapshot) -> bool:
    """Return whether a snapshot has the same rows as its parent, in other files."""
    return snapshot.summary is not None and snapshot.summary.operation.value == REPLACE


def read_summary(snapshot: Snapshot | LocalSnapshot | None) -> dict[str, str]:
    """Return a snapshot's summary without its operation. It is empty if there is no snapshot."""
    return dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}


@dataclass(frozen=True)
class TableTotals:
    """Rows, data files and bytes of a table. Deleted rows are subtracted if the summary contains their number."""

    rows: int
    files: int
    bytes: int


def read_totals(table: Table | LocalTable) -> TableTotals:
    """Return the totals of the current snapshot, from its summary."""
    found = read_summary(table.current_snapshot())
    return TableTotals(
        rows=int(found.get("total-records", 0)) - int(found.get("total-position-deletes", 0)),
        files=int(found.get("total-data-files", 0)),
        bytes=int(found.get("total-files-size", 0)),
    )
