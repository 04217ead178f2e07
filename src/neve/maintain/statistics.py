"""Statistics that query planners read: distinct values of columns, and sums of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.maintain.procedures import call, texts
from neve.maintain.result import Cost, Outcome
from neve.maintain.retention_rules import bare
from neve.maintain.statistics_plan import Described, columns_of, plan_statistics
from neve.maintain.words import counted

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.work import Work

STEP = "statistics"


def statistics(work: Work) -> Outcome:
    """Compute what the current snapshot lacks; this reads the columns that are counted."""
    table, name = work.table(), bare(work.name)
    described = describe(table)
    columns = columns_of(name, described, work.config.statistics.columns.get(name))
    unknown = [column for column in columns if column not in described.columns]
    if unknown:
        raise ConfigError(f"maintain.statistics.columns names {unknown[0]!r} of {name}, which has no such column")
    plan = plan_statistics(described, columns)
    if work.dry_run or not (plan.columns or plan.partitions):
        return Outcome(plan.reason, False, plan.entries)
    work.tell(STEP, 0, 2)
    if plan.columns:
        work.check()
        call(work.lake, "compute_table_stats", work.name, {"columns": texts(plan.columns)})
    work.tell(STEP, 1, 2)
    if plan.partitions:
        work.check()
        call(work.lake, "compute_partition_stats", work.name)
    work.tell(STEP, 2, 2)
    parts = [
        f"{counted(len(plan.columns), 'column')} counted" if plan.columns else "",
        "partitions summed up" if plan.partitions else "",
    ]
    return Outcome(" and ".join(part for part in parts if part), True, plan.entries, cost=_cost(work.table()))


def describe(table: Table) -> Described:
    """What the metadata says of a table's statistics."""
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
    return Described(
        columns=tuple(names.values()),
        laid_out_by=tuple(names[source] for source in sources if source in names),
        partitioned=bool(table.spec().fields),
        snapshot_id=current,
        counted=frozenset(counted),
        has_partition_statistics=any(one.snapshot_id == current for one in table.metadata.partition_statistics),
    )


def _cost(table: Table) -> Cost:
    current, metadata = table.metadata.current_snapshot_id, table.metadata
    made = [one for one in (*metadata.statistics, *metadata.partition_statistics) if one.snapshot_id == current]
    return Cost(api_calls=3 * len(made), bytes_written=sum(one.file_size_in_bytes for one in made))
