"""Files of a table's snapshots: the only module that reads manifest lists and manifests through pyiceberg.

Compaction reads the same manifests with DuckDB (`file_index.py`), because it plans for a million files. Queries keep
compact entries of them in memory (`manifest_cache.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, GreaterThanOrEqual, LessThan, Or, Reference
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus

from neve.errors import LakeError
from neve.lake.read.avro_reader_patch import patch_avro_readers
from neve.lake.read.file_values import TIME, partition_values, read_time_bounds
from neve.lake.storage.paths import strip_scheme
from neve.lake.time_ranges import EVERYTHING, moment_of
from neve.model.commits import ERASED_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.time_ranges import Ranges

EVERY_ROW: BooleanExpression = AlwaysTrue()
MAX_RANGES = 50  # separate time ranges in the filter of a scan

patch_avro_readers()


def list_manifests(table: Table, snapshot: Snapshot | None = None) -> list[ManifestFile]:
    """List the manifests of a snapshot, by default of the current one. A table without a snapshot has none."""
    snapshot = snapshot or table.current_snapshot()
    return snapshot.manifests(table.io) if snapshot else []


def list_all_manifests(table: Table) -> list[ManifestFile]:
    """List the manifests of all snapshots, each once, those of the newest snapshot first."""
    found: dict[str, ManifestFile] = {}
    for snapshot in reversed(table.metadata.snapshots):
        found |= {one.manifest_path: one for one in list_manifests(table, snapshot) if one.manifest_path not in found}
    return list(found.values())


def has_live_files(manifest: ManifestFile) -> bool:
    """Return whether a manifest lists files that are still in the table."""
    return manifest.has_added_files() or manifest.has_existing_files()


def holds_deletes(manifest: ManifestFile) -> bool:
    """Return whether a manifest lists delete files."""
    return manifest.content == ManifestContent.DELETES


def read_entries(table: Table, manifest: ManifestFile) -> list[ManifestEntry]:
    """Read the entries of the live files of a manifest."""
    return manifest.fetch_manifest_entry(table.io, discard_deleted=True)


def iterate_entries(table: Table, snapshot: Snapshot | None = None) -> Iterator[ManifestEntry]:
    """Yield the entries of the data files and delete files of a snapshot, by default of the current one.

    One manifest is in memory at a time.
    """
    for manifest in filter(has_live_files, list_manifests(table, snapshot)):
        yield from read_entries(table, manifest)


def iterate_data_files(table: Table, snapshot: Snapshot | None = None) -> Iterator[DataFile]:
    """Yield the data files of a snapshot, by default of the current one. Manifests of delete files are not read."""
    for manifest in filter(has_live_files, list_manifests(table, snapshot)):
        if not holds_deletes(manifest):
            yield from (entry.data_file for entry in read_entries(table, manifest))


def scan_files(
    table: Table, row_filter: BooleanExpression = EVERY_ROW, *, snapshot_id: int | None = None
) -> list[FileScanTask]:
    """List the data files that may have rows of a filter, each with its delete files.

    Raises `LakeError` if the table has equality deletes: pyiceberg can't apply them.
    """
    try:
        return list(table.scan(row_filter=row_filter, snapshot_id=snapshot_id).plan_files())
    except ValueError as error:
        if "equality" not in str(error).lower():
            raise
        name = ".".join(table.name())
        raise LakeError(
            f"{name} has equality deletes, which can't be read without Spark",
            hint=f"apply them with `neve compact run {name} --strategy deletes`, then try again",
        ) from error


def scan_paths(table: Table, row_filter: BooleanExpression = EVERY_ROW) -> list[str]:
    """List the paths of the data files that may have rows of a filter."""
    return [task.file.file_path for task in scan_files(table, row_filter)]


def filter_by_time(time: Ranges, column: str = TIME) -> BooleanExpression:
    """Return the filter for rows of some time ranges. Many ranges are joined to few, which cover somewhat more."""
    if time == EVERYTHING:
        return EVERY_ROW
    found: BooleanExpression = AlwaysFalse()
    for start, end in time.join_to(MAX_RANGES):
        first, last = (moment_of(edge).isoformat() for edge in (start, end))
        after = GreaterThanOrEqual(term=Reference(column), value=first)
        found = Or(found, And(after, LessThan(term=Reference(column), value=last)))
    return found


@dataclass(frozen=True)
class ChangedFile:
    """A file that a snapshot added or removed; `deletes` is true for delete files."""

    file: DataFile
    added: bool

    @property
    def deletes(self) -> bool:
        """Return whether it is a delete file."""
        return self.file.content != DataFileContent.DATA


def list_changed_files(table: Table, snapshot: Snapshot) -> Iterator[ChangedFile]:
    """Yield the files that one snapshot added or removed."""
    for manifest in list_manifests(table, snapshot):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.status != ManifestEntryStatus.EXISTING and entry.snapshot_id == snapshot.snapshot_id:
                yield ChangedFile(entry.data_file, entry.status == ManifestEntryStatus.ADDED)


def find_live_paths(table: Table, paths: Iterable[str], since: int = 0) -> set[str]:
    """Return the paths that a snapshot with at least the sequence number `since` refers to."""
    wanted = {strip_scheme(path): path for path in paths}
    found: set[str] = set()
    seen: set[str] = set()
    for snapshot in reversed(table.metadata.snapshots):
        if (snapshot.sequence_number or 0) < since or found.issuperset(wanted.values()):
            continue
        for manifest in list_manifests(table, snapshot):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            live = {strip_scheme(entry.data_file.file_path) for entry in read_entries(table, manifest)}
            found |= {wanted[path] for path in live & wanted.keys()}
    return found


Partition = tuple[object, ...]
MICROS = 1_000_000


@dataclass(frozen=True)
class RecentFile:
    """A data file and the range of its records' times, in microseconds."""

    path: str
    earliest: int
    latest: int


RecentByPartition = dict[Partition, list[RecentFile]]


@dataclass
class RecentFiles:
    """Finder of the files with recently ingested records, in which ingestion looks for duplicates.

    Manifests are immutable, so each one is read once.
    """

    horizon_seconds: float
    time_column: str = TIME
    arrival_column: str = "ingested_at"
    _read: dict[str, list[DataFile]] = field(default_factory=dict)

    def find(self, table: Table, now_us: int) -> RecentByPartition:
        """Return the files with a record within the horizon, by partition."""
        if self.horizon_seconds <= 0:
            return {}
        oldest = now_us - int(self.horizon_seconds * MICROS)
        manifests = [manifest for manifest in list_manifests(table) if _may_be_recent(table, manifest, oldest)]
        self._read = {
            manifest.manifest_path: self._read.get(manifest.manifest_path)
            or [entry.data_file for entry in read_entries(table, manifest)]
            for manifest in manifests
        }
        recent: RecentByPartition = {}
        for file in (file for files in self._read.values() for file in files):
            times, arrival = (read_time_bounds(table, file, name) for name in (self.time_column, self.arrival_column))
            is_current = file.spec_id == table.metadata.default_spec_id
            if times is not None and arrival is not None and arrival[1] >= oldest and is_current:
                recent.setdefault(partition_values(file), []).append(RecentFile(file.file_path, *times))
        return recent


def _may_be_recent(table: Table, manifest: ManifestFile, oldest_us: int) -> bool:
    """Return whether a manifest may have an entry within the horizon, because it was not written before it."""
    written = table.metadata.snapshot_by_id(manifest.added_snapshot_id) if manifest.added_snapshot_id else None
    if written is None:  # expired; an erasure expires young snapshots too
        return int(table.metadata.properties.get(ERASED_PROPERTY, "0")) * 1000 >= oldest_us
    return written.timestamp_ms * 1000 >= oldest_us
