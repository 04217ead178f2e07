"""Budgets: what rewrites for one organization may take in a day, and which of a plan's groups that allows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyiceberg.transforms import IdentityTransform

from neve.compact.plan import Cut
from neve.compact.words import money, number, size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import Table

    from neve.compact.plan import Group, Partition, Plan

ORGANIZATION = "organization_id"
DOLLARS, BYTES = "dollars_per_day", "bytes_per_day"
ROUNDING = 1 + 1e-9  # dollars are added up in more than one order


@dataclass(frozen=True)
class OrganizationBudget:
    """What each organization whose name matches has for itself, a day (UTC); 0: no limit."""

    organization: str
    dollars_per_day: float = 0.0
    bytes_per_day: int = 0


@dataclass(frozen=True)
class Spent:
    """What rewrites take of a budget, as it was estimated: bytes to read, and dollars."""

    dollars: float = 0.0
    bytes: int = 0

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Spent:
        """What some groups take together."""
        return cls(sum(group.estimate.dollars for group in groups), sum(group.bytes for group in groups))

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.dollars + other.dollars, self.bytes + other.bytes)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(max(0.0, self.dollars - other.dollars), max(0, self.bytes - other.bytes))


@dataclass(frozen=True)
class Allowances:
    """What every organization has for today, and has spent of it.

    `places` is where the organization stands among the values of a partition, by the partition's spec; a partition of a
    spec without one is nobody's, and has no budget.
    """

    budgets: tuple[OrganizationBudget, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def organization(self, partition: Partition) -> str | None:
        """Whose partition it is."""
        place = self.places.get(partition.spec_id)
        value = None if place is None else partition.values[place]
        return value if isinstance(value, str) else None

    def budget(self, organization: str | None) -> OrganizationBudget | None:
        """The first budget whose pattern the organization's name matches."""
        if organization is None:
            return None
        return next((one for one in self.budgets if fnmatchcase(organization, one.organization)), None)

    def refusal(self, groups: Sequence[Group]) -> Cut | None:
        """Why groups of one partition can't be had today, if so."""
        organization = self.organization(groups[0].partition)
        budget = self.budget(organization)
        if organization is None or budget is None:
            return None
        before, wanted = self.spent.get(organization, Spent()), Spent.of(groups)
        limit = _broken(budget, before + wanted)
        if limit is None:
            return None
        why = _why(budget, before, wanted, limit)
        files = sum(len(group.files) for group in groups)
        reason = (
            f"{number(files, 'file')} of {size(wanted.bytes)} are left for another day: "
            f"of the budget of organization {organization!r} {why}"
        )
        return Cut(groups[0].partition, files, wanted.bytes, limit, reason)

    def after(self, groups: Sequence[Group]) -> Allowances:
        """The allowances when some groups are taken."""
        spent = dict(self.spent)
        for group in groups:
            organization = self.organization(group.partition)
            if organization is not None and self.budget(organization):
                spent[organization] = spent.get(organization, Spent()) + Spent.of([group])
        return replace(self, spent=spent)


NO_BUDGETS = Allowances()


def within(plan: Plan, allowances: Allowances) -> Plan:
    """The plan without what passes a budget: all groups of a partition, or none, are kept."""
    kept: list[Group] = []
    cuts: list[Cut] = []
    by_partition: dict[Partition, list[Group]] = {}
    for group in plan.groups:
        by_partition.setdefault(group.partition, []).append(group)
    for groups in by_partition.values():
        cut = allowances.refusal(groups)
        if cut is None:
            allowances = allowances.after(groups)
            kept += groups
        else:
            cuts.append(cut)
    if not cuts:
        return plan
    gone = {cut.partition for cut in cuts}
    return replace(
        plan,
        groups=tuple(kept),
        cut=(*plan.cut, *cuts),
        check_duplicates=tuple(one for one in plan.check_duplicates if one not in gone),
        lays_out=tuple(one for one in plan.lays_out if one not in gone),
    )


def organization_places(table: Table) -> dict[int, int]:
    """Where the organization stands among the values of a partition, for each spec that is partitioned by it."""
    column = next((one for one in table.schema().fields if one.name == ORGANIZATION), None)
    if column is None:
        return {}
    return {
        spec_id: position
        for spec_id, spec in table.specs().items()
        for position, one in enumerate(spec.fields)
        if one.source_id == column.field_id and isinstance(one.transform, IdentityTransform)
    }


def _broken(budget: OrganizationBudget, spent: Spent) -> str | None:
    if budget.dollars_per_day and spent.dollars > budget.dollars_per_day * ROUNDING:
        return DOLLARS
    if budget.bytes_per_day and spent.bytes > budget.bytes_per_day:
        return BYTES
    return None


def _why(budget: OrganizationBudget, before: Spent, wanted: Spent, limit: str) -> str:
    if limit == DOLLARS:
        left, whole = money(max(0.0, budget.dollars_per_day - before.dollars)), money(budget.dollars_per_day)
        takes = money(wanted.dollars)
    else:
        left, whole = size(max(0, budget.bytes_per_day - before.bytes)), size(budget.bytes_per_day)
        takes = size(wanted.bytes)
    words = f"{left} of {whole} is left today ({limit}), and this takes {takes}"
    return words if _broken(budget, wanted) is None else f"{words}: more than a whole day's, raise it"
