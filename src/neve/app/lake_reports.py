"""Reports on the tables of a lake: lag behind the input, health, partitions, and the compaction plan; metadata only."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from neve.app.reports import (
    FreshnessReport,
    LagsReport,
    LevelReport,
    PartitionReport,
    PlannedGroup,
    PlanReport,
    RulesReport,
    TableDetail,
    TableReport,
    TailReport,
    ZoneReport,
)
from neve.app.wiring import build_documents, build_source_lake
from neve.errors import NeveError, TableMissing
from neve.lake.calendar import now_utc
from neve.lake.read.history import commit_time
from neve.model.signals import OPEN_TRACES_TABLE, RULES_SPACE
from neve.raw.zone import EVENTS, OTLP, RawZone
from neve.state.leases import find_lease_holder

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from neve.app.settings import Settings
    from neve.compact.compactor import Compactor
    from neve.compact.health import Measure, TableHealth
    from neve.compact.plan import Plan
    from neve.lake.lake import Lake
    from neve.tail.status import TailStatus


Found = TypeVar("Found")


@dataclass(frozen=True)
class LagReader:
    """Reader of the lags of one lake."""

    settings: Settings
    lake: Lake
    clock: Callable[[], datetime] = now_utc

    def look(self) -> LagsReport:
        """Return all lags; an error in one of them is reported, and does not affect the others."""
        unknown: list[str] = []
        names = _try_read(self.lake.table_names, "the catalog", unknown) or []
        return LagsReport(
            zones=_try_read(self._zones, "the raw zone", unknown) or [],
            tables=_try_read(lambda: [self._freshness(name) for name in names], "the tables", unknown) or [],
            rollups=(names and _try_read(self._rollups, "the rollups", unknown)) or [],
            tail=_try_read(self._tail, "tail sampling", unknown) if OPEN_TRACES_TABLE in names else None,
            rules=_try_read(self._rules, "the rules", unknown),
            unknown=unknown,
        )

    def _zones(self) -> list[ZoneReport]:
        found = []
        for name in (OTLP, EVENTS):
            backlog = RawZone.of(self.settings.raw.location, self.settings.s3, name).backlog()
            oldest = min((segment.modified for segment in backlog), default=time.time())
            found.append(
                ZoneReport(
                    zone=name,
                    segments=len(backlog),
                    bytes=sum(segment.size for segment in backlog),
                    oldest_seconds=max(0.0, time.time() - oldest),
                )
            )
        return found

    def _freshness(self, name: str) -> FreshnessReport:
        last = read_last_commit(self.lake, name)
        age = max(0.0, (self.clock() - last).total_seconds()) if last else None
        return FreshnessReport(table=name, last_commit=last, age_seconds=age)

    def _rollups(self) -> list[LevelReport]:
        from neve.rollup.status import read_level_status  # noqa: PLC0415 - only for a lake with tables

        found = read_level_status(self.lake, self.settings.rollup, self.clock())
        return [LevelReport.model_validate(one) for one in found]

    def _tail(self) -> TailReport:
        status = load_sampler_status(self.settings, self.lake)
        return TailReport(
            selector=status.selector,
            cycle=status.cycle,
            last_cycle=status.last_cycle,
            open_traces=status.open_traces,
            behind=status.behind,
            decisions=status.decisions,
            destinations=[f"{one.name}: {one.note}" for one in status.destinations],
        )

    def _rules(self) -> RulesReport | None:
        documents = build_documents(self.settings)
        try:
            groups: list[Any] = [document for _, document in documents.entries(RULES_SPACE)]
        finally:
            documents.close()
        if not groups:
            return None
        now = self.clock().timestamp() * 1000
        states = [alert["state"] for group in groups for rule in group["rules"] for alert in rule["alerts"]]
        lags = [now - group["time_ms"] - group["interval_ms"] for group in groups]
        return RulesReport(
            groups=len(groups),
            lag_seconds=max(0, *lags, 0) / 1000,
            failing=sum(bool(rule["error"]) for group in groups for rule in group["rules"]),
            pending=states.count("pending"),
            firing=states.count("firing"),
        )


def load_sampler_status(settings: Settings, lake: Lake) -> TailStatus:
    """Load the progress of the tail sampler."""
    from neve.tail.status import load_tail_status  # noqa: PLC0415 - only for a lake with tables

    documents = build_documents(settings)
    try:
        return load_tail_status(lake, build_source_lake(settings, lake), settings.tail, documents)
    finally:
        documents.close()


def read_last_commit(lake: Lake, name: str) -> datetime | None:
    """Return the time of a table's last commit."""
    snapshot = lake.table_metadata(name).current_snapshot()
    return commit_time(snapshot) if snapshot else None


def _try_read(look: Callable[[], Found], what: str, unknown: list[str]) -> Found | None:
    try:
        return look()
    except Exception as error:  # any error of the catalog, the storage or the state store: the rest is reported
        unknown.append(f"{what}: {format_error(error)}")
        return None


def format_error(error: Exception) -> str:
    """Return the message of an error on one line.

    >>> format_error(NeveError("no such place", hint="look elsewhere")), format_error(OSError())
    ('no such place', 'OSError')
    """
    text = error.message if isinstance(error, NeveError) else f"{type(error).__name__}: {error}"
    return (text.splitlines() or [""])[0].removesuffix(": ")


MOST_PARTITIONS = 200
MOST_GROUPS = 20
CACHE_SECONDS = 60.0  # hot partitions cool down, which changes their scores


@dataclass(frozen=True)
class _CachedHealth:
    """The health of a table at a snapshot."""

    snapshot_id: int | None
    at: float
    health: TableHealth


@dataclass(frozen=True)
class TableReports:
    """Reports on tables through a compactor, from metadata alone and without Spark.

    A report takes a tenth of a second. So the report on a table without new commits is cached for a while.
    """

    compactor: Callable[[], Compactor]
    monotonic: Callable[[], float] = time.monotonic
    _known: dict[str, _CachedHealth] = field(default_factory=dict)

    def all(self) -> list[TableReport]:
        """Return every table; a table that can't be read is reported with the reason."""
        compactor = self.compactor()
        return [self._one(name, compactor) for name in compactor.lake.table_names()]

    def _one(self, name: str, compactor: Compactor) -> TableReport:
        try:
            return _table_report(name, self._health(name, compactor), compactor)
        except Exception as error:  # any error of the catalog, the storage or the engine: the other tables are reported
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
                error=format_error(error),
            )

    def detail(self, name: str) -> TableDetail:
        """Return one table with its partitions and its compaction plan; raises `TableMissing`."""
        compactor = self.compactor()
        if name not in compactor.lake.table_names():
            raise TableMissing(f"there is no table {name[:100]!r} in the lake", hint="`neve tables` lists them")
        health = self._health(name, compactor)
        worst = sorted(health.partitions, key=lambda one: (one.health, one.partition.label))
        return TableDetail(
            **dict(_table_report(name, health, compactor)),
            partitions=[describe_partition(one) for one in worst[:MOST_PARTITIONS]],
            partitions_in_all=len(health.partitions),
            plan=_plan_report(compactor.plan(name)),
        )

    def measure(self, name: str) -> TableHealth:
        """Return the health of a table, which may be a minute old; raises `TableMissing`."""
        return self._health(name, self.compactor())

    def plan(self, name: str) -> Plan:
        """Return the compaction plan of a table; raises `TableMissing`."""
        return self.compactor().plan(name)

    def _health(self, name: str, compactor: Compactor) -> TableHealth:
        snapshot_id, now = compactor.lake.table(name).metadata.current_snapshot_id, self.monotonic()
        known = self._known.get(name)
        if known is None or known.snapshot_id != snapshot_id or now - known.at >= CACHE_SECONDS:
            known = self._known[name] = _CachedHealth(snapshot_id, now, compactor.health(name))
        return known.health


def _table_report(name: str, health: TableHealth, compactor: Compactor) -> TableReport:
    from neve.compact.journal import Journal  # noqa: PLC0415 - only for those who have a compactor

    documents = compactor.documents
    holder = find_lease_holder(documents, f"compact:{health.table}")
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


def describe_partition(one: Measure) -> PartitionReport:
    """Describe a measured partition."""
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


def _plan_report(plan: Plan) -> PlanReport:
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
