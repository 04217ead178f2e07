"""How new a table's newest record is, from metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.types import TimestamptzType

from neve.model.commits import OPERATION
from neve.model.decision_tables import DECISIONS
from neve.model.levels import LEVELS
from neve.rollup.position import ROLLUP
from neve.tail.checkpoint import TAIL

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.lake import Lake

MICROS = 1e6
TIME = TimestamptzType()
INGEST = "ingest"
# What follows ingestion: the table that it is committed to, and how its commits are called.
ROLLUPS, DECIDED = (LEVELS[0].table, ROLLUP), (DECISIONS.name, TAIL)


class Watermarks:
    """The newest time in a column; a manifest never changes, so each is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], float] = {}

    def newest(self, table: Table, column: str) -> float | None:
        """The newest time as Unix seconds; none while there is no row."""
        snapshot = table.current_snapshot()
        if snapshot is None:
            return None
        newest = max((self._of(table, manifest, column) for manifest in snapshot.manifests(table.io)), default=0.0)
        return newest or None

    def _of(self, table: Table, manifest: ManifestFile, column: str) -> float:
        key = (manifest.manifest_path, column)
        if key not in self._known:
            field = table.schema().find_field(column).field_id
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
            bounds = [(entry.data_file.upper_bounds or {}).get(field) for entry in entries]
            found = [int(from_bytes(TIME, bound)) / MICROS for bound in bounds if bound is not None]
            self._known[key] = max(found, default=0.0)
        return self._known[key]


def data_files(table: Table) -> int:
    """How many data files a table has."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary.additional_properties.get("total-data-files", 0))


def commits_since(lake: Lake, kind: tuple[str, str], began: float) -> list[float]:
    """When something was committed, in seconds since a moment; what else is done to its table is left out."""
    table, operation = lake.table(kind[0]), kind[1]
    return [one.timestamp_ms / 1000 - began for one in table.metadata.snapshots if _operation(one) == operation]


def last_ingest(table: Table) -> float:
    """When records were last taken in, as Unix seconds; 0 for never."""
    for snapshot in reversed(table.metadata.snapshots):
        if _operation(snapshot).startswith(INGEST):
            return snapshot.timestamp_ms / 1000
    return 0.0


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.additional_properties.get(OPERATION, "") if snapshot.summary else ""
