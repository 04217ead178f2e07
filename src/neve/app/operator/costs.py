"""Estimated costs of maintenance by day, task, table and organization, with budgets and storage calls."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from pydantic import Field

from neve.app.reports import Report
from neve.app.wiring import compact_budgets
from neve.compact.budgets import Allowances, BudgetLedger, Spent
from neve.compact.result import History as Compactions
from neve.compact.run_proof import RunProofs
from neve.jobs.job import JobState, Task
from neve.maintain.step import History as Maintenance
from neve.model.signals import NAMESPACE
from neve.query.daily_usage import bytes_of_day

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.app.control import Control

DEFAULT_DAYS = 7
MAX_DAYS = 35  # as long as the spending of organizations is kept
MAX_JOBS = 2000
HOUR_SECONDS = 3600
NOTES = (
    "All amounts are estimates from the prices of the configuration, not a bill.",
    "Compaction: storage calls counted from its work, and the measured seconds of one core.",
    "Maintenance: storage calls counted from its work at the price of lists, and seconds of one core.",
    "Other tasks: seconds of one core; their storage calls are not counted.",
    "Not included: stored bytes, ingestion, queries, tail sampling, network traffic, idle machines.",
)


class CostLine(Report):
    """Costs of one task on one table on one day, in UTC."""

    day: str
    task: str
    table: str = Field(description="empty: all tables")
    runs: int
    seconds: float
    calls: int | None = Field(description="storage calls; null if they are not counted")
    estimated_dollars: float | None = Field(description="before the runs; null if there was no estimate")
    dollars: float = Field(description="after the runs, from measured seconds")


class OrganizationCost(Report):
    """Rewriting for one organization on one day, and what its budget has left; null means no limit."""

    organization: str
    day: str
    dollars: float
    bytes: int
    dollars_left: float | None
    bytes_left: int | None


class QueryBytes(Report):
    """Bytes of files that the queries of an organization read today."""

    organization: str
    bytes: int
    dollars: float = Field(description="at the price of a scanned terabyte")


class CostReport(Report):
    """Costs of some days, newest first."""

    since: str
    until: str
    dollars: float
    estimated_dollars: float = Field(description="of the runs that had an estimate")
    calls: int
    lines: list[CostLine]
    organizations: list[OrganizationCost]
    queries: list[QueryBytes]
    notes: list[str]


class OwnCostReport(Report):
    """Costs of one organization: rewriting of its partitions under a budget, and its queries today."""

    organization: str
    since: str
    until: str
    days: list[OrganizationCost]
    queries: QueryBytes
    notes: list[str]


@dataclass(frozen=True)
class _Run:
    """One run of a task."""

    day: str
    task: str
    table: str
    seconds: float
    dollars: float
    calls: int | None = None
    estimated: float | None = None


@dataclass(frozen=True)
class Costs:
    """The costs of a lake."""

    control: Control

    def report(self, days: int) -> CostReport:
        """Return the costs of the last days."""
        first, last = self._range(days)
        runs = [one for one in self._runs() if first <= one.day <= last]
        lines = sum_runs(runs)
        return CostReport(
            since=first,
            until=last,
            dollars=sum(one.dollars for one in lines),
            estimated_dollars=sum(one.estimated_dollars or 0.0 for one in lines),
            calls=sum(one.calls or 0 for one in lines),
            lines=lines,
            organizations=self._organizations(first),
            queries=self._queries(),
            notes=list(NOTES),
        )

    def own(self, organization: str, days: int) -> OwnCostReport:
        """Return the costs of one organization."""
        first, last = self._range(days)
        mine = next((one for one in self._queries() if one.organization == organization), None)
        return OwnCostReport(
            organization=organization,
            since=first,
            until=last,
            days=[one for one in self._organizations(first) if one.organization == organization],
            queries=mine or QueryBytes(organization=organization, bytes=0, dollars=0.0),
            notes=list(NOTES[:1]),
        )

    def _range(self, days: int) -> tuple[str, str]:
        now = self.control.documents.now()
        return format_day(now - timedelta(days=days - 1)), format_day(now)

    def _runs(self) -> Iterator[_Run]:
        yield from self._compactions()
        yield from self._maintenance()
        yield from self._jobs()

    def _compactions(self) -> Iterator[_Run]:
        proofs = RunProofs(self.control.documents).of()
        for one in Compactions(self.control.documents).of():
            proof = proofs.get(one.run_id)
            yield _Run(
                one.started[:10],
                Task.COMPACT.value,
                one.table.removeprefix(f"{NAMESPACE}."),
                one.seconds,
                one.dollars,
                one.api_calls,
                proof.estimated_dollars if proof else None,
            )

    def _maintenance(self) -> Iterator[_Run]:
        prices = self.control.settings.prices
        found: list[dict[str, Any]] = list(Maintenance(self.control.documents).runs(""))
        for one in found:
            calls = int(one["cost"]["api_calls"])
            dollars = calls * prices.list_per_1000 / 1000 + self._compute(one["seconds"])
            table = str(one["table"]).removeprefix(f"{NAMESPACE}.")
            yield _Run(str(one["started_at"])[:10], Task.MAINTAIN.value, table, one["seconds"], dollars, calls)

    def _jobs(self) -> Iterator[_Run]:
        """Yield the ended jobs of tasks without a history of their own."""
        found = self.control.jobs.list(states=(JobState.DONE, JobState.DEAD), limit=MAX_JOBS)
        for job in found:
            if job.started is None or job.ended is None or job.task in (Task.COMPACT, Task.MAINTAIN):
                continue
            seconds = (job.ended - job.started).total_seconds()
            yield _Run(format_day(job.started), job.task.value, job.table, seconds, self._compute(seconds))

    def _compute(self, seconds: float) -> float:
        return seconds / HOUR_SECONDS * self.control.settings.prices.compute_per_core_hour

    def _organizations(self, first: str) -> list[OrganizationCost]:
        """Return what each organization with a budget spent on each day since the first, newest first."""
        allowances = Allowances(compact_budgets(self.control.policies.load()))
        now = self.control.documents.now()
        found: list[OrganizationCost] = []
        for back in range(MAX_DAYS):
            day = now - timedelta(days=back)
            if format_day(day) < first:
                break
            spent = BudgetLedger.at(self.control.documents, day).spent()
            found += [self._describe(allowances, name, day, one) for name, one in sorted(spent.items())]
        return found

    def _describe(self, allowances: Allowances, organization: str, day: datetime, spent: Spent) -> OrganizationCost:
        budget = allowances.budget(organization)
        dollars, size = (budget.dollars_per_day, budget.bytes_per_day) if budget else (0.0, 0)
        return OrganizationCost(
            organization=organization,
            day=format_day(day),
            dollars=spent.dollars,
            bytes=spent.bytes,
            dollars_left=max(0.0, dollars - spent.dollars) if dollars else None,
            bytes_left=max(0, size - spent.bytes) if size else None,
        )

    def _queries(self) -> list[QueryBytes]:
        price = self.control.settings.prices.scan_per_tb / 1e12
        found = bytes_of_day(self.control.documents, self.control.documents.now())
        return [QueryBytes(organization=name, bytes=size, dollars=size * price) for name, size in found]


def sum_runs(runs: list[_Run]) -> list[CostLine]:
    """Return the sums of each day, task and table, newest day first, then the largest amount."""
    groups: dict[tuple[str, str, str], list[_Run]] = defaultdict(list)
    for one in runs:
        groups[one.day, one.task, one.table].append(one)
    lines = [
        CostLine(
            day=day,
            task=task,
            table=table,
            runs=len(some),
            seconds=sum(one.seconds for one in some),
            calls=_sum_known([one.calls for one in some]),
            estimated_dollars=_sum_known([one.estimated for one in some]),
            dollars=sum(one.dollars for one in some),
        )
        for (day, task, table), some in groups.items()
    ]
    return sorted(lines, key=lambda one: (one.day, one.dollars, one.task, one.table), reverse=True)


def _sum_known(values: list[Any]) -> Any:
    known = [one for one in values if one is not None]
    return sum(known) if known else None


def format_day(moment: datetime) -> str:
    """Return the day of a time of the store's clock, which is in UTC."""
    return f"{moment:%Y-%m-%d}"
