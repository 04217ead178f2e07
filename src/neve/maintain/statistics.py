"""Compute statistics for query planners: distinct values of columns, and partition statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.lake.read.local_statistics import TIME_COLUMNS
from neve.maintain.procedures import call_procedure, format_texts
from neve.maintain.retention_plan import strip_namespace
from neve.maintain.step import KEEP, Cost, Entry, Outcome
from neve.model.tables import TABLES
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from neve.maintain.step import StepContext


COMPUTE = "compute"
UNCOUNTED = (*TIME_COLUMNS, "ingested_at")  # nearly every row has a different time: a count of them is not useful


@dataclass(frozen=True)
class TableDescription:
    """Columns of a table, the columns of its layout, and the snapshots that have statistics."""

    columns: tuple[str, ...]
    laid_out_by: tuple[str, ...]
    partitioned: bool
    snapshot_id: int | None
    counted: frozenset[str] = frozenset()  # columns with statistics of the current snapshot
    has_partition_statistics: bool = False


@dataclass(frozen=True)
class StatisticsPlan:
    """Columns whose distinct values are counted, and whether partition statistics are computed."""

    columns: tuple[str, ...]
    partitions: bool
    entries: tuple[Entry, ...]
    reason: str


def choose_columns(table: str, described: TableDescription, chosen: Sequence[str] | None) -> tuple[str, ...]:
    """Return the user's choice, else the bounded columns of one of Neve's tables, else the columns of the layout."""
    if chosen is not None:
        return tuple(chosen)
    declared = next((one.bounded for one in TABLES if one.name == table), described.laid_out_by)
    return tuple(name for name in dict.fromkeys(declared) if name in described.columns and name not in UNCOUNTED)


def plan_statistics(described: TableDescription, columns: tuple[str, ...]) -> StatisticsPlan:
    """Plan the statistics that the current snapshot lacks."""
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
    reason = "statistics are missing" if missing or partitions else "the current snapshot has its statistics"
    return StatisticsPlan(missing, partitions, tuple(entries), reason)


STEP = "statistics"


def compute_statistics(work: StepContext) -> Outcome:
    """Compute the statistics that the current snapshot lacks. This reads the counted columns."""
    table, name = work.table(), strip_namespace(work.name)
    described = describe_table(table)
    columns = choose_columns(name, described, work.config.statistics.columns.get(name))
    unknown = [column for column in columns if column not in described.columns]
    if unknown:
        raise ConfigError(f"maintain.statistics.columns names {unknown[0]!r} of {name}, which has no such column")
    plan = plan_statistics(described, columns)
    if work.dry_run or not (plan.columns or plan.partitions):
        return Outcome(plan.reason, False, plan.entries)
    work.report_progress(STEP, 0, 2)
    if plan.columns:
        work.check()
        call_procedure(work.lake, "compute_table_stats", work.name, {"columns": format_texts(plan.columns)})
    work.report_progress(STEP, 1, 2)
    if plan.partitions:
        work.check()
        call_procedure(work.lake, "compute_partition_stats", work.name)
    work.report_progress(STEP, 2, 2)
    parts = [
        f"{format_count(len(plan.columns), 'column')} counted" if plan.columns else "",
        "partition statistics computed" if plan.partitions else "",
    ]
    return Outcome(" and ".join(part for part in parts if part), True, plan.entries, cost=_calculate_cost(work.table()))


def describe_table(table: Table) -> TableDescription:
    """Return the description of a table by its metadata."""
    schema, current = table.schema(), table.metadata.current_snapshot_id
    names = {field.field_id: field.name for field in schema.fields}
    sources = [field.source_id for field in table.spec().fields]
    sources += [field.source_id for field in table.sort_order().fields]
    counted = {
        names.get(field_id, "")
        for one in table.metadata.statistics
        if one.snapshot_id == current
        for blob in one.blob_metadata
        for field_id in blob.fields
    }
    return TableDescription(
        columns=tuple(names.values()),
        laid_out_by=tuple(names[source] for source in sources if source in names),
        partitioned=bool(table.spec().fields),
        snapshot_id=current,
        counted=frozenset(counted),
        has_partition_statistics=any(one.snapshot_id == current for one in table.metadata.partition_statistics),
    )


def _calculate_cost(table: Table) -> Cost:
    current, metadata = table.metadata.current_snapshot_id, table.metadata
    made = [one for one in (*metadata.statistics, *metadata.partition_statistics) if one.snapshot_id == current]
    return Cost(api_calls=3 * len(made), bytes_written=sum(one.file_size_in_bytes for one in made))
