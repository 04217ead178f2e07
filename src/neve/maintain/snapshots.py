"""Snapshots, branches and tags of a table as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table

MAIN = "main"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot: when it was committed, what it came after, and what its summary says."""

    id: int
    parent_id: int | None
    at: datetime
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def removed_bytes(self) -> int:
        """Bytes of the files that this commit took out of the table."""
        return int(self.summary.get("removed-files-size", 0))


@dataclass(frozen=True)
class Ref:
    """A branch or a tag, with what it says of its own age."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots: int | None = None

    def __str__(self) -> str:
        return f"{'branch' if self.is_branch else 'tag'} {self.name}"


def snapshots_of(table: Table) -> tuple[Snapshot, ...]:
    """The snapshots that a table remembers."""
    return tuple(
        Snapshot(
            one.snapshot_id,
            one.parent_snapshot_id,
            EPOCH + timedelta(milliseconds=one.timestamp_ms),
            dict(one.summary.additional_properties) if one.summary else {},
        )
        for one in table.metadata.snapshots
    )


def refs_of(table: Table) -> tuple[Ref, ...]:
    """Its branches and tags, in the order of their names."""
    return tuple(
        Ref(
            name,
            ref.snapshot_id,
            ref.snapshot_ref_type == "branch",
            _milliseconds(ref.max_ref_age_ms),
            _milliseconds(ref.max_snapshot_age_ms),
            ref.min_snapshots_to_keep,
        )
        for name, ref in sorted(table.metadata.refs.items())
    )


def ancestors(snapshots: Sequence[Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """A snapshot and those that it came from, the newest first, as far back as the table remembers without a gap."""
    known = {snapshot.id: snapshot for snapshot in snapshots}
    seen: set[int] = set()
    while snapshot_id is not None and snapshot_id in known and snapshot_id not in seen:
        seen.add(snapshot_id)
        yield known[snapshot_id]
        snapshot_id = known[snapshot_id].parent_id


def head_of(refs: Sequence[Ref], name: str = MAIN) -> int | None:
    """The snapshot that a branch or tag is at."""
    return next((ref.snapshot_id for ref in refs if ref.name == name), None)


def shown(moment: datetime) -> str:
    """A moment for a person."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _milliseconds(value: int | None) -> timedelta | None:
    # A tag that is kept for good may hold Java's largest number, which no timedelta does.
    return None if value is None else timedelta(milliseconds=min(value, 3_650_000 * 86_400_000))
