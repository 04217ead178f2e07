"""Statistics of all tables of a lake on this machine, without pyiceberg.

Other catalogs, other places of files and older formats are left to `statistics.py`, which must report the same numbers.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.calendar import EPOCH
from neve.lake.catalog import sqlite_path
from neve.lake.read.history import commit_time, read_summary, read_totals
from neve.lake.read.local_table import UNREADABLE, LocalTable
from neve.lake.sqlite_catalog import SqliteCatalog, is_plain_sqlite
from neve.local_folders import find_file_system, is_network_file_system
from neve.model.commits import DUPLICATES
from neve.model.signals import NAMESPACE

if TYPE_CHECKING:
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from neve.lake.config import CatalogConfig

TIME_COLUMNS = ("timestamp", "quarantined_at", "recorded_at", "decided_at")
MICROS_BYTES = 8


@dataclass(frozen=True)
class TableStatistics:
    """Main statistics of a table."""

    name: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    earliest: datetime | None
    latest: datetime | None
    committed: datetime | None = None
    duplicates: int = 0


def read_local_statistics(config: CatalogConfig) -> list[TableStatistics] | None:
    """Return the statistics of every table, by name. None if there are none, or if pyiceberg has to read them.

    Anything unexpected is left to pyiceberg, too, whose errors say what is wrong.
    """
    file = sqlite_path(config)
    if not is_plain_sqlite(config) or not file.exists() or is_network_file_system(find_file_system(file)):
        return None
    catalog = SqliteCatalog(file, config.name, {}, _refuse_whole_catalog)
    try:
        places = catalog.metadata_locations(NAMESPACE)
        tables = (LocalTable((NAMESPACE, name), place, _refuse_whole_table) for name, place in sorted(places.items()))
        return [make_statistics(table, read_time_range(table)) for table in tables] or None
    except (LakeError, sqlite3.Error, *UNREADABLE):
        return None


def _refuse_whole_catalog() -> Catalog:
    raise LakeError("the catalog needs pyiceberg")


def _refuse_whole_table() -> Table:
    raise LakeError("the table needs pyiceberg")


def make_statistics(table: Table | LocalTable, times: tuple[datetime | None, datetime | None]) -> TableStatistics:
    """Return the statistics of the current snapshot; `times` are the earliest and the latest one of its rows."""
    snapshot, totals = table.current_snapshot(), read_totals(table)
    return TableStatistics(
        name=table.name()[-1],
        rows=totals.rows,
        files=totals.files,
        bytes=totals.bytes,
        snapshots=len(table.metadata.snapshots),
        earliest=times[0],
        latest=times[1],
        committed=commit_time(snapshot) if snapshot else None,
        duplicates=sum(int(read_summary(one).get(DUPLICATES, 0)) for one in table.metadata.snapshots),
    )


def read_time_range(table: LocalTable) -> tuple[datetime | None, datetime | None]:
    """Return the smallest and largest time from the bounds in the manifests. No data file is opened."""
    bounds = [bound for pair in read_time_bounds(table) for bound in pair if bound is not None]
    return (_moment(min(bounds)), _moment(max(bounds))) if bounds else (None, None)


def read_time_bounds(table: LocalTable) -> list[tuple[int | None, int | None]]:
    """Return the time bounds of each data file in microseconds, or nothing if the table has no time column."""
    field = table.field_id(*TIME_COLUMNS)
    if field is None:
        return []
    return [
        (_parse_micros(file.lower_bounds.get(field)), _parse_micros(file.upper_bounds.get(field)))
        for file in table.data_files()
    ]


def _parse_micros(bound: bytes | None) -> int | None:
    if bound is None:
        return None
    if len(bound) != MICROS_BYTES:
        raise ValueError("a time bound has another width")
    return int.from_bytes(bound, "little", signed=True)


def _moment(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)
