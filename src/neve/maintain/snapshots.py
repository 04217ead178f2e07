"""Snapshots, branches and tags of a table as values, and the snapshots that streams need for exactly-once."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.lake.read.history import commit_time, read_summary, walk_ancestors
from neve.model.commits import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyiceberg.table import Table


MAIN = "main"


@dataclass(frozen=True)
class Snapshot:
    """A snapshot with its commit time, its parent and its summary."""

    id: int
    parent_id: int | None
    at: datetime
    summary: Mapping[str, str] = field(default_factory=dict)

    @property
    def removed_bytes(self) -> int:
        """Bytes of the files that this commit removed from the table."""
        return int(self.summary.get("removed-files-size", 0))


@dataclass(frozen=True)
class Ref:
    """A branch or a tag, with its own age limits."""

    name: str
    snapshot_id: int
    is_branch: bool
    max_age: timedelta | None = None
    max_snapshot_age: timedelta | None = None
    min_snapshots: int | None = None

    def __str__(self) -> str:
        return f"{'branch' if self.is_branch else 'tag'} {self.name}"


def snapshots_of(table: Table) -> tuple[Snapshot, ...]:
    """Return the snapshots of a table."""
    return tuple(
        Snapshot(
            one.snapshot_id,
            one.parent_snapshot_id,
            commit_time(one),
            read_summary(one),
        )
        for one in table.metadata.snapshots
    )


def refs_of(table: Table) -> tuple[Ref, ...]:
    """Return the branches and tags of a table, by name."""
    return tuple(
        Ref(
            name,
            ref.snapshot_id,
            ref.snapshot_ref_type == "branch",
            _to_timedelta(ref.max_ref_age_ms),
            _to_timedelta(ref.max_snapshot_age_ms),
            ref.min_snapshots_to_keep,
        )
        for name, ref in sorted(table.metadata.refs.items())
    )


def ancestors(snapshots: Sequence[Snapshot], snapshot_id: int | None) -> Iterator[Snapshot]:
    """Yield a snapshot and its ancestors, the newest first, up to the first gap in the table's history."""
    known = {snapshot.id: snapshot for snapshot in snapshots}
    parents = {snapshot.id: snapshot.parent_id for snapshot in snapshots}
    yield from (known[number] for number in walk_ancestors(parents, snapshot_id))


def head_of(refs: Sequence[Ref], name: str = MAIN) -> int | None:
    """Return the snapshot of a branch or tag."""
    return next((ref.snapshot_id for ref in refs if ref.name == name), None)


def format_time(moment: datetime) -> str:
    """Format a moment for users."""
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _to_timedelta(value: int | None) -> timedelta | None:
    # A tag that never expires may have Java's largest number, which a timedelta can't represent.
    return None if value is None else timedelta(milliseconds=min(value, 3_650_000 * 86_400_000))


def find_newest_of_streams(snapshots: Sequence[Snapshot], current: int | None) -> dict[str, Snapshot]:
    """Return the last commit of each stream among the ancestors of the current snapshot. The stream resumes from it."""
    newest: dict[str, Snapshot] = {}
    for snapshot in ancestors(snapshots, current):
        stream = snapshot.summary.get(STREAM)
        if stream is not None:
            newest.setdefault(stream, snapshot)
    return newest


def find_path_to(snapshots: Sequence[Snapshot], current: int | None, snapshot_id: int) -> list[int]:
    """Return the snapshots from the current one to an ancestor. A stream walks this path, and a gap would end it."""
    path = []
    for snapshot in ancestors(snapshots, current):
        path.append(snapshot.id)
        if snapshot.id == snapshot_id:
            return path
    return []
