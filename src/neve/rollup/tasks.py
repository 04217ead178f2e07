"""Spark tasks of a rollup: compute rows of a time range of one organization, and mark the rows that they replace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, EqualTo, Reference
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.read.incremental import find_rows_within
from neve.lake.read.snapshot_files import filter_by_time
from neve.lake.spark.tasks import use_jemalloc
from neve.lake.time_columns import windows_in
from neve.lake.time_ranges import NO_TIME, Ranges
from neve.lake.write.data_file_json import new_files_to_json
from neve.lake.write.table_writer import Target, write_files, write_position_deletes
from neve.model.rollups import COLUMNS as ROLLED
from neve.rollup.arrays import int_column
from neve.rollup.items import items_of_rows
from neve.rollup.points import COLUMNS as RAW
from neve.rollup.points import CUMULATIVE, PointCounts, items_of_points
from neve.rollup.rows import SCHEMA, make_rows

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

    from neve.lake.write.data_file_json import DataFileJson
    from neve.model.levels import Level
    from neve.rollup.definition import Definition


@dataclass(frozen=True)
class SliceTask:
    """A time range of one organization, to be computed from some files."""

    owner: str
    ranges: Ranges
    files: tuple[FileScanTask, ...]


@dataclass(frozen=True)
class MarkTask:
    """A file of the level's own table of which some rows are replaced."""

    owner: str
    ranges: Ranges
    path: str
    spec_id: int
    partition: tuple[object, ...]


@dataclass(frozen=True)
class TaskResult:
    """Result of a task. `windows` are those whose rows it wrote or deleted."""

    owner: str
    windows: Ranges = NO_TIME
    added: tuple[DataFileJson, ...] = ()
    deletes: tuple[DataFileJson, ...] = ()
    rows: int = 0
    counts: PointCounts = field(default_factory=lambda: PointCounts(0, 0, 0))


@dataclass(frozen=True)
class TaskRunner:
    """Runner with the values that all tasks of a run share."""

    source: Target
    target: Target
    level: Level
    definition: Definition
    closed_until: int
    is_raw: bool

    def __call__(self, task: SliceTask | MarkTask) -> TaskResult:
        """Run one task."""
        use_jemalloc()
        return self._mark(task) if isinstance(task, MarkTask) else self._compute(task)

    @property
    def lookback(self) -> int:
        """Return the time before its windows from which a slice reads."""
        return self.definition.lookback_micros if self.is_raw else 0

    def _compute(self, task: SliceTask) -> TaskResult:
        table = self._read(task)
        if not table.num_rows:
            return TaskResult(task.owner)
        rows, counts = self.roll_up(table, task.ranges)
        files = write_files(self.target, rows) if rows.num_rows else []
        added = tuple(new_files_to_json(self.target.metadata, files))
        return TaskResult(task.owner, self._windows(rows), added=added, rows=rows.num_rows, counts=counts)

    def roll_up(self, table: pa.Table, ranges: Ranges) -> tuple[pa.Table, PointCounts]:
        """Return the rows of one organization's windows."""
        micros = self.level.micros
        if self.is_raw:
            items, identity, points, counts = items_of_points(table, self.definition, ranges, micros)
            return make_rows(items, identity, points, self.level, self.definition, self.closed_until), counts
        below, identity = items_of_rows(table, self.definition, micros)
        rows = make_rows(below, identity, table, self.level, self.definition, self.closed_until)
        return rows, PointCounts(table.num_rows, 0, 0)

    def _read(self, task: SliceTask) -> pa.Table:
        metadata = self.source.metadata
        wanted = RAW if self.is_raw else tuple(column.name for column in ROLLED)
        schema = metadata.schema().select(*(name for name in wanted if name in metadata.schema().column_names))
        time = task.ranges.widen(before=self.lookback)
        scan = ArrowScan(metadata, self.source.io, schema, _filter(task.owner, time))
        batches = [self._filter_rows(batch, task.ranges) for batch in scan.to_record_batches(task.files)]
        plain = [batch for batch in batches if batch.num_rows]
        return pa.Table.from_batches(plain).combine_chunks() if plain else SCHEMA.empty_table()

    def _filter_rows(self, batch: pa.RecordBatch, ranges: Ranges) -> pa.RecordBatch:
        """Return the rows of the windows, and earlier rows with which a cumulative point may be compared."""
        table = pa.Table.from_batches([batch])
        moments = int_column(table, "timestamp")
        needed = ranges.holds(moments)
        if self.is_raw:
            grows = (int_column(table, "aggregation_temporality") == CUMULATIVE) | np.asarray(
                pc.equal(table.column("metric_type"), "summary").fill_null(False)
            )
            needed |= grows & ranges.widen(before=self.lookback).holds(moments)
        return batch if needed.all() else batch.filter(pa.array(needed))

    def _mark(self, task: MarkTask) -> TaskResult:
        rows = find_rows_within(self.target.io, task.path, {task.owner: task.ranges})
        if not len(rows.positions):
            return TaskResult(task.owner)
        deletes = write_position_deletes(self.target, task.path, rows.positions, task.spec_id, task.partition)
        return TaskResult(task.owner, windows_in(rows.moments, self.level.micros), deletes=(deletes,))

    def _windows(self, rows: pa.Table) -> Ranges:
        return windows_in(int_column(rows, "timestamp"), self.level.micros)


def _filter(owner: str, time: Ranges) -> BooleanExpression:
    return And(EqualTo(term=Reference("organization_id"), value=owner), filter_by_time(time.join_to(1)))
