"""Position of an incremental consumer in a table, and the table's changes since; from metadata alone.

A consumer stores its position in the commits of its own table, so rows and position change together. The cases that
each consumer handles:

| the source since the position | changes |
| --- | --- |
| appends, deletes, overwrites | a commit each |
| rewrites, as by compaction | none: the rows are the same |
| no position, or its snapshot or a later one expired | unknown, with the reason in `gap` |
| rolled back to a state before the position, or to another branch | unknown, with the reason in `gap` |
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Self

from neve.lake.commit.stream_properties import FIRST_SEQUENCE, find_stream_summary
from neve.lake.read.history import is_rewrite, walk_history
from neve.model.commits import POSITIONS, STREAM

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

STALE_MILLIS = 1_800_000  # age at which a position is stored again although no row changed


@dataclass(frozen=True)
class StoredPosition:
    """Base class of positions. The fields of a subclass are the JSON object in the summary of a consumer's commits."""

    @classmethod
    def load(cls, table: Table, stream: str) -> Self | None:
        """Return the position in the last commit of a stream to its own table, or `None` if there is none.

        Fields that this release does not know are ignored.
        """
        summary = find_stream_summary(table, stream)
        if not summary:
            return None
        stored = json.loads(summary[POSITIONS])
        return cls(**{field.name: stored[field.name] for field in fields(cls) if field.name in stored})

    def to_summary(self, stream: str) -> dict[str, str]:
        """Return the position as summary properties of a commit. Expiry finds it there and keeps its snapshot."""
        return {STREAM: stream, POSITIONS: json.dumps(asdict(self), separators=(",", ":"))}


@dataclass(frozen=True)
class SourcePosition(StoredPosition):
    """Snapshot of the source that a consumer has read, with its sequence number: files of later commits are new.

    The number outlives the snapshot. A rewritten file has the number of its newest rows, or a larger one.
    """

    snapshot: int | None
    sequence: int
    table_uuid: str

    @classmethod
    def read_sequence(cls, table: Table, stream: str, source: Table) -> int:
        """Return the sequence number up to which a stream has read its source; 0: nothing of it."""
        position = cls.load(table, stream)
        if position is None or position.table_uuid != str(source.metadata.table_uuid):
            return 0
        return position.sequence


@dataclass(frozen=True)
class Changes:
    """Snapshots of a table since a position, oldest first. `gap` is the reason why they are unknown, or empty."""

    snapshots: tuple[Snapshot, ...] = ()
    gap: str = ""

    @property
    def commits(self) -> tuple[Snapshot, ...]:
        """The snapshots that changed rows."""
        return tuple(snapshot for snapshot in self.snapshots if not is_rewrite(snapshot))


NO_POSITION = Changes(gap="nothing was read before")


def find_changes(table: Table, since: int | None) -> Changes:
    """Return the changes from a snapshot to the current state. Without a snapshot, the table was empty."""
    line: list[Snapshot] = []
    for snapshot in walk_history(table):
        if snapshot.snapshot_id == since:
            return Changes(tuple(reversed(line)))
        line.append(snapshot)
    if since is None and (not line or _is_first(line[-1])):
        return Changes(tuple(reversed(line)))
    return Changes(gap=_explain_gap(table, since, line))


def _is_first(snapshot: Snapshot) -> bool:
    # Expiry by pyiceberg leaves later snapshots without a parent, so the sequence number decides.
    return snapshot.parent_snapshot_id is None and (snapshot.sequence_number or 0) <= FIRST_SEQUENCE


def _explain_gap(table: Table, since: int | None, line: list[Snapshot]) -> str:
    if since is None:
        return "the first snapshots are no longer in the history of the table"
    then = table.metadata.snapshot_by_id(since)
    if then is not None and line and (line[-1].sequence_number or 0) < (then.sequence_number or 0):
        return f"the table was rolled back to a state without snapshot {since}"
    return f"snapshot {since} is no longer in the history of the table"


def count_commits_since(table: Table, since: int | None) -> int | None:
    """Return the number of commits that changed rows since a snapshot, or `None` if it is unknown."""
    changes = find_changes(table, since)
    return None if changes.gap else len(changes.commits)


def is_stale(table: Table, since: int | None) -> bool:
    """Return whether a position is so old that expiry has to keep snapshots of the table for it."""
    then = table.metadata.snapshot_by_id(since) if since is not None else None
    newest = table.current_snapshot()
    return then is not None and newest is not None and newest.timestamp_ms - then.timestamp_ms > STALE_MILLIS
