"""What changed in a table since a snapshot: the line of snapshots, and the files that each added or took out."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import StringType, TimestamptzType

from neve.lake.commit_properties import words_of_stream
from neve.model.commits import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class ChangedFile:
    """A file that a snapshot added or took out; `deletes` are those that mark rows of others."""

    file: DataFile
    added: bool

    @property
    def deletes(self) -> bool:
        """Whether it marks rows of other files."""
        return self.file.content != DataFileContent.DATA


def snapshots_since(table: Table, snapshot_id: int | None) -> list[Snapshot] | None:
    """The snapshots that led from one to the current state, oldest first; `None` where no line of them is known.

    From no snapshot at all, the whole line.
    """
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    line: list[Snapshot] = []
    current = table.metadata.current_snapshot_id
    while current is not None and current != snapshot_id:
        if current not in known:
            return None
        line.append(known[current])
        current = known[current].parent_snapshot_id
    return line[::-1] if current == snapshot_id else None


def keeps_rows(snapshot: Snapshot) -> bool:
    """Whether a snapshot has the same rows as the one before it, in other files."""
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def said(snapshot: Snapshot) -> dict[str, str]:
    """What a snapshot's summary says beside Iceberg's own counts."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def newest_of(table: Table, stream: str) -> dict[str, str] | None:
    """What the last commit of a stream said, in the line of the current snapshot; others don't count.

    Where its snapshot was expired by another program, what the table's properties say of it. Raises `LakeError` where
    those can't be of the current state.
    """
    line: list[Snapshot] = []
    for snapshot in current_line(table):
        words = said(snapshot)
        if words.get(STREAM) == stream:
            return words
        line.append(snapshot)
    return words_of_stream(table, stream, line)


def current_line(table: Table) -> Iterator[Snapshot]:
    """The current snapshot and those that led to it, newest first, as far as they are known."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = known.get(parent) if parent is not None else None


def changed_files(table: Table, snapshot: Snapshot) -> Iterator[ChangedFile]:
    """The files that one snapshot added or took out."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status != ManifestEntryStatus.EXISTING and entry.snapshot_id == snapshot.snapshot_id:
                yield ChangedFile(entry.data_file, entry.status == ManifestEntryStatus.ADDED)


def times_of(table: Table, file: DataFile, column: str = "timestamp") -> tuple[int, int] | None:
    """The earliest and the latest time in a file in microseconds, as the table knows them."""
    field = table.schema().find_field(column)
    lower, upper = (bounds or {} for bounds in (file.lower_bounds, file.upper_bounds))
    if not isinstance(field.field_type, TimestamptzType) or field.field_id not in lower or field.field_id not in upper:
        return None
    first, last = (int(from_bytes(field.field_type, side[field.field_id])) for side in (lower, upper))
    return first, last


def owner_of(table: Table, file: DataFile, column: str = "organization_id") -> str | None:
    """The one organization of a file's rows, as its partition or its bounds tell; `None` where they do not."""
    source = table.schema().find_field(column).field_id
    for place, part in enumerate(table.metadata.specs()[file.spec_id].fields):
        if part.source_id == source and isinstance(part.transform, IdentityTransform):
            value = file.partition[place]
            return None if value is None else str(value)
    lower, upper = ((bounds or {}).get(source) for bounds in (file.lower_bounds, file.upper_bounds))
    is_whole = lower is not None and lower == upper and len(lower) < 16
    return str(from_bytes(StringType(), lower)) if is_whole and lower is not None else None


def partition_json(metadata: TableMetadata, file: DataFile, spec_id: int) -> list[object]:
    """A file's partition values as Iceberg writes them in JSON."""
    values: list[object] = []
    for place, part in enumerate(metadata.specs()[spec_id].fields):
        value = file.partition[place]
        if isinstance(part.transform, DayTransform) and isinstance(value, int):
            value = EPOCH + timedelta(days=value)
        values.append(value.isoformat() if isinstance(value, date) else value)
    return values
