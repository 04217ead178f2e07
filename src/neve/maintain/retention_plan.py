"""Which rows are past their time: whole partitions by metadata, those at the boundary row by row. A pure function."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.calendar import Unit, ordinal, start
from neve.maintain.entry import KEEP, Entry
from neve.maintain.retention_rules import named, rule_for
from neve.maintain.snapshots import shown
from neve.maintain.words import counted
from neve.model.tables import ORGANIZATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.maintain.config import RetentionRule

DELETE = "delete"
AT_ONCE = 500  # organizations in one statement

# Whose rows: `None` is everybody's; a `None` among the names stands for rows without an organization.
Owners = tuple[str | None, ...] | None


@dataclass(frozen=True)
class PartitionFacts:
    """Files of one organization (`None`: rows without one) and one unit of time (`None` where they have none).

    `mixed`: their partition spec does not part organizations, so that they may hold anybody's rows.
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
    """Rows of some owners before a moment; `whole`: partitions, by metadata alone."""

    organizations: Owners
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
    table: str,
    rules: Sequence[RetentionRule],
    partitions: Iterable[PartitionFacts],
    now: datetime,
    unit: Unit | None,
    *,
    exact: bool = True,
) -> RetentionPlan:
    """The deletions for a table; `unit` is what its time partitions count, if it has any."""
    owners = _by_owner(table, rules, tuple(partitions))
    found: list[Deletion] = []
    entries: list[Entry] = []
    for owner in sorted(owners, key=_name):
        rule = rule_for(rules, _name(owner) or None)
        if rule is None or not rule.days:
            why = f"the rule for {named(rule)} keeps it for good" if rule else "no rule is about it"
            entries.append(Entry(KEEP, _whose(owner), why))
            continue
        mine = _deletions(owner, owners[owner], now - timedelta(days=rule.days), unit, exact=exact)
        found += mine
        entries += _entries(owner, rule, mine)
    return RetentionPlan(_together(found), tuple(entries))


def _by_owner(
    table: str, rules: Sequence[RetentionRule], partitions: Sequence[PartitionFacts]
) -> dict[Owners, list[PartitionFacts]]:
    """Whose the partitions are: everybody's, as soon as one file does not say; then no rule may tell owners apart."""
    mixed = sum(one.files for one in partitions if one.mixed)
    apart = sorted(rule.organization for rule in rules if rule.organization)
    if mixed and apart:
        raise LakeError(
            f"{table} has {counted(mixed, 'file')} of a partition spec without {ORGANIZATION.name}, so the rule for "
            f"organization {apart[0]} can't be applied",
            hint=f"`neve compact run {table}` rewrites files of older partition specs into today's "
            "(compact.old_specs must be true); then run retention again",
        )
    owners: dict[Owners, list[PartitionFacts]] = {}
    for one in partitions:
        owners.setdefault(None if mixed else (one.organization,), []).append(one)
    return owners


def _deletions(
    owner: Owners, partitions: list[PartitionFacts], cutoff: datetime, unit: Unit | None, *, exact: bool
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


def _deletion(owner: Owners, before: datetime, partitions: list[PartitionFacts], *, whole: bool) -> Deletion:
    return Deletion(
        owner,
        before,
        whole,
        sum(one.files for one in partitions),
        sum(one.rows for one in partitions),
        sum(one.bytes for one in partitions),
    )


def _entries(owner: Owners, rule: RetentionRule, mine: list[Deletion]) -> list[Entry]:
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
    everybody = any(one.organizations is None for one in group)
    return Deletion(
        None if everybody else tuple(name for one in group for name in one.organizations or ()),
        group[0].before,
        group[0].whole,
        sum(one.files for one in group),
        sum(one.rows for one in group),
        sum(one.bytes for one in group),
    )


def _name(owner: Owners) -> str:
    return (owner[0] or "") if owner else ""


def _whose(owner: Owners) -> str:
    if owner is None:
        return "rows"
    return f"rows of {_name(owner)}" if _name(owner) else "rows without an organization"
