"""What Spark's tasks do: compute the rows of some time of one organization, and mark the rows that they replace."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThan, Reference
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.calendar import EPOCH
from neve.lake.changes import partition_json
from neve.lake.content import content_of
from neve.lake.lane import keep_memory
from neve.lake.position_deletes import write_deletes
from neve.lake.writer import Target, write_files
from neve.model.rollups import COLUMNS as ROLLED
from neve.rollup.columns import whole
from neve.rollup.levels import items_of_rows
from neve.rollup.points import COLUMNS as RAW
from neve.rollup.points import CUMULATIVE, Told, items_of_points
from neve.rollup.ranges import NO_TIME, Ranges, micros_of, windows_in
from neve.rollup.rows import SCHEMA, rows_of

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import FileScanTask

    from neve.lake.content import Content
    from neve.model.rollups import Level
    from neve.rollup.definition import Definition

# What a calendar has, with a day to spare.
EARLIEST = micros_of(datetime(1, 1, 2, tzinfo=UTC))
LATEST = micros_of(datetime(9999, 12, 30, tzinfo=UTC))


@dataclass(frozen=True)
class Slice:
    """Some time of one organization, to be computed from some files."""

    owner: str
    ranges: Ranges
    files: tuple[FileScanTask, ...]


@dataclass(frozen=True)
class Marking:
    """A file of the level's own table of which some rows are replaced."""

    owner: str
    ranges: Ranges
    path: str
    spec_id: int
    partition: tuple[object, ...]


@dataclass(frozen=True)
class Done:
    """What came of a task; `windows` are those that it made or marked rows of."""

    owner: str
    windows: Ranges = NO_TIME
    added: tuple[Content, ...] = ()
    deletes: tuple[Content, ...] = ()
    rows: int = 0
    told: Told = field(default_factory=lambda: Told(0, 0, 0))


@dataclass(frozen=True)
class Assignment:
    """What all tasks of a run have in common."""

    source: Target
    target: Target
    level: Level
    definition: Definition
    closed_until: int
    is_raw: bool

    def __call__(self, task: Slice | Marking) -> Done:
        """Do one task."""
        keep_memory()
        return self._mark(task) if isinstance(task, Marking) else self._compute(task)

    @property
    def lookback(self) -> int:
        """How far before its windows a slice reads."""
        return self.definition.lookback_micros if self.is_raw else 0

    def _compute(self, task: Slice) -> Done:
        table = self._read(task)
        if not table.num_rows:
            return Done(task.owner)
        rows, told = self.rolled(table, task.ranges)
        files = write_files(self.target, rows) if rows.num_rows else []
        metadata = self.target.metadata
        spec = metadata.default_spec_id
        added = tuple(content_of(file, spec, partition_json(metadata, file, spec)) for file in files)
        return Done(task.owner, self._windows(rows), added=added, rows=rows.num_rows, told=told)

    def rolled(self, table: pa.Table, ranges: Ranges) -> tuple[pa.Table, Told]:
        """The rows of one organization's windows."""
        micros = self.level.micros
        if self.is_raw:
            items, identity, points, told = items_of_points(table, self.definition, ranges, micros)
            return rows_of(items, identity, points, self.level, self.definition, self.closed_until), told
        below, identity = items_of_rows(table, self.definition, micros)
        rows = rows_of(below, identity, table, self.level, self.definition, self.closed_until)
        return rows, Told(table.num_rows, 0, 0)

    def _read(self, task: Slice) -> pa.Table:
        metadata = self.source.metadata
        wanted = RAW if self.is_raw else tuple(column.name for column in ROLLED)
        schema = metadata.schema().select(*(name for name in wanted if name in metadata.schema().column_names))
        time = task.ranges.widened(before=self.lookback)
        scan = ArrowScan(metadata, self.source.io, schema, _filter(task.owner, time))
        batches = [self._needed(batch, task.ranges) for batch in scan.to_record_batches(task.files)]
        plain = [batch for batch in batches if batch.num_rows]
        return pa.Table.from_batches(plain).combine_chunks() if plain else SCHEMA.empty_table()

    def _needed(self, batch: pa.RecordBatch, ranges: Ranges) -> pa.RecordBatch:
        """The rows of the windows, and of the time before them those that a cumulative point may be compared with."""
        table = pa.Table.from_batches([batch])
        moments = whole(table, "timestamp")
        needed = ranges.holds(moments)
        if self.is_raw:
            grows = (whole(table, "aggregation_temporality") == CUMULATIVE) | np.asarray(
                pc.equal(table.column("metric_type"), "summary").fill_null(False)
            )
            needed |= grows & ranges.widened(before=self.lookback).holds(moments)
        return batch if needed.all() else batch.filter(pa.array(needed))

    def _mark(self, task: Marking) -> Done:
        with cast("pa.NativeFile", self.target.io.new_input(task.path).open()) as opened:
            times = pq.ParquetFile(opened).read(["organization_id", "timestamp"], use_threads=False)
        mine = np.asarray(pc.equal(times.column("organization_id"), task.owner))
        positions = np.flatnonzero(mine & task.ranges.holds(whole(times, "timestamp")))
        if not len(positions):
            return Done(task.owner)
        deletes = write_deletes(self.target, task.path, positions, task.spec_id, task.partition)
        return Done(task.owner, self._windows(times.take(pa.array(positions))), deletes=(deletes,))

    def _windows(self, rows: pa.Table) -> Ranges:
        return windows_in(whole(rows, "timestamp"), self.level.micros)


def _filter(owner: str, time: Ranges) -> BooleanExpression:
    start, end = time.parts[0][0], time.parts[-1][1]
    return And(EqualTo(term=Reference("organization_id"), value=owner), between(start, end))


def between(start: int, end: int) -> BooleanExpression:
    """Rows of some time, of which there is only as much as a calendar has."""
    first, last = (EPOCH + timedelta(microseconds=min(max(at, EARLIEST), LATEST)) for at in (start, end))
    time = Reference("timestamp")
    return And(GreaterThanOrEqual(term=time, value=first.isoformat()), LessThan(term=time, value=last.isoformat()))
