"""Which statistics are worth computing: a pure function of columns and of what is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.statistics import TIME_COLUMNS
from neve.maintain.entry import KEEP, Entry
from neve.model.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPUTE = "compute"
UNTOLD = (*TIME_COLUMNS, "ingested_at")  # nearly every row has another time: counting them tells nothing


@dataclass(frozen=True)
class Described:
    """What a table has: its columns, those that it is laid out by, and the snapshots that have statistics."""

    columns: tuple[str, ...]
    laid_out_by: tuple[str, ...]
    partitioned: bool
    snapshot_id: int | None
    counted: frozenset[str] = frozenset()  # columns with statistics of the current snapshot
    has_partition_statistics: bool = False


@dataclass(frozen=True)
class StatisticsPlan:
    """Which columns to count distinct values of, and whether to sum up partitions."""

    columns: tuple[str, ...]
    partitions: bool
    entries: tuple[Entry, ...]
    reason: str


def columns_of(table: str, described: Described, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """The user's choice; else the bounded columns of one of the lake's own tables; else what it is laid out by."""
    if chosen is not None:
        return tuple(chosen)
    declared = next((one.bounded for one in TABLES if one.name == table), described.laid_out_by)
    return tuple(name for name in dict.fromkeys(declared) if name in described.columns and name not in UNTOLD)


def plan_statistics(described: Described, columns: tuple[str, ...]) -> StatisticsPlan:
    """What the current snapshot lacks."""
    if described.snapshot_id is None:
        return StatisticsPlan((), False, (), "the table is empty")
    missing = () if set(columns) <= described.counted else columns
    partitions = described.partitioned and not described.has_partition_statistics
    snapshot = f"snapshot {described.snapshot_id}"
    entries = [
        Entry(COMPUTE, f"distinct values of {', '.join(missing)}", f"{snapshot} has no such statistics")
        if missing
        else Entry(KEEP, "distinct values", f"{snapshot} has them" if columns else "no column is worth counting"),
        Entry(COMPUTE, "partition statistics", f"{snapshot} has none")
        if partitions
        else Entry(KEEP, "partition statistics", f"{snapshot} has them" if described.partitioned else "no partitions"),
    ]
    reason = "statistics are to be computed" if missing or partitions else "the current snapshot has its statistics"
    return StatisticsPlan(missing, partitions, tuple(entries), reason)
