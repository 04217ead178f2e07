"""What is in a table, from metadata alone: rows, files, bytes, snapshots, time range."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.types import TimestamptzType

from neve.model.commits import DUPLICATES

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

TIME_COLUMNS = ("timestamp", "quarantined_at", "recorded_at", "decided_at")


@dataclass(frozen=True)
class TableStatistics:
    """Numbers that a person asks for first."""

    name: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    earliest: datetime | None
    latest: datetime | None
    committed: datetime | None = None
    duplicates: int = 0


def table_statistics(table: Table) -> TableStatistics:
    """The statistics of a table's current snapshot; deleted rows are subtracted where the summary knows them."""
    snapshot, totals = table.current_snapshot(), _totals(table)
    earliest, latest = _time_range(table)
    return TableStatistics(
        name=table.name()[-1],
        rows=row_count(table),
        files=int(totals.get("total-data-files", 0)),
        bytes=int(totals.get("total-files-size", 0)),
        snapshots=len(table.metadata.snapshots),
        earliest=earliest,
        latest=latest,
        committed=_moment(snapshot.timestamp_ms * 1000) if snapshot else None,
        duplicates=_told(table, DUPLICATES),
    )


def row_count(table: Table) -> int:
    """How many rows a table has, by its summary."""
    totals = _totals(table)
    return int(totals.get("total-records", 0)) - int(totals.get("total-position-deletes", 0))


def _totals(table: Table) -> dict[str, str]:
    snapshot = table.current_snapshot()
    return dict(snapshot.summary.additional_properties) if snapshot and snapshot.summary else {}


def _told(table: Table, key: str) -> int:
    """What the commits that are still remembered say of a count, added up."""
    summaries = (snapshot.summary for snapshot in table.metadata.snapshots if snapshot.summary)
    return sum(int(summary.additional_properties.get(key, 0)) for summary in summaries)


def _time_range(table: Table) -> tuple[datetime | None, datetime | None]:
    """The smallest and largest time by the bounds in the manifests; no data file is opened."""
    field = next((field for field in table.schema().fields if field.name in TIME_COLUMNS), None)
    time_type = TimestamptzType()
    snapshot = table.current_snapshot()
    if field is None or snapshot is None:
        return None, None
    lows, highs = [], []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file: DataFile = entry.data_file
            lowest = (file.lower_bounds or {}).get(field.field_id)
            highest = (file.upper_bounds or {}).get(field.field_id)
            if lowest is not None and highest is not None:
                lows.append(int(from_bytes(time_type, lowest)))
                highs.append(int(from_bytes(time_type, highest)))
    return (_moment(min(lows)), _moment(max(highs))) if lows else (None, None)


def _moment(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
