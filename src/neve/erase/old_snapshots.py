"""Expire all earlier snapshots of a table, and remove the files that only they refer to.

A snapshot that a branch, a tag or an incremental reader needs stays, and with it the files that it refers to. The
result says so: those rows are not erased yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
)

from neve.lake.commit.metadata import MetadataChange, commit_metadata
from neve.lake.read.snapshot_files import list_manifests, read_entries
from neve.model.commits import ERASED_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake

GC_ENABLED = "gc.enabled"


@dataclass(frozen=True)
class SnapshotErasure:
    """Expired snapshots, dropped branches and tags, removed files, and the reasons why snapshots stay."""

    table: str
    snapshots: int = 0
    refs: tuple[str, ...] = ()
    files: int = 0
    remaining: tuple[str, ...] = ()


def expire_old_snapshots(
    lake: Lake, name: str, readers: Iterable[tuple[str, int]], now_ms: int, *, drop_refs: bool
) -> SnapshotErasure:
    """Expire every snapshot but the current one, unless a branch, a tag or a reader needs earlier ones."""
    table = lake.table(name)
    remaining = find_reasons_to_keep(table, readers, drop_refs=drop_refs)
    old = {one.snapshot_id for one in table.metadata.snapshots} - {table.metadata.current_snapshot_id}
    if remaining or not old:
        return SnapshotErasure(name, remaining=remaining)
    refs = tuple(sorted(set(table.metadata.refs) - {MAIN_BRANCH}))
    before = table.metadata

    def decide(current: Table) -> MetadataChange | None:
        left = [one for one in old if current.metadata.snapshot_by_id(one) is not None]
        if not left:
            return None
        dropped = tuple(RemoveSnapshotRefUpdate(ref_name=ref) for ref in refs if ref in current.metadata.refs)
        return MetadataChange(
            (
                *dropped,
                RemoveSnapshotsUpdate(snapshot_ids=left),
                SetPropertiesUpdate(updates={ERASED_PROPERTY: str(now_ms)}),
            ),
            (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=current.metadata.current_snapshot_id),),
        )

    unwanted = collect_files(table, (one for one in before.snapshots if one.snapshot_id in old))
    changed = commit_metadata(lake, name, decide)
    unwanted -= collect_files(changed, changed.metadata.snapshots)
    statistics = {one.statistics_path for one in (*before.statistics, *before.partition_statistics)} - {
        one.statistics_path for one in (*changed.metadata.statistics, *changed.metadata.partition_statistics)
    }
    for path in unwanted | statistics:
        changed.io.delete(path)
    return SnapshotErasure(name, len(old), refs, len(unwanted | statistics))


def find_reasons_to_keep(table: Table, readers: Iterable[tuple[str, int]], *, drop_refs: bool) -> tuple[str, ...]:
    """Return why earlier snapshots must stay."""
    metadata, name = table.metadata, table.name()[-1]
    reasons = [
        f"{name}: {ref.snapshot_ref_type} {title} refers to snapshot {ref.snapshot_id}"
        for title, ref in metadata.refs.items()
        if title != MAIN_BRANCH and not drop_refs
    ]
    reasons += [
        f"{name}: {reader} has not read the current snapshot, only {snapshot}"
        for reader, snapshot in readers
        if snapshot != metadata.current_snapshot_id and metadata.snapshot_by_id(snapshot) is not None
    ]
    if metadata.properties.get(GC_ENABLED, "true").lower() == "false":
        reasons.append(f"{name}: the table property {GC_ENABLED} is false")
    return tuple(reasons)


def collect_files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return every file that some snapshots refer to: data, deletes, manifests and their lists."""
    files: set[str] = set()
    seen: set[str] = set()
    for snapshot in snapshots:
        files.add(snapshot.manifest_list)
        for manifest in list_manifests(table, snapshot):
            files.add(manifest.manifest_path)
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            files.update(entry.data_file.file_path for entry in read_entries(table, manifest))
    return files
