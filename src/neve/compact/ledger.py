"""The ledger: what each organization has spent of its budget, day by day, in the state store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from neve.compact.budgets import Spent, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neve.compact.budgets import Allowances
    from neve.compact.plan import Group, Plan
    from neve.lake.documents import Documents

SPACE = "spent"
KEPT = timedelta(days=35)


@dataclass(frozen=True)
class Ledger:
    """One day of all organizations.

    Groups are paid for before they are rewritten, so that two runs at the same time can't spend the same money. What a
    run did not begin is given back, also of a cancelled one; a run that was killed has spent what it was about to.
    """

    documents: Documents
    day: str

    @classmethod
    def at(cls, documents: Documents, now: datetime) -> Ledger:
        """The ledger of a moment's day."""
        return cls(documents, _day(now))

    def spent(self) -> dict[str, Spent]:
        """By organization."""
        found = self.documents.entries(SPACE, f"{self.day}/")
        return {unquote(key.removeprefix(f"{self.day}/")): _spent(document) for key, document in found}

    def pay(self, plan: Plan, allowances: Allowances) -> Plan:
        """Take the plan's groups out of the budgets; the plan without those that others were quicker to pay for."""
        for organization in sorted(_by_organization(plan.groups, allowances)):
            plan = self._pay(organization, plan, allowances)
        return plan

    def give_back(self, groups: Sequence[Group], allowances: Allowances) -> None:
        """Put back what was taken for groups that nobody began."""
        for organization, own in _by_organization(groups, allowances).items():
            self._give_back(organization, Spent.of(own))

    def _give_back(self, organization: str, unspent: Spent) -> None:
        self._change(organization, lambda before: before - unspent)

    def _pay(self, organization: str, plan: Plan, allowances: Allowances) -> Plan:
        fitting = plan

        def paid(before: Spent) -> Spent:
            nonlocal fitting
            fitting = within(plan, replace(allowances, spent={organization: before}))
            return before + Spent.of(_by_organization(fitting.groups, allowances).get(organization, ()))

        self._change(organization, paid)
        return fitting

    def _change(self, organization: str, change: Callable[[Spent], Spent]) -> None:
        key = f"{self.day}/{quote(organization, safe='')}"
        while True:
            document = self.documents.get(SPACE, key)
            after = change(_spent(document))
            if self.documents.swap(SPACE, key, document, {"dollars": after.dollars, "bytes": after.bytes}):
                break
        if document is None:
            self._forget_old()

    def _forget_old(self) -> None:
        oldest = _day(datetime.strptime(self.day, "%Y-%m-%d").replace(tzinfo=UTC) - KEPT)
        for key in [key for key, _ in self.documents.entries(SPACE) if key < oldest]:
            self.documents.delete(SPACE, key)


def _by_organization(groups: Sequence[Group], allowances: Allowances) -> dict[str, list[Group]]:
    """The groups that somebody pays for, by who does."""
    found: dict[str, list[Group]] = {}
    for group in groups:
        organization = allowances.organization(group.partition)
        if organization is not None and allowances.budget(organization):
            found.setdefault(organization, []).append(group)
    return found


def _day(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d}"


def _spent(document: Mapping[str, Any] | None) -> Spent:
    return Spent(float(document["dollars"]), int(document["bytes"])) if document else Spent()
