"""Which rows are past their time: whole partitions by metadata, those at the boundary row by row. A pure function."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.maintain.calendar import Unit, ordinal, start
from neve.maintain.entry import KEEP, Entry
from neve.maintain.retention_rules import named, rule_for
from neve.maintain.snapshots import shown
from neve.maintain.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.maintain.config import RetentionRule

DELETE = "delete"
AT_ONCE = 500  # organizations in one statement


@dataclass(frozen=True)
class PartitionFacts:
    """Files of one organization and one unit of time (`None` where the table is not partitioned so)."""

    organization: str | None
    period: int | None
    files: int
    rows: int
    bytes: int
    earliest: datetime | None = None


@dataclass(frozen=True)
class Deletion:
    """Rows of some organizations (`None`: of everybody) before a moment; `whole`: partitions, by metadata alone."""

    organizations: tuple[str, ...] | None
    before: datetime
    whole: bool
    files: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class RetentionPlan:
    """What is to be deleted, whole partitions first, and the reason for what stays."""

    deletions: tuple[Deletion, ...]
    entries: tuple[Entry, ...]


def plan_retention(
    rules: Sequence[RetentionRule],
    partitions: Iterable[PartitionFacts],
    now: datetime,
    unit: Unit | None,
    *,
    exact: bool = True,
) -> RetentionPlan:
    """The deletions for a table; `unit` is what its time partitions count, if it has any."""
    owners: dict[str | None, list[PartitionFacts]] = {}
    for one in partitions:
        owners.setdefault(one.organization, []).append(one)
    found: list[Deletion] = []
    entries: list[Entry] = []
    for owner in sorted(owners, key=lambda name: name or ""):
        rule = rule_for(rules, owner)
        if rule is None or not rule.days:
            why = f"the rule for {named(rule)} keeps it for good" if rule else "no rule is about it"
            entries.append(Entry(KEEP, _whose(owner), why))
            continue
        mine = _deletions(owner, owners[owner], now - timedelta(days=rule.days), unit, exact=exact)
        found += mine
        entries += _entries(owner, rule, mine)
    return RetentionPlan(_together(found), tuple(entries))


def _deletions(
    owner: str | None, partitions: list[PartitionFacts], cutoff: datetime, unit: Unit | None, *, exact: bool
) -> list[Deletion]:
    boundary = ordinal(unit, cutoff) if unit else None
    past = [one for one in partitions if boundary is not None and one.period is not None and one.period < boundary]
    split = [one for one in partitions if _is_split(one, boundary, cutoff)] if exact else []
    found = []
    if past and unit and boundary is not None:
        found.append(_deletion(owner, start(unit, boundary), past, whole=True))
    if split:
        found.append(_deletion(owner, cutoff, split, whole=False))
    return found


def _is_split(one: PartitionFacts, boundary: int | None, cutoff: datetime) -> bool:
    """Whether rows before the cutoff may lie in a partition that has others too."""
    if one.period is not None and boundary is not None and one.period != boundary:
        return False
    return one.earliest is None or one.earliest < cutoff


def _deletion(owner: str | None, before: datetime, partitions: list[PartitionFacts], *, whole: bool) -> Deletion:
    return Deletion(
        None if owner is None else (owner,),
        before,
        whole,
        sum(one.files for one in partitions),
        sum(one.rows for one in partitions),
        sum(one.bytes for one in partitions),
    )


def _entries(owner: str | None, rule: RetentionRule, mine: list[Deletion]) -> list[Entry]:
    if not mine:
        return [Entry(KEEP, _whose(owner), f"nothing is older than {rule.days:g} days")]
    why = f"kept for {rule.days:g} days by the rule for {named(rule)}"
    return [
        Entry(
            DELETE,
            f"{_whose(owner)} before {shown(one.before)}"
            + (
                f": {counted(one.files, 'file')}, {counted(one.rows, 'row')}"
                if one.whole
                else f": some of {counted(one.rows, 'row')}"
            ),
            f"{'whole partitions' if one.whole else 'the partition at the boundary'}; {why}",
            one.bytes if one.whole else 0,
        )
        for one in mine
    ]


def _together(found: list[Deletion]) -> tuple[Deletion, ...]:
    """One statement for all organizations with the same cutoff; whole partitions first."""
    merged: dict[tuple[bool, datetime], list[Deletion]] = {}
    for one in found:
        merged.setdefault((one.whole, one.before), []).append(one)
    ordered = sorted(merged.items(), key=lambda item: (not item[0][0], item[0][1]))
    return tuple(
        _joined(group[first : first + AT_ONCE]) for _, group in ordered for first in range(0, len(group), AT_ONCE)
    )


def _joined(group: list[Deletion]) -> Deletion:
    names = [name for one in group for name in one.organizations or ()]
    return Deletion(
        tuple(names) or None,
        group[0].before,
        group[0].whole,
        sum(one.files for one in group),
        sum(one.rows for one in group),
        sum(one.bytes for one in group),
    )


def _whose(owner: str | None) -> str:
    return "rows" if owner is None else f"rows of {owner}"
