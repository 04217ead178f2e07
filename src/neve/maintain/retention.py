"""Delete rows that are past their time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.types import DateType, TimestamptzType

from neve.errors import ConfigError
from neve.maintain.partitions import Layout, layout_of, partitions_of
from neve.maintain.procedures import moment, quoted, text
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.retention_plan import Deletion, RetentionPlan, plan_retention
from neve.maintain.retention_rules import rules_for
from neve.maintain.snapshots import Snapshot, snapshots_of
from neve.maintain.words import counted
from neve.model.commits import OPERATION
from neve.model.tables import ORGANIZATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from neve.maintain.config import RetentionRule
    from neve.maintain.work import Work

STEP = "retention"
SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


def retention(work: Work) -> Outcome:
    """Delete what the rules no longer keep; files of whole partitions are only taken out of the metadata."""
    rules = rules_for(work.config.retention, work.name)
    if not rules:
        return Outcome("no rule is about this table: its rows are kept for good")
    table = work.table()
    layout = _layout(work.name, table, rules)
    facts = partitions_of(table, layout)
    plan = plan_retention(work.name, rules, facts, work.now, layout.unit, exact=work.config.retention_exact)
    if work.dry_run or not plan.deletions:
        return _told(plan)
    before = {snapshot.id for snapshot in snapshots_of(table)}
    for done, deletion in enumerate(plan.deletions):
        work.tell(STEP, done, len(plan.deletions))
        work.check()
        with labelled(work.lake.spark):
            work.lake.spark.sql(statement(work.lake.spark_name(work.name), layout, deletion)).collect()
    work.tell(STEP, len(plan.deletions), len(plan.deletions))
    return _done(plan, [one for one in snapshots_of(work.table()) if one.id not in before])


def statement(name: str, layout: Layout, deletion: Deletion) -> str:
    """The SQL of a deletion.

    Spark deletes by metadata alone only where the whole condition selects partitions: so whole partitions and the rows
    at the boundary are deleted apart.
    """
    if isinstance(layout.time.field_type, DateType):
        before = f"DATE '{deletion.before:%Y-%m-%d}'"
    else:
        before = moment(deletion.before, zoned=isinstance(layout.time.field_type, TimestamptzType))
    condition = f"{quoted(layout.time.name)} < {before}"
    if deletion.organizations is not None:
        condition = f"{_owned(deletion.organizations)} AND {condition}"
    return f"DELETE FROM {name} WHERE {condition}"  # noqa: S608 - names and values are quoted


@contextmanager
def labelled(spark: SparkSession) -> Iterator[None]:
    """Commits in here say what they are for; one that Spark makes by metadata alone (Iceberg 1.12) does not."""
    key = SNAPSHOT_PROPERTY + OPERATION
    spark.conf.set(key, STEP)
    try:
        yield
    finally:
        spark.conf.unset(key)


def _owned(organizations: Sequence[str | None]) -> str:
    column, names = quoted(ORGANIZATION.name), [text(name) for name in organizations if name is not None]
    named = f"{column} IN ({', '.join(names)})"
    if None not in organizations:
        return named
    return f"({named} OR {column} IS NULL)" if names else f"{column} IS NULL"


def _layout(name: str, table: Table, rules: Sequence[RetentionRule]) -> Layout:
    columns = {rule.column for rule in rules if rule.column}
    if len(columns) > 1:
        raise ConfigError(f"rules of retention for {name} name several time columns: {', '.join(sorted(columns))}")
    layout = layout_of(table, next(iter(columns), ""))
    if layout is None:
        raise ConfigError(
            f"{name} has no time column that retention knows{f' ({columns.pop()})' if columns else ''}",
            hint="name a timestamp or date column in the rule: {table: …, column: …, days: …}",
        )
    owners = sorted(rule.organization for rule in rules if rule.organization)
    if owners and not layout.by_organization:
        raise ConfigError(
            f"{name} is not partitioned by organization_id, so the rule for organization {owners[0]} can't be applied",
            hint="only rules without an organization are for such a table",
        )
    return layout


def _told(plan: RetentionPlan) -> Outcome:
    whole = [one for one in plan.deletions if one.whole]
    gain = Gain(files=sum(one.files for one in whole), rows=sum(one.rows for one in whole), bytes=_bytes(whole))
    if not plan.deletions:
        return Outcome("no row is past its time", False, plan.entries)
    rows = sum(one.rows for one in plan.deletions if not one.whole)
    boundary = f", and some of {rows:,} at the boundary" if rows else ""
    return Outcome(
        f"past their time: {counted(gain.rows, 'row')} in whole partitions{boundary}", False, plan.entries, gain
    )


def _bytes(deletions: Sequence[Deletion]) -> int:
    return sum(one.bytes for one in deletions)


def _done(plan: RetentionPlan, commits: Sequence[Snapshot]) -> Outcome:
    """What the commits say of themselves. Those of ingestion, which only append, take nothing out."""

    def total(key: str) -> int:
        return sum(int(one.summary.get(key, 0)) for one in commits if _takes_out(one))

    rows = total("deleted-records") - total("added-records") + total("added-position-deletes")
    written = total("added-files-size")
    gain = Gain(files=total("deleted-data-files"), rows=rows, bytes=max(0, total("removed-files-size") - written))
    cost = Cost(api_calls=total("manifests-created") + 3 * len(commits), bytes_written=written)
    made = ", ".join(str(one.id) for one in commits if _takes_out(one))
    return Outcome(f"{counted(rows, 'row')} deleted, in snapshot {made}", bool(made), plan.entries, gain, cost)


def _takes_out(commit: Snapshot) -> bool:
    """Whether a commit is one of this run: others that take files out, such as compaction's, say what they are."""
    takes = "deleted-data-files" in commit.summary or "added-position-deletes" in commit.summary
    return takes and commit.summary.get(OPERATION, STEP) == STEP
