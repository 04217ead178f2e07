"""Tables as they are: measured from metadata alone, and handed to the planner."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from neve.compact.budgets import NO_BUDGETS, Allowances
from neve.compact.candidate import Judge
from neve.compact.context import Context
from neve.compact.cost import Calibration, CostModel
from neve.compact.facts import facts_of, target_sizes
from neve.compact.health import cheap_check
from neve.compact.limits import Limits
from neve.compact.measure import Measure, SnapshotStats, TableHealth
from neve.compact.partition_filter import PartitionFilter
from neve.compact.plan import InputFile, Level, Plan
from neve.compact.planner import make_plan, nothing
from neve.compact.question import question_of
from neve.compact.strategies import strategy_of
from neve.compact.work import MOST_FILES
from neve.errors import ConfigError
from neve.lake.bounds import find_time_column
from neve.lake.file_index import FileIndex
from neve.lake.partition_stats import Question
from neve.lake.prices import PricesConfig

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.compact.config import CompactConfig
    from neve.compact.memory import Memory
    from neve.compact.plan import Partition
    from neve.lake.file_index import Connect, IndexedFile
    from neve.lake.partition_stats import PartitionId


def context_of(  # noqa: PLR0913 - all that a decision may depend on, by name
    table: Table,
    config: CompactConfig,
    *,
    now: datetime,
    prices: PricesConfig | None = None,
    memories: Mapping[str, Memory] | None = None,
    calibration: Calibration | None = None,
    target_bytes: int | None = None,
    level: Level | str | None = None,
) -> Context:
    """What decisions about a table know, without a look at its manifests."""
    time = find_time_column(table, config.time_column)
    return Context(
        table=facts_of(table, target_sizes(table, target_bytes, config.target_bytes), time),
        now=now,
        config=config,
        cost=CostModel(prices or PricesConfig(), calibration or Calibration()),
        memories=memories or {},
        level=_level(level),
    )


def idle_plan(  # noqa: PLR0913 - as above
    table: Table,
    config: CompactConfig,
    *,
    now: datetime,
    strategy: str | None = None,
    target_bytes: int | None = None,
    level: Level | str | None = None,
    partitions: str | None = None,
    thorough: bool = False,
) -> Plan | None:
    """The plan of a table that has nothing to do by the summary of its snapshot; no manifest nor the past is needed."""
    chosen = strategy_of(strategy or config.strategy)
    context = context_of(table, config, now=now, target_bytes=target_bytes, level=level)
    PartitionFilter.of(table, partitions)  # a wrong one is refused, whatever there is to do
    summary = _summary(table)
    reason = cheap_check(summary, context.table.sizes)
    if reason and (summary is None or not (thorough or _needs_partitions(table, context, chosen.name))):
        return nothing(context, chosen.name, reason, summary or {})
    return None


def plan_table(  # noqa: PLR0913 - as above
    table: Table,
    config: CompactConfig,
    *,
    now: datetime,
    duck: Connect,
    prices: PricesConfig | None = None,
    memories: Mapping[str, Memory] | None = None,
    calibration: Calibration | None = None,
    strategy: str | None = None,
    target_bytes: int | None = None,
    level: Level | str | None = None,
    partitions: str | None = None,
    thorough: bool = False,
    spent_dollars: float = 0.0,
    allowances: Allowances = NO_BUDGETS,
) -> Plan:
    """What there is to do to a table now.

    Looks at the summary of its snapshot first, and at its manifests only when that leaves anything open, or when it is
    asked to be `thorough`. `spent_dollars` are those of the last hour, `allowances` those of each organization's day.
    """
    idle = idle_plan(
        table,
        config,
        now=now,
        strategy=strategy,
        target_bytes=target_bytes,
        level=level,
        partitions=partitions,
        thorough=thorough,
    )
    if idle:
        return idle
    chosen = strategy_of(strategy or config.strategy)
    context = context_of(
        table,
        config,
        now=now,
        prices=prices,
        memories=memories,
        calibration=calibration,
        target_bytes=target_bytes,
        level=level,
    )
    wanted = PartitionFilter.of(table, partitions)
    with FileIndex(table, duck, time=find_time_column(table, config.time_column)) as index:
        question = question_of(index, context, chosen.name)
        measures = [Measure(stats, context.table.sizes) for stats in index.stats(question) if wanted.takes(stats)]

        def fetch(ids: Mapping[PartitionId, bool], most: int) -> Mapping[PartitionId, Sequence[IndexedFile]]:
            return index.candidates(question, ids, most)

        return make_plan(context, chosen, measures, fetch, Limits.of(config, spent_dollars), allowances)


def measure_table(  # noqa: PLR0913 - as above
    table: Table,
    config: CompactConfig,
    *,
    now: datetime,
    duck: Connect,
    memories: Mapping[str, Memory] | None = None,
    target_bytes: int | None = None,
    partitions: str | None = None,
) -> TableHealth:
    """How a table and each of its partitions are."""
    context = context_of(table, config, now=now, memories=memories, target_bytes=target_bytes)
    wanted = PartitionFilter.of(table, partitions)
    sizes = context.table.sizes
    with FileIndex(table, duck, time=find_time_column(table, config.time_column)) as index:
        stats = index.stats(question_of(index, context, config.strategy))
        return TableHealth(
            table=context.table.name,
            target_bytes=sizes.target,
            snapshot=_snapshots(table, index.manifests),
            partitions=tuple(Measure(one, sizes) for one in stats if wanted.takes(one)),
        )


def partition_files(
    table: Table, config: CompactConfig, partitions: Collection[Partition], *, duck: Connect
) -> dict[str, tuple[InputFile, ...]]:
    """All files of some partitions, by the partition's key."""
    sizes = target_sizes(table, None, config.target_bytes)
    judge = Judge(sizes, config.delete_files, config.delete_ratio)
    wanted = {partition.key for partition in partitions}
    with FileIndex(table, duck) as index:
        keys = index.partition_ids()
        chosen = {id_: True for id_, key in keys.items() if key in wanted}
        found = index.candidates(Question(sizes), chosen, MOST_FILES)
        return {keys[id_]: tuple(judge.candidate(file).file for file in files) for id_, files in found.items()}


def _level(given: Level | str | None) -> Level | None:
    if not given:
        return None
    try:
        return Level(given)
    except ValueError:
        raise ConfigError(f"level is {given!r}, expected {', '.join(Level)}") from None


def _summary(table: Table) -> dict[str, str] | None:
    snapshot = table.current_snapshot()
    if snapshot is None:
        return None
    return dict(snapshot.summary.additional_properties) if snapshot.summary else {}


def _needs_partitions(table: Table, context: Context, strategy: str) -> bool:
    """Whether there may be something to do that a summary does not tell."""
    config = context.config
    return (
        strategy == "dimensional"
        or context.table.layout.kind == "zorder"
        or context.level is not None
        or config.full_days > 0
        or (config.old_specs and len(table.specs()) > 1)
    )


def _snapshots(table: Table, manifests: int) -> SnapshotStats:
    times = [snapshot.timestamp_ms for snapshot in table.metadata.snapshots]
    current = table.current_snapshot()
    return SnapshotStats(
        snapshot_id=current.snapshot_id if current else None,
        sequence=(current.sequence_number or 0) if current else 0,
        snapshots=len(times),
        manifests=manifests,
        oldest=_moment(min(times)) if times else None,
        newest=_moment(max(times)) if times else None,
    )


def _moment(millis: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
