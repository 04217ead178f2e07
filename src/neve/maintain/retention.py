"""Delete rows that are past their retention, by the partitions in the table's manifests."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, TimestampType, TimestamptzType

from neve.errors import ConfigError
from neve.lake.read.file_values import UNITS, read_bounds
from neve.lake.read.local_statistics import TIME_COLUMNS
from neve.lake.read.snapshot_files import iterate_data_files
from neve.lake.time_ranges import moment_of
from neve.maintain.procedures import format_timestamp, quote_name, quote_text
from neve.maintain.retention_plan import Deletion, PartitionFacts, RetentionPlan, plan_retention, rules_for
from neve.maintain.snapshots import Snapshot, snapshots_of
from neve.maintain.step import Cost, Gain, Outcome
from neve.model.commits import OPERATION
from neve.model.tables import ORGANIZATION
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField
    from pyspark.sql import SparkSession

    from neve.lake.calendar import Unit
    from neve.maintain.config import RetentionRule
    from neve.maintain.step import StepContext


TIMES = (TimestamptzType, TimestampType, DateType)
Place = int | None


@dataclass(frozen=True)
class TimeLayout:
    """Columns of a table with the time and the organization of its rows.

    `organization` is set only if the current partition spec separates rows by it. Files of older specs may not.
    """

    time: NestedField
    organization: NestedField | None
    unit: Unit | None

    @property
    def by_organization(self) -> bool:
        """True if new files contain one organization each."""
        return self.organization is not None


def find_time_layout(table: Table, column: str = "") -> TimeLayout | None:
    """Return the layout by the partition specs, or nothing if there is no such column, or no time in it."""
    fields = {field.name: field for field in table.schema().fields}
    names = (column,) if column else TIME_COLUMNS
    time = next((fields[name] for name in names if name in fields), None)
    if time is None or not isinstance(time.field_type, TIMES):
        return None
    organization = fields.get(ORGANIZATION.name)
    specs = [spec for spec in table.specs().values() if spec.fields] or [table.spec()]
    units = {_find_unit(spec, time) for spec in specs}
    parted = organization is not None and _find_place(table.spec(), organization) is not None
    return TimeLayout(time, organization if parted else None, units.pop() if len(units) == 1 else None)


def read_partitions(table: Table, layout: TimeLayout) -> tuple[PartitionFacts, ...]:
    """Return the partitions of the current snapshot that have data files."""
    found: dict[tuple[str | None, int | None, bool], PartitionFacts] = {}
    specs = table.specs()
    for file in iterate_data_files(table):
        facts = _make_facts(file, specs[file.spec_id], layout)
        key = (facts.organization, facts.period, facts.mixed)
        found[key] = _sum_facts(found[key], facts) if key in found else facts
    return tuple(found.values())


def _make_facts(file: DataFile, spec: PartitionSpec, layout: TimeLayout) -> PartitionFacts:
    owner = _find_place(spec, layout.organization) if layout.organization else None
    time = next((place for place, field in enumerate(spec.fields) if _is_time_field(field, layout.time)), None)
    period = file.partition[time] if layout.unit and time is not None else None
    return PartitionFacts(
        None if owner is None else file.partition[owner],
        period,
        files=1,
        rows=file.record_count,
        bytes=file.file_size_in_bytes,
        earliest=_find_earliest(file, layout.time),
        mixed=owner is None,
    )


def _find_earliest(file: DataFile, time: NestedField) -> datetime | None:
    lower, _upper = read_bounds(file, time.field_id)
    if lower is None or isinstance(time.field_type, DateType):
        return None
    return moment_of(int(from_bytes(TimestamptzType(), lower)))


def _sum_facts(one: PartitionFacts, other: PartitionFacts) -> PartitionFacts:
    unknown = one.earliest is None or other.earliest is None
    return PartitionFacts(
        one.organization,
        one.period,
        one.files + other.files,
        one.rows + other.rows,
        one.bytes + other.bytes,
        None if unknown else min(one.earliest, other.earliest),  # type: ignore[type-var]
        one.mixed,
    )


def _find_unit(spec: PartitionSpec, time: NestedField) -> Unit | None:
    return next((UNITS[type(field.transform)] for field in spec.fields if _is_time_field(field, time)), None)


def _is_time_field(field: object, time: NestedField) -> bool:
    return getattr(field, "source_id", None) == time.field_id and type(getattr(field, "transform", None)) in UNITS


def _find_place(spec: PartitionSpec, column: NestedField) -> Place:
    return next(
        (
            place
            for place, field in enumerate(spec.fields)
            if field.source_id == column.field_id and isinstance(field.transform, IdentityTransform)
        ),
        None,
    )


STEP = "retention"
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


def apply_retention(work: StepContext) -> Outcome:
    """Delete rows past their retention. Files of whole partitions are only removed from the metadata."""
    rules = rules_for(work.config.retention, work.name)
    if not rules:
        return Outcome("no retention rule applies to this table: its rows are kept forever")
    table = work.table()
    layout = _check_layout(work.name, table, rules)
    facts = read_partitions(table, layout)
    plan = plan_retention(work.name, rules, facts, work.now, layout.unit, exact=work.config.retention_exact)
    if work.dry_run or not plan.deletions:
        return _report_plan(plan)
    before = {snapshot.id for snapshot in snapshots_of(table)}
    for done, deletion in enumerate(plan.deletions):
        work.report_progress(STEP, done, len(plan.deletions))
        work.check()
        with label_commits(work.lake.spark):
            work.lake.spark.sql(build_statement(work.lake.spark_name(work.name), layout, deletion)).collect()
    work.report_progress(STEP, len(plan.deletions), len(plan.deletions))
    return _report_done(plan, [one for one in snapshots_of(work.table()) if one.id not in before])


def build_statement(name: str, layout: TimeLayout, deletion: Deletion) -> str:
    """Return the SQL statement of a deletion.

    Spark deletes by metadata alone only if the whole condition selects partitions. So whole partitions and the rows at
    the boundary are deleted separately.
    """
    if isinstance(layout.time.field_type, DateType):
        before = f"DATE '{deletion.before:%Y-%m-%d}'"
    else:
        before = format_timestamp(deletion.before, zoned=isinstance(layout.time.field_type, TimestamptzType))
    condition = f"{quote_name(layout.time.name)} < {before}"
    if deletion.organizations is not None:
        condition = f"{_owner_condition(deletion.organizations)} AND {condition}"
    return f"DELETE FROM {name} WHERE {condition}"  # noqa: S608 - names and values are quoted


@contextmanager
def label_commits(spark: SparkSession) -> Iterator[None]:
    """Label the commits inside with their purpose. A commit by metadata alone (Iceberg 1.12) gets no label."""
    key = SNAPSHOT_PROPERTY + OPERATION
    spark.conf.set(key, STEP)
    try:
        yield
    finally:
        spark.conf.unset(key)


def _owner_condition(organizations: Sequence[str | None]) -> str:
    column, names = quote_name(ORGANIZATION.name), [quote_text(name) for name in organizations if name is not None]
    named = f"{column} IN ({', '.join(names)})"
    if None not in organizations:
        return named
    return f"({named} OR {column} IS NULL)" if names else f"{column} IS NULL"


def _check_layout(name: str, table: Table, rules: Sequence[RetentionRule]) -> TimeLayout:
    columns = {rule.column for rule in rules if rule.column}
    if len(columns) > 1:
        raise ConfigError(f"retention rules for {name} name several time columns: {', '.join(sorted(columns))}")
    layout = find_time_layout(table, next(iter(columns), ""))
    if layout is None:
        raise ConfigError(
            f"{name} has no time column for retention{f' ({columns.pop()})' if columns else ''}",
            hint="name a timestamp or date column in the rule: {table: …, column: …, days: …}",
        )
    owners = sorted(rule.organization for rule in rules if rule.organization)
    if owners and not layout.by_organization:
        raise ConfigError(
            f"{name} is not partitioned by organization_id, so the rule for organization {owners[0]} can't be applied",
            hint="only rules without an organization apply to such a table",
        )
    return layout


def _report_plan(plan: RetentionPlan) -> Outcome:
    whole = [one for one in plan.deletions if one.whole]
    gain = Gain(files=sum(one.files for one in whole), rows=sum(one.rows for one in whole), bytes=_sum_bytes(whole))
    if not plan.deletions:
        return Outcome("no row is past its retention", False, plan.entries)
    rows = sum(one.rows for one in plan.deletions if not one.whole)
    boundary = f", and some of {rows:,} at the boundary" if rows else ""
    return Outcome(
        f"past their retention: {format_count(gain.rows, 'row')} in whole partitions{boundary}",
        False,
        plan.entries,
        gain,
    )


def _sum_bytes(deletions: Sequence[Deletion]) -> int:
    return sum(one.bytes for one in deletions)


def _report_done(plan: RetentionPlan, commits: Sequence[Snapshot]) -> Outcome:
    """Return the outcome by the summaries of the commits. Commits of ingestion only append and remove nothing."""

    def total(key: str) -> int:
        return sum(int(one.summary.get(key, 0)) for one in commits if _is_own_commit(one))

    rows = total("deleted-records") - total("added-records") + total("added-position-deletes")
    written = total("added-files-size")
    gain = Gain(files=total("deleted-data-files"), rows=rows, bytes=max(0, total("removed-files-size") - written))
    cost = Cost(api_calls=total("manifests-created") + 3 * len(commits), bytes_written=written)
    made = ", ".join(str(one.id) for one in commits if _is_own_commit(one))
    return Outcome(f"{format_count(rows, 'row')} deleted, in snapshot {made}", bool(made), plan.entries, gain, cost)


def _is_own_commit(commit: Snapshot) -> bool:
    """Return whether a commit belongs to this run.

    Other commits that remove files, such as compaction's, have a label.
    """
    removes = "deleted-data-files" in commit.summary or "added-position-deletes" in commit.summary
    return removes and commit.summary.get(OPERATION, STEP) == STEP
