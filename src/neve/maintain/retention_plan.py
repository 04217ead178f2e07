"""Retention rules, and the plan of their deletions: whole partitions by metadata, those at the boundary row by row.

Of the rules that match a table and an organization the most specific one applies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.calendar import Unit, from_ordinal, to_ordinal
from neve.maintain.snapshots import format_time
from neve.maintain.step import KEEP, Entry
from neve.model.decision_tables import OPEN_TRACES
from neve.model.signals import NAMESPACE, SERIES_TABLES, TRACE_TABLES, VOLUME_TABLES, Signal
from neve.model.tables import INGESTED_FILES, ORGANIZATION, SEARCH_INDEX, SPAN_REPEATS, SPANS
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.maintain.config import RetentionRule


# Only a rule that names one of these tables applies to it. A file without its ledger line would be ingested again, the
# search index expires with the files that it describes, and open traces have no decision yet.
BY_NAME_ONLY = (INGESTED_FILES.name, SEARCH_INDEX.name, OPEN_TRACES.name)
# Rules for a table apply to a table that is useless without it, too.
FOLLOWED_TABLES = {
    SPAN_REPEATS.name: SPANS.name,
    **{series: source for source, series in SERIES_TABLES.items()},
    **{volumes: source for source, volumes in VOLUME_TABLES.items()},
    **dict.fromkeys(TRACE_TABLES.values(), SPANS.name),
}


def rules_for(rules: Sequence[RetentionRule], table: str) -> tuple[RetentionRule, ...]:
    """Return the rules for a table, including those for single organizations."""
    own = strip_namespace(table)
    names = (own, FOLLOWED_TABLES[own]) if own in FOLLOWED_TABLES else (own,)
    return tuple(rule for rule in rules if any(_fits_table(rule, name) and _fits_signal(rule, name) for name in names))


def rule_for(rules: Sequence[RetentionRule], organization: str | None) -> RetentionRule | None:
    """Return the rule of a table's rules for an organization (`None`: rows without one).

    Of two equally specific rules, the one that keeps rows longer applies.
    """
    fitting = [rule for rule in rules if rule.organization in ("", organization)]
    return max(fitting, key=_rank, default=None)


def strip_namespace(table: str) -> str:
    """Return a table's name in the form of rules: without the namespace if it is the lake's own.

    >>> strip_namespace("telemetry.spans"), strip_namespace("sales.orders")
    ('spans', 'sales.orders')
    """
    return table.removeprefix(f"{NAMESPACE}.")


def describe_rule(rule: RetentionRule) -> str:
    """Return a description of a rule."""
    parts = [
        f"table {rule.table}" if rule.table != "*" else "",
        f"organization {rule.organization}" if rule.organization else "",
        f"signal {rule.signal}" if rule.signal else "",
    ]
    return ", ".join(part for part in parts if part) or "every table"


def _fits_table(rule: RetentionRule, table: str) -> bool:
    return rule.table == table if table in BY_NAME_ONLY else fnmatchcase(table, rule.table)


def _fits_signal(rule: RetentionRule, table: str) -> bool:
    return not rule.signal or Signal(rule.signal).table == table


def _rank(rule: RetentionRule) -> tuple[bool, bool, bool, bool, float]:
    exact = not any(mark in rule.table for mark in "*?[")
    return bool(rule.organization), exact, bool(rule.signal), rule.table != "*", rule.days or float("inf")


DELETE = "delete"
ORGANIZATIONS_PER_STATEMENT = 500  # organizations in one statement

# Owners of rows: `None` is all organizations, a `None` among the names is rows without an organization.
Owners = tuple[str | None, ...] | None


@dataclass(frozen=True)
class PartitionFacts:
    """Files of one organization (`None`: rows without one) and one unit of time (`None`: no time).

    `mixed`: their partition spec does not separate organizations, so they may contain rows of any organization.
    """

    organization: str | None
    period: int | None
    files: int
    rows: int
    bytes: int
    earliest: datetime | None = None
    mixed: bool = False


@dataclass(frozen=True)
class Deletion:
    """Rows of some owners before a moment. `whole`: whole partitions, by metadata alone."""

    organizations: Owners
    before: datetime
    whole: bool
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class RetentionPlan:
    """The deletions, whole partitions first, and the reason for rows that are kept."""

    deletions: tuple[Deletion, ...]
    entries: tuple[Entry, ...]


def plan_retention(
    table: str,
    rules: Sequence[RetentionRule],
    partitions: Iterable[PartitionFacts],
    now: datetime,
    unit: Unit | None,
    *,
    exact: bool = True,
) -> RetentionPlan:
    """Plan the deletions for a table. `unit` is the unit of its time partitions, if it has any."""
    owners = _group_by_owner(table, rules, tuple(partitions))
    found: list[Deletion] = []
    entries: list[Entry] = []
    for owner in sorted(owners, key=_owner_name):
        rule = rule_for(rules, _owner_name(owner) or None)
        if rule is None or not rule.days:
            why = f"the rule for {describe_rule(rule)} keeps it forever" if rule else "no rule applies to it"
            entries.append(Entry(KEEP, _describe_owner(owner), why))
            continue
        mine = _plan_deletions(owner, owners[owner], now - timedelta(days=rule.days), unit, exact=exact)
        found += mine
        entries += _make_entries(owner, rule, mine)
    return RetentionPlan(_merge_deletions(found), tuple(entries))


def _group_by_owner(
    table: str, rules: Sequence[RetentionRule], partitions: Sequence[PartitionFacts]
) -> dict[Owners, list[PartitionFacts]]:
    """Group partitions by owner: all organizations if the spec of one file does not separate them.

    Raises `LakeError` if a rule is for one organization then.
    """
    mixed = sum(one.files for one in partitions if one.mixed)
    apart = sorted(rule.organization for rule in rules if rule.organization)
    if mixed and apart:
        raise LakeError(
            f"{table} has {format_count(mixed, 'file')} of a partition spec without {ORGANIZATION.name}, so the rule "
            f"for organization {apart[0]} can't be applied",
            hint=f"`neve compact run {table}` rewrites files of older partition specs into today's "
            "(compact.old_specs must be true); then run retention again",
        )
    owners: dict[Owners, list[PartitionFacts]] = {}
    for one in partitions:
        owners.setdefault(None if mixed else (one.organization,), []).append(one)
    return owners


def _plan_deletions(
    owner: Owners, partitions: list[PartitionFacts], cutoff: datetime, unit: Unit | None, *, exact: bool
) -> list[Deletion]:
    boundary = to_ordinal(unit, cutoff) if unit else None
    past = [one for one in partitions if boundary is not None and one.period is not None and one.period < boundary]
    split = [one for one in partitions if _is_split(one, boundary, cutoff)] if exact else []
    found = []
    if past and unit and boundary is not None:
        found.append(_sum_deletion(owner, from_ordinal(unit, boundary), past, whole=True))
    if split:
        found.append(_sum_deletion(owner, cutoff, split, whole=False))
    return found


def _is_split(one: PartitionFacts, boundary: int | None, cutoff: datetime) -> bool:
    """Return whether a partition may contain rows before the cutoff and others."""
    if one.period is not None and boundary is not None and one.period != boundary:
        return False
    return one.earliest is None or one.earliest < cutoff


def _sum_deletion(owner: Owners, before: datetime, partitions: list[PartitionFacts], *, whole: bool) -> Deletion:
    return Deletion(
        owner,
        before,
        whole,
        sum(one.files for one in partitions),
        sum(one.rows for one in partitions),
        sum(one.bytes for one in partitions),
    )


def _make_entries(owner: Owners, rule: RetentionRule, mine: list[Deletion]) -> list[Entry]:
    if not mine:
        return [Entry(KEEP, _describe_owner(owner), f"nothing is older than {rule.days:g} days")]
    why = f"kept for {rule.days:g} days by the rule for {describe_rule(rule)}"
    return [
        Entry(
            DELETE,
            f"{_describe_owner(owner)} before {format_time(one.before)}"
            + (
                f": {format_count(one.files, 'file')}, {format_count(one.rows, 'row')}"
                if one.whole
                else f": some of {format_count(one.rows, 'row')}"
            ),
            f"{'whole partitions' if one.whole else 'the partition at the boundary'}; {why}",
            one.bytes if one.whole else 0,
        )
        for one in mine
    ]


def _merge_deletions(found: list[Deletion]) -> tuple[Deletion, ...]:
    """Merge deletions with the same cutoff into one statement for all organizations, whole partitions first."""
    merged: dict[tuple[bool, datetime], list[Deletion]] = {}
    for one in found:
        merged.setdefault((one.whole, one.before), []).append(one)
    ordered = sorted(merged.items(), key=lambda item: (not item[0][0], item[0][1]))
    return tuple(
        _join_deletions(group[first : first + ORGANIZATIONS_PER_STATEMENT])
        for _, group in ordered
        for first in range(0, len(group), ORGANIZATIONS_PER_STATEMENT)
    )


def _join_deletions(group: list[Deletion]) -> Deletion:
    is_for_all = any(one.organizations is None for one in group)
    return Deletion(
        None if is_for_all else tuple(name for one in group for name in one.organizations or ()),
        group[0].before,
        group[0].whole,
        sum(one.files for one in group),
        sum(one.rows for one in group),
        sum(one.bytes for one in group),
    )


def _owner_name(owner: Owners) -> str:
    return (owner[0] or "") if owner else ""


def _describe_owner(owner: Owners) -> str:
    if owner is None:
        return "rows"
    return f"rows of {_owner_name(owner)}" if _owner_name(owner) else "rows without an organization"
