"""The tables of a lake as those who tend it see them: how healthy they are, and what would be done to them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.app.lags import words_of
from neve.app.reports import PartitionReport, PlannedGroup, PlanReport, TableDetail, TableReport
from neve.compact.journal import Journal
from neve.errors import TableMissing
from neve.lake.leases import describe

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.compact.compactor import Compactor
    from neve.compact.measure import Measure, TableHealth
    from neve.compact.plan import Plan

MOST_PARTITIONS = 200
MOST_GROUPS = 20
KNOWN_SECONDS = 60.0  # what is hot cools down, and scores change with it


@dataclass(frozen=True)
class _Known:
    """How a table was, at a snapshot."""

    snapshot_id: int | None
    at: float
    health: TableHealth


@dataclass(frozen=True)
class TableReports:
    """Looks at tables through a compactor: metadata alone, and no Spark.

    A look costs a tenth of a second, so that a table that nobody committed to is not looked at again for a while.
    """

    compactor: Callable[[], Compactor]
    monotonic: Callable[[], float] = time.monotonic
    _known: dict[str, _Known] = field(default_factory=dict)

    def all(self) -> list[TableReport]:
        """Every table; one that can't be read is told with the reason."""
        compactor = self.compactor()
        return [self._one(name, compactor) for name in compactor.lake.table_names()]

    def _one(self, name: str, compactor: Compactor) -> TableReport:
        try:
            return _report(name, self._health(name, compactor), compactor)
        except Exception as error:  # whatever it is, of the catalog, the storage or the engine: the others are told
            return TableReport(
                name=name,
                rows=0,
                files=0,
                bytes=0,
                snapshots=0,
                health=None,
                last_commit=None,
                running="",
                unfinished=[],
                error=words_of(error),
            )

    def detail(self, name: str) -> TableDetail:
        """One table with its partitions and its plan; raises `TableMissing`."""
        compactor = self.compactor()
        if name not in compactor.lake.table_names():
            raise TableMissing(f"there is no table {name[:100]!r} in the lake", hint="`neve tables` lists them")
        health = self._health(name, compactor)
        worst = sorted(health.partitions, key=lambda one: (one.health, one.partition.label))
        return TableDetail(
            **dict(_report(name, health, compactor)),
            partitions=[_partition(one) for one in worst[:MOST_PARTITIONS]],
            partitions_in_all=len(health.partitions),
            plan=_plan(compactor.plan(name)),
        )

    def _health(self, name: str, compactor: Compactor) -> TableHealth:
        snapshot_id, now = compactor.lake.table(name).metadata.current_snapshot_id, self.monotonic()
        known = self._known.get(name)
        if known is None or known.snapshot_id != snapshot_id or now - known.at >= KNOWN_SECONDS:
            known = self._known[name] = _Known(snapshot_id, now, compactor.health(name))
        return known.health


def _report(name: str, health: TableHealth, compactor: Compactor) -> TableReport:
    documents = compactor.documents
    holder = describe(documents, f"compact:{health.table}")
    return TableReport(
        name=name,
        rows=health.rows,
        files=health.files,
        bytes=health.bytes,
        snapshots=health.snapshot.snapshots,
        health=round(health.score, 1),
        last_commit=health.snapshot.newest,
        running=holder.owner if holder and not holder.expired else "",
        unfinished=[run.id for run in Journal(documents, health.table).runs()],
        error="",
    )


def _partition(one: Measure) -> PartitionReport:
    return PartitionReport(
        partition=one.partition.label,
        health=round(one.health, 1),
        files=one.stats.files,
        bytes=one.stats.bytes,
        rows=one.stats.rows,
        fragments=one.stats.fragments.files,
        undersized=one.stats.undersized.files,
        delete_files=one.stats.deletes.files,
    )


def _plan(plan: Plan) -> PlanReport:
    return PlanReport(
        reason=plan.reason,
        strategy=plan.strategy,
        groups=len(plan.groups),
        files=sum(len(group.files) for group in plan.groups),
        bytes=sum(group.bytes for group in plan.groups),
        seconds=plan.estimate.seconds,
        dollars=plan.estimate.dollars,
        cut=len(plan.cut),
        left_alone=len(plan.left_alone),
        first=[
            PlannedGroup(
                partition=group.partition.label,
                files=len(group.files),
                bytes=group.bytes,
                level=group.level.value,
                layout=str(group.layout),
                executor=group.executor.value,
                reason=group.reason,
            )
            for group in plan.groups[:MOST_GROUPS]
        ],
    )
