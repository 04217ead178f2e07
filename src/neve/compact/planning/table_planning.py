"""Plan for one table: read its metadata, measure its partitions, filter them, and pass them to the plan builder."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import unquote

from neve.compact.budgets import NO_BUDGETS, Allowances
from neve.compact.health import Measure, SnapshotStats, TableHealth, check_summary
from neve.compact.plan import InputFile, Level, Plan, Request
from neve.compact.planning.candidates import FileClassifier
from neve.compact.planning.context import Context, facts_of, target_sizes
from neve.compact.planning.cost_model import Calibration, CostModel
from neve.compact.planning.limits import Limits
from neve.compact.planning.plan_builder import MAX_FILES, make_empty_plan, make_plan
from neve.compact.strategies import strategy_of
from neve.errors import ConfigError
from neve.lake.config import PricesConfig
from neve.lake.read.file_index import FileIndex, shared_indexes
from neve.lake.read.history import commit_time, read_summary
from neve.lake.read.partition_stats import FileCriteria
from neve.lake.read.statistics import find_time_column

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.compact.config import CompactConfig
    from neve.compact.partition_memory import PartitionMemory
    from neve.compact.plan import Partition
    from neve.compact.strategies import Strategy
    from neve.lake.read.file_index import Connect, IndexedFile
    from neve.lake.read.partition_stats import PartitionId, PartitionStats
    from neve.lake.read.statistics import TimeColumn


@dataclass(frozen=True)
class PartitionFilter:
    """Patterns for partition fields, and parts of labels. A partition must match all of them.

    Each spec has its own names, in order.
    """

    patterns: tuple[tuple[str, str], ...]
    names: dict[int, tuple[str, ...]]
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: Table, text: str | None) -> PartitionFilter:
        """Parse a filter. Raises `ConfigError` if the text is not a filter or names no partition field."""
        names = {spec_id: tuple(field.name for field in spec.fields) for spec_id, spec in table.specs().items()}
        known = sorted({name for fields in names.values() for name in fields})
        patterns, parts = [], []
        for part in _split_conditions(text or ""):
            name, equals, pattern = part.partition("=")
            if not equals:
                parts.append(part)
                continue
            if name.strip() not in known:
                raise ConfigError(
                    f"the partition filter has {part!r}, expected field=value with a field of "
                    f"{'.'.join(table.name())}: {', '.join(known) or 'none'}",
                    hint="values may contain * and ?; separate conditions by commas; text without = is searched in the "
                    "names of partitions",
                )
            patterns.append((name.strip(), pattern.strip()))
        return cls(tuple(patterns), names, tuple(parts))

    def matches(self, stats: PartitionStats) -> bool:
        """Return whether a partition matches."""
        label = stats.label
        if not all(part in label or part in unquote(label) for part in self.parts):
            return False
        values = dict(zip(self.names[stats.spec_id], stats.values, strict=True))
        return all(
            name in values and fnmatchcase("null" if values[name] is None else str(values[name]), pattern)
            for name, pattern in self.patterns
        )


def _split_conditions(text: str) -> list[str]:
    """Split a filter into its parts. A text without fields is one part, whatever it contains."""
    parts = text.replace("/", ",").split(",") if "=" in text else [text]
    return [part.strip() for part in parts if part.strip()]


MICROS = 1_000_000


def make_criteria(index: FileIndex, context: Context, strategy: str) -> FileCriteria:
    """Return the file criteria of a strategy. Adaptive skips hot files if the table has a time column."""
    table, config = context.table, context.config
    skips_hot = strategy == "time_series" or (strategy == "adaptive" and table.time_column is not None)
    hot_from = context.now.astimezone(UTC) - timedelta(seconds=config.hot_seconds)
    return FileCriteria(
        sizes=table.sizes,
        hot_from_us=int(hot_from.timestamp() * MICROS) if skips_hot and config.hot_seconds else None,
        delete_files=config.delete_files,
        delete_ratio=config.delete_ratio,
        wants_layout=table.layout.kind != "keep",
        sort_order_id=table.sort_order_id if table.layout.kind == "sort" else None,
        laid_out=_find_laid_out(index, context) if table.layout.kind != "keep" else {},
    )


def _find_laid_out(index: FileIndex, context: Context) -> dict[PartitionId, int]:
    """Return the sequence numbers up to which files are known to have the current layout of the table."""
    if not context.memories:
        return {}
    known = {
        key: memory.sequence for key, memory in context.memories.items() if memory.layout == str(context.table.layout)
    }
    return {id_: known[key] for id_, key in index.partition_ids().items() if key in known}


@dataclass(frozen=True)
class PlanHistory:
    """History of a table: memories of partitions, measured costs, dollars of the last hour, budgets of the day."""

    memories: Mapping[str, PartitionMemory] = field(default_factory=dict)
    calibration: Calibration = field(default_factory=Calibration)
    spent_dollars: float = 0.0
    allowances: Allowances = NO_BUDGETS


@dataclass(frozen=True)
class TablePlanner:
    """Planner of one table at its current snapshot. `past` is read only if the snapshot's summary is inconclusive."""

    table: Table
    config: CompactConfig
    now: datetime
    duck: Connect
    request: Request = field(default_factory=Request)
    prices: PricesConfig = field(default_factory=PricesConfig)
    past: Callable[[], PlanHistory] = PlanHistory

    @cached_property
    def strategy(self) -> Strategy:
        """Strategy of the request, or of the configuration."""
        return strategy_of(self.request.strategy or self.config.strategy)

    @cached_property
    def time_column(self) -> TimeColumn | None:
        """Column by which files are hot or cold."""
        return find_time_column(self.table, self.config.time_column)

    def context(self, past: PlanHistory) -> Context:
        """Return the context of decisions, without reading manifests."""
        sizes = target_sizes(self.table, self.request.target_bytes, self.config.target_bytes)
        return Context(
            table=facts_of(self.table, sizes, self.time_column),
            now=self.now,
            config=self.config,
            cost=CostModel(self.prices, past.calibration),
            memories=past.memories,
            level=_parse_level(self.request.level),
        )

    def plan(self) -> Plan:
        """Plan the work: by the summary of the snapshot, or by the manifests if it is inconclusive or on request."""
        idle = self._idle_plan()
        if idle is not None:
            return idle
        past, wanted = self.past(), PartitionFilter.of(self.table, self.request.partitions)
        context, limits = self.context(past), Limits.of(self.config, past.spent_dollars)
        with FileIndex(self.table, self.duck, time=self.time_column, store=shared_indexes()) as index:
            criteria = make_criteria(index, context, self.strategy.name)
            measures = [Measure(stats, context.table.sizes) for stats in index.stats(criteria) if wanted.matches(stats)]

            def fetch(ids: Mapping[PartitionId, bool], most: int) -> Mapping[PartitionId, Sequence[IndexedFile]]:
                return index.candidates(criteria, ids, most)

            return make_plan(context, self.strategy, measures, fetch, limits, past.allowances)

    def health(self) -> TableHealth:
        """Measure the health of the table and of each of its partitions."""
        context, wanted = self.context(self.past()), PartitionFilter.of(self.table, self.request.partitions)
        name, sizes = context.table.name, context.table.sizes
        if self.table.current_snapshot() is None:
            return TableHealth(name, sizes.target, _measure_snapshots(self.table, 0), ())
        with FileIndex(self.table, self.duck, time=self.time_column, store=shared_indexes()) as index:
            stats = index.stats(make_criteria(index, context, self.config.strategy))
            return TableHealth(
                table=name,
                target_bytes=sizes.target,
                snapshot=_measure_snapshots(self.table, index.manifests),
                partitions=tuple(Measure(one, sizes) for one in stats if wanted.matches(one)),
            )

    def _idle_plan(self) -> Plan | None:
        """Return the plan of a table whose snapshot summary shows no work."""
        name, context = self.strategy.name, self.context(PlanHistory())
        PartitionFilter.of(self.table, self.request.partitions)  # a wrong filter is rejected even if there is no work
        snapshot = self.table.current_snapshot()
        summary = read_summary(snapshot) if snapshot else None
        reason = check_summary(summary, context.table.sizes)
        if reason and (summary is None or not (self.request.thorough or _needs_partitions(self.table, context, name))):
            return make_empty_plan(context, name, reason, summary or {})
        return None


def list_partition_files(
    table: Table, config: CompactConfig, partitions: Collection[Partition], *, duck: Connect
) -> dict[str, tuple[InputFile, ...]]:
    """Return all files of some partitions, by partition key."""
    sizes = target_sizes(table, None, config.target_bytes)
    classifier = FileClassifier(sizes, config.delete_files, config.delete_ratio)
    wanted = {partition.key for partition in partitions}
    with FileIndex(table, duck) as index:
        keys = index.partition_ids()
        chosen = {id_: True for id_, key in keys.items() if key in wanted}
        found = index.candidates(FileCriteria(sizes), chosen, MAX_FILES)
        return {keys[id_]: tuple(classifier.candidate(file).file for file in files) for id_, files in found.items()}


def _parse_level(level: Level | str | None) -> Level | None:
    if not level:
        return None
    try:
        return Level(level)
    except ValueError:
        raise ConfigError(f"level is {level!r}, expected {', '.join(Level)}") from None


def _needs_partitions(table: Table, context: Context, strategy: str) -> bool:
    """Return whether there may be work that a summary does not show."""
    config = context.config
    return (
        strategy == "dimensional"
        or context.table.layout.kind == "zorder"
        or context.level is not None
        or config.full_days > 0
        or (config.old_specs and len(table.specs()) > 1)
    )


def _measure_snapshots(table: Table, manifests: int) -> SnapshotStats:
    times = [commit_time(snapshot) for snapshot in table.metadata.snapshots]
    current = table.current_snapshot()
    return SnapshotStats(
        snapshot_id=current.snapshot_id if current else None,
        sequence=(current.sequence_number or 0) if current else 0,
        snapshots=len(times),
        manifests=manifests,
        oldest=min(times, default=None),
        newest=max(times, default=None),
    )
