"""What a run writes before its commit: the records that are kept, and marks on those that they replace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.lake.lane import parallelism, run_tasks
from neve.lake.row_change import RowChange
from neve.lake.writer import Target
from neve.reservoir.lake.decide import DECIDED, FILE
from neve.reservoir.lake.fetch import SCHEMA, Fetch, told
from neve.reservoir.lake.replaced import Marker, files_within

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from neve.lake.content import Content
    from neve.lake.lake import Lake
    from neve.reservoir.lake.decide import Decider
    from neve.reservoir.lake.occasion import Occasion
    from neve.reservoir.lake.plan import Counts, Plan
    from neve.reservoir.lake.replaced import Given

TASKS_EACH = 4  # that a core is given, when there are many


@dataclass(frozen=True)
class Written:
    """The rows that come and those that go, and how many are kept of every window."""

    change: RowChange
    kept: Counts


@dataclass(frozen=True)
class Writing:
    """The files of a plan, which nobody sees before they are committed; `tell` is told each step."""

    lake: Lake
    occasion: Occasion
    plan: Plan
    decider: Decider
    tell: Callable[[str], None]

    def written(self) -> Written:
        """Decide, write the kept records, and mark those that they replace."""
        added, kept = self._added() if self.plan.records else ((), {})
        given = self._given()
        deletes = tuple(file for one in given for file in one.deletes)
        change = RowChange(
            added=added,
            deletes=deletes,
            removed=tuple(file for one in given for file in one.removed),
            marked=tuple(str(file["referenced-data-file"]) for file in deletes),
            from_snapshot=self.occasion.target_snapshot,
        )
        return Written(change, kept)

    def _given(self) -> list[Given]:
        """What becomes of the files that have rows of the windows."""
        occasion, micros = self.occasion, self.occasion.config.micros
        tasks = files_within(occasion.target, self.plan.time(micros), occasion.target_snapshot)
        if not tasks:
            return []
        marker = Marker(Target.of(occasion.target), self.plan.windows, micros)
        return run_tasks(self.lake.spark, marker, [task.file for task in tasks], slices=self._slices)

    @property
    def _slices(self) -> int:
        return TASKS_EACH * parallelism(self.lake.spark)

    def _few(self, decided: DataFrame) -> DataFrame:
        """In no more parts than there are cores for: what is held keeps those of its shuffle, 200 for a few rows."""
        return decided.coalesce(self._slices)

    def _added(self) -> tuple[tuple[Content, ...], Counts]:
        self.tell("deciding")
        decided = self._few(self.decider.decide(self.plan)).persist()
        try:
            kept, doubled = self.decider.kept(decided)
            if doubled:
                decided.unpersist()
                decided = self._few(self.decider.decide_once(self.plan)).persist()
                kept, _doubled = self.decider.kept(decided)
            self.tell("writing")
            return self._fetched(decided, sum(kept.values())), kept
        finally:
            decided.unpersist()

    def _fetched(self, decided: DataFrame, expected: int) -> tuple[Content, ...]:
        """The whole records of decisions, in new files."""
        occasion, config = self.occasion, self.occasion.config
        tasks = files_within(occasion.source, self.plan.time(config.micros), occasion.snapshot)
        fetch = Fetch(
            source=Target.of(occasion.source),
            target=Target.of(occasion.target),
            files={task.file.file_path: task for task in tasks},
            config=config,
        )
        slices = max(1, min(len(tasks), self._slices))
        placed = self.decider.placed(self.plan, decided).select(*DECIDED, FILE)
        ordered = placed.repartition(slices, FILE).sortWithinPartitions(FILE)
        found = [told((row.rows, row.files)) for row in ordered.mapInArrow(fetch, SCHEMA).collect()]
        rows = sum(number for number, _files in found)
        if rows != expected:
            name = ".".join(occasion.source.name())
            raise LakeError(
                f"{rows:,} records of {name} found for {expected:,} decisions",
                hint="nothing was changed; compact the table, then sample again",
            )
        return tuple(file for _number, files in found for file in files)
