"""Budgets of organizations: daily limits of rewrites, and the ledger of spending, in the state store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pyiceberg.transforms import IdentityTransform

from neve.compact.plan import Cut
from neve.text import format_bytes, format_count, format_dollars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.compact.plan import Group, Partition, Plan
    from neve.state.documents import Documents


ORGANIZATION = "organization_id"
DOLLARS, BYTES = "dollars_per_day", "bytes_per_day"
ROUNDING = 1 + 1e-9  # the order in which dollars are added varies


@dataclass(frozen=True)
class OrganizationBudget:
    """Daily budget (UTC) of each organization whose name matches. 0 means no limit."""

    organization: str
    dollars_per_day: float = 0.0
    bytes_per_day: int = 0


@dataclass(frozen=True)
class Spent:
    """Estimated spending of rewrites: bytes to read, and dollars."""

    dollars: float = 0.0
    bytes: int = 0

    @classmethod
    def of(cls, groups: Sequence[Group]) -> Spent:
        """Return the total of some groups."""
        return cls(sum(group.estimate.dollars for group in groups), sum(group.bytes for group in groups))

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.dollars + other.dollars, self.bytes + other.bytes)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(max(0.0, self.dollars - other.dollars), max(0, self.bytes - other.bytes))


@dataclass(frozen=True)
class Allowances:
    """Budget and spending of every organization for today.

    `places` is the index of the organization among the values of a partition, by partition spec. A partition of a spec
    without an organization belongs to none and has no budget.
    """

    budgets: tuple[OrganizationBudget, ...] = ()
    places: Mapping[int, int] = field(default_factory=dict)
    spent: Mapping[str, Spent] = field(default_factory=dict)

    def organization(self, partition: Partition) -> str | None:
        """Return the organization of a partition."""
        place = self.places.get(partition.spec_id)
        value = None if place is None else partition.values[place]
        return value if isinstance(value, str) else None

    def budget(self, organization: str | None) -> OrganizationBudget | None:
        """Return the first budget whose pattern matches the organization's name."""
        if organization is None:
            return None
        return next((one for one in self.budgets if fnmatchcase(organization, one.organization)), None)

    def refusal(self, groups: Sequence[Group]) -> Cut | None:
        """Return why the budget does not allow groups of one partition today, if so."""
        organization = self.organization(groups[0].partition)
        budget = self.budget(organization)
        if organization is None or budget is None:
            return None
        before, wanted = self.spent.get(organization, Spent()), Spent.of(groups)
        limit = _find_broken_limit(budget, before + wanted)
        if limit is None:
            return None
        why = _explain_refusal(budget, before, wanted, limit)
        files = sum(len(group.files) for group in groups)
        reason = (
            f"{format_count(files, 'file')} of {format_bytes(wanted.bytes)} are postponed to another day: "
            f"the budget of organization {organization!r} has {why}"
        )
        return Cut(groups[0].partition, files, wanted.bytes, limit, reason)

    def after(self, groups: Sequence[Group]) -> Allowances:
        """Return the allowances after some groups are charged."""
        spent = dict(self.spent)
        for group in groups:
            organization = self.organization(group.partition)
            if organization is not None and self.budget(organization):
                spent[organization] = spent.get(organization, Spent()) + Spent.of([group])
        return replace(self, spent=spent)


NO_BUDGETS = Allowances()


def apply_budgets(plan: Plan, allowances: Allowances) -> Plan:
    """Remove the groups that exceed a budget from a plan. A partition keeps all of its groups, or none."""
    allowed: list[Group] = []
    cuts: list[Cut] = []
    by_partition: dict[Partition, list[Group]] = {}
    for group in plan.groups:
        by_partition.setdefault(group.partition, []).append(group)
    for groups in by_partition.values():
        cut = allowances.refusal(groups)
        if cut is None:
            allowances = allowances.after(groups)
            allowed += groups
        else:
            cuts.append(cut)
    if not cuts:
        return plan
    gone = {cut.partition for cut in cuts}
    return replace(
        plan,
        groups=tuple(allowed),
        cut=(*plan.cut, *cuts),
        check_duplicates=tuple(one for one in plan.check_duplicates if one not in gone),
        lays_out=tuple(one for one in plan.lays_out if one not in gone),
    )


def find_organization_places(table: Table) -> dict[int, int]:
    """Return the index of the organization among the values of a partition, for each spec that has it."""
    column = next((one for one in table.schema().fields if one.name == ORGANIZATION), None)
    if column is None:
        return {}
    return {
        spec_id: position
        for spec_id, spec in table.specs().items()
        for position, one in enumerate(spec.fields)
        if one.source_id == column.field_id and isinstance(one.transform, IdentityTransform)
    }


def _find_broken_limit(budget: OrganizationBudget, spent: Spent) -> str | None:
    if budget.dollars_per_day and spent.dollars > budget.dollars_per_day * ROUNDING:
        return DOLLARS
    if budget.bytes_per_day and spent.bytes > budget.bytes_per_day:
        return BYTES
    return None


def _explain_refusal(budget: OrganizationBudget, before: Spent, wanted: Spent, limit: str) -> str:
    if limit == DOLLARS:
        left, whole = (
            format_dollars(max(0.0, budget.dollars_per_day - before.dollars)),
            format_dollars(budget.dollars_per_day),
        )
        takes = format_dollars(wanted.dollars)
    else:
        left, whole = format_bytes(max(0, budget.bytes_per_day - before.bytes)), format_bytes(budget.bytes_per_day)
        takes = format_bytes(wanted.bytes)
    text = f"{left} of {whole} left today ({limit}), and this needs {takes}"
    return text if _find_broken_limit(budget, wanted) is None else f"{text}: more than a whole day's, raise it"


SPACE = "spent"
KEEP_FOR = timedelta(days=35)


@dataclass(frozen=True)
class BudgetLedger:
    """Spending of all organizations on one day.

    Groups are paid before they are rewritten, so that two concurrent runs can't spend the same money. Groups that a run
    did not start are refunded, also after a cancellation. A killed run has spent the money of its plan.
    """

    documents: Documents
    day: str

    @classmethod
    def at(cls, documents: Documents, now: datetime) -> BudgetLedger:
        """Return the ledger for the day of a moment."""
        return cls(documents, _format_day(now))

    def spent(self) -> dict[str, Spent]:
        """Return the spending by organization."""
        found = self.documents.entries(SPACE, f"{self.day}/")
        return {unquote(key.removeprefix(f"{self.day}/")): _parse_spent(document) for key, document in found}

    def pay(self, plan: Plan, allowances: Allowances) -> Plan:
        """Charge the plan's groups to the budgets.

        Return the plan without groups that a concurrent run left no budget for.
        """
        for organization in sorted(_group_by_organization(plan.groups, allowances)):
            plan = self._pay(organization, plan, allowances)
        return plan

    def refund(self, groups: Sequence[Group], allowances: Allowances) -> None:
        """Refund groups that were not started."""
        for organization, own in _group_by_organization(groups, allowances).items():
            self._refund(organization, Spent.of(own))

    def _refund(self, organization: str, unspent: Spent) -> None:
        self._change(organization, lambda before: before - unspent)

    def _pay(self, organization: str, plan: Plan, allowances: Allowances) -> Plan:
        fitting = plan

        def charge(before: Spent) -> Spent:
            nonlocal fitting
            fitting = apply_budgets(plan, replace(allowances, spent={organization: before}))
            return before + Spent.of(_group_by_organization(fitting.groups, allowances).get(organization, ()))

        self._change(organization, charge)
        return fitting

    def _change(self, organization: str, change: Callable[[Spent], Spent]) -> None:
        key = f"{self.day}/{quote(organization, safe='')}"
        while True:
            document = self.documents.get(SPACE, key)
            after = change(_parse_spent(document))
            if self.documents.swap(SPACE, key, document, {"dollars": after.dollars, "bytes": after.bytes}):
                break
        if document is None:
            self._forget_old()

    def _forget_old(self) -> None:
        oldest = _format_day(datetime.strptime(self.day, "%Y-%m-%d").replace(tzinfo=UTC) - KEEP_FOR)
        for key in [key for key, _ in self.documents.entries(SPACE) if key < oldest]:
            self.documents.delete(SPACE, key)


def _group_by_organization(groups: Sequence[Group], allowances: Allowances) -> dict[str, list[Group]]:
    """Return the groups that belong to an organization, by organization."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        organization = allowances.organization(group.partition)
        if organization is not None and allowances.budget(organization):
            found.setdefault(organization, []).append(group)
    return found


def _format_day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _parse_spent(document: Mapping[str, Any] | None) -> Spent:
    return Spent(float(document["dollars"]), int(document["bytes"])) if document else Spent()
