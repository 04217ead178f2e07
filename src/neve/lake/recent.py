"""The files of a table that hold what came in lately: where a record may be already that comes in again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.types import TimestamptzType

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestFile
    from pyiceberg.table import Table

Partition = tuple[object, ...]
MICROS = 1_000_000
TIME = TimestamptzType()


@dataclass(frozen=True)
class RecentFile:
    """A data file and the times that its records lie between, in microseconds."""

    path: str
    earliest: int
    latest: int


Recent = dict[Partition, list[RecentFile]]


@dataclass
class RecentFiles:
    """Finds a table's recent files again and again; manifests never change, so each is read once."""

    horizon_seconds: float
    time_column: str = "timestamp"
    arrival_column: str = "ingested_at"
    _read: dict[str, list[DataFile]] = field(default_factory=dict)

    def find(self, table: Table, now_us: int) -> Recent:
        """The files that got a record within the horizon, by partition."""
        snapshot = table.current_snapshot()
        if snapshot is None or self.horizon_seconds <= 0:
            return {}
        oldest = now_us - int(self.horizon_seconds * MICROS)
        manifests = [manifest for manifest in snapshot.manifests(table.io) if _may_hold(table, manifest, oldest)]
        self._read = {
            manifest.manifest_path: self._read.get(manifest.manifest_path)
            or [entry.data_file for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)]
            for manifest in manifests
        }
        recent: Recent = {}
        for files in self._read.values():
            for file in files:
                self._add(recent, table, file, oldest)
        return recent

    def _add(self, recent: Recent, table: Table, file: DataFile, oldest: int) -> None:
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}
        time_id = table.schema().find_field(self.time_column).field_id
        arrival_id = table.schema().find_field(self.arrival_column).field_id
        if time_id not in lower or time_id not in upper or arrival_id not in upper:
            return
        if int(from_bytes(TIME, upper[arrival_id])) >= oldest and file.spec_id == table.metadata.default_spec_id:
            earliest, latest = (int(from_bytes(TIME, bounds[time_id])) for bounds in (lower, upper))
            recent.setdefault(_values(file), []).append(RecentFile(file.file_path, earliest, latest))


def _may_hold(table: Table, manifest: ManifestFile, oldest_us: int) -> bool:
    """Whether a manifest may have an entry from within the horizon: it was not written before it."""
    written = table.metadata.snapshot_by_id(manifest.added_snapshot_id) if manifest.added_snapshot_id else None
    return written is not None and written.timestamp_ms * 1000 >= oldest_us


def _values(file: DataFile) -> Partition:
    return tuple(file.partition[position] for position in range(len(file.partition)))
