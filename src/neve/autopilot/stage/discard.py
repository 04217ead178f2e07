"""A branch taken back: its refs, snapshots, files, and what was staged for it in the table's metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
)

from neve.autopilot.stage.listing import folder_of, remove_unused
from neve.autopilot.stage.result import DiscardReport
from neve.autopilot.stage.rewrite import ATTEMPT
from neve.lake.branches import ancestors, refs_of
from neve.lake.metadata_commit import MetadataChange, commit_metadata

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from neve.autopilot.stage.record import Record
    from neve.lake.lake import Lake

GROWS = "last-updated-ms, last-sequence-number and metadata-log, which only grow"


@dataclass(frozen=True)
class Remains:
    """What a table has of an attempt that was not merged."""

    refs: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    spec_id: int | None
    schema_id: int | None
    kept_schema: str = ""  # why the schema stays

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """What takes all of it out."""
        found: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in self.refs]
        if self.snapshots:
            found.append(RemoveSnapshotsUpdate(snapshot_ids=[one.snapshot_id for one in self.snapshots]))
        return tuple(found)


def discard(lake: Lake, record: Record, reason: str) -> DiscardReport:
    """Take back everything that an attempt has in a table; main's snapshot is not touched."""
    first = lake.table(record.table)
    remains = remains_of(first, record)
    manifests = _own_manifests(first, remains)
    table = commit_metadata(lake, record.table, lambda found: _change(remains_of(found, record), record))
    for path in manifests:
        table.io.delete(path)
    removed = remove_unused(lake, table, folder_of(table, record.branch))
    return DiscardReport(
        record.id,
        record.table,
        record.branch,
        len(remains.snapshots),
        removed + len(manifests),
        reason,
        _left(remains),
    )


def remains_of(table: Table, record: Record) -> Remains:
    """What there is to take back."""
    metadata = table.metadata
    refs = refs_of(table, record.branch)
    others = [ref.snapshot_id for name, ref in metadata.refs.items() if name not in refs]
    needed = {one for head in others for one in ancestors(table, head)}
    snapshots = tuple(
        one
        for one in metadata.snapshots
        if one.snapshot_id not in needed
        and one.summary is not None
        and one.summary.additional_properties.get(ATTEMPT) == record.id
    )
    gone = {one.snapshot_id for one in snapshots}
    spec = record.new_spec
    has_spec = any(one.spec_id == spec for one in metadata.partition_specs) and metadata.default_spec_id != spec
    schema_id, kept = _schema(table, record, gone)
    return Remains(refs, snapshots, spec if has_spec else None, schema_id, kept)


def _schema(table: Table, record: Record, gone: set[int]) -> tuple[int | None, str]:
    """The schema that can go, or why it can't."""
    staged, metadata = record.schema_id, table.metadata
    if staged is None or all(one.schema_id != staged for one in metadata.schemas):
        return None, ""
    names = ", ".join(one.name for one in record.layout.promoted)
    if metadata.current_schema_id != staged:
        return None, f"{names}: the schema was changed again since"
    used = [one.snapshot_id for one in metadata.snapshots if one.schema_id == staged and one.snapshot_id not in gone]
    if used:
        return None, f"{names}: snapshot {used[-1]} was written with them, where they are null"
    return staged, ""


def _change(remains: Remains, record: Record) -> MetadataChange | None:
    updates = list(remains.updates)
    if remains.schema_id is not None:
        updates.append(SetCurrentSchemaUpdate(schema_id=record.before.schema_id))
        updates.append(RemoveSchemasUpdate(schema_ids=[remains.schema_id]))
    if remains.spec_id is not None:
        updates.append(RemovePartitionSpecsUpdate(spec_ids=[remains.spec_id]))
    return MetadataChange(tuple(updates)) if updates else None


def _own_manifests(table: Table, remains: Remains) -> list[str]:
    """Manifest lists of the snapshots, and manifests that they made themselves."""
    ids = {one.snapshot_id for one in remains.snapshots}
    found = [
        manifest.manifest_path
        for one in remains.snapshots
        for manifest in one.manifests(table.io)
        if manifest.added_snapshot_id in ids
    ]
    return sorted({*found, *(one.manifest_list for one in remains.snapshots)})


def _left(remains: Remains) -> tuple[str, ...]:
    left = [GROWS]
    if remains.spec_id is not None:
        left.append("last-partition-id, which counts the fields of the spec that was staged")
    if remains.schema_id is not None:
        left.append("last-column-id, which counts the columns that were staged")
    if remains.kept_schema:
        left.append(f"the columns {remains.kept_schema}")
    return tuple(left)
