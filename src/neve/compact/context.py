"""What a decision about one partition knows beside its measures: the table, the settings, the past and the time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.compact.candidate import Judge
from neve.compact.config import CompactConfig
from neve.compact.cost import CostModel
from neve.compact.memory import NOTHING, Memory
from neve.compact.plan import Layout

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.compact.plan import Level, Partition
    from neve.lake.target_sizes import TargetSizes

KEEP = Layout()


@dataclass(frozen=True)
class TableFacts:
    """What the planner has to know of a table: `sorting` is its sort order, `layout` what its files should have."""

    name: str
    uuid: str
    sizes: TargetSizes
    snapshot_id: int | None = None
    sequence: int = 0
    format_version: int = 2
    spec_id: int = 0
    sorting: Layout = KEEP
    sort_order_id: int | None = None
    layout: Layout = KEEP
    arrow_columns: frozenset[str] = frozenset()
    foreign_type: str | None = None
    time_column: str | None = None
    has_record_id: bool = False


@dataclass(frozen=True)
class Context:
    """All that a strategy may look at; `level` is what a person asked for, where one did."""

    table: TableFacts
    now: datetime
    config: CompactConfig = field(default_factory=CompactConfig)
    cost: CostModel = field(default_factory=CostModel)
    memories: Mapping[str, Memory] = field(default_factory=dict)
    level: Level | None = None

    @property
    def judge(self) -> Judge:
        """Who says what files are."""
        config = self.config
        return Judge(self.table.sizes, config.delete_files, config.delete_ratio, self.cost.calibration.ratio)

    def memory(self, partition: Partition) -> Memory:
        """What is remembered of a partition."""
        return self.memories.get(partition.key, NOTHING)

    def later(self, partition: Partition, memory: Memory) -> Context:
        """The same, when something else is remembered of a partition."""
        return replace(self, memories={**self.memories, partition.key: memory})

    def is_minor_due(self, partition: Partition) -> bool:
        """Whether the last rewrite is long enough ago for a few fragments to be worth one."""
        last = self.memory(partition).minor_at
        return last is None or self.now - last >= timedelta(seconds=self.config.minor_seconds)

    def is_in_turn(self, partition: Partition) -> bool:
        """Whether a partition is packed again and again, by the number of its fragments, and nobody asked for more."""
        return self.level is None and not self.is_minor_due(partition)

    def is_full_due(self, partition: Partition) -> bool:
        """Whether it is time to rewrite the whole partition."""
        last = self.memory(partition).full_at
        if not self.config.full_days:
            return False
        return last is None or self.now - last >= timedelta(days=self.config.full_days)
