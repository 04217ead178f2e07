"""The rows of a sample that give way to new ones: those of the windows that are sampled again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan, Or, Reference

from neve.errors import LakeError
from neve.lake.changes import partition_json
from neve.lake.content import bare_content
from neve.lake.position_deletes import write_deletes
from neve.reservoir.lake.touched import OWNER, TIME, starts_of
from neve.reservoir.lake.windows import moment_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

    from neve.lake.content import Content
    from neve.lake.writer import Target
    from neve.reservoir.lake.windows import Range, Windows


@dataclass(frozen=True)
class Given:
    """What becomes of a file: it goes, or some of its rows are marked."""

    removed: tuple[Content, ...] = ()
    deletes: tuple[Content, ...] = ()


@dataclass(frozen=True)
class Marker:
    """Finds the rows of windows in files of a sample. It pickles."""

    target: Target
    windows: Windows
    micros: int

    def __call__(self, file: DataFile) -> Given:
        """Mark the rows of one file; one without any other row goes."""
        positions, rows = self._positions(file)
        partition = partition_json(self.target.metadata, file, file.spec_id)
        if not len(positions):
            return Given()
        if len(positions) < rows:
            return Given(deletes=(write_deletes(self.target, file.file_path, positions, file.spec_id, partition),))
        whole = bare_content(
            file.file_path,
            file.file_format.value,
            file.spec_id,
            partition,
            file.file_size_in_bytes,
            file.record_count,
        )
        return Given(removed=(whole,))

    def _positions(self, file: DataFile) -> tuple[np.ndarray, int]:
        """By the time of the records: windows may have been of another length when they were sampled."""
        with cast("pa.NativeFile", self.target.io.new_input(file.file_path).open()) as opened:
            rows = pq.ParquetFile(opened).read([OWNER, TIME], use_threads=False)
        starts = starts_of(rows.column(TIME), self.micros)
        mine = np.zeros(rows.num_rows, dtype=bool)
        for owner in pc.unique(rows.column(OWNER)).to_pylist():
            wanted = pa.array(sorted(self.windows.get(owner, ())), pa.int64())
            there = pc.and_(pc.equal(rows.column(OWNER), owner), pc.is_in(starts, wanted))
            mine |= np.asarray(there)
        return np.flatnonzero(mine), rows.num_rows


def files_within(table: Table, time: Sequence[Range], snapshot: int | None) -> list[FileScanTask]:
    """The files of a snapshot that may have rows of some time, with what is deleted of them."""
    if snapshot is None or not time:
        return []
    wanted = between(*time[0])
    for one in time[1:]:
        wanted = Or(wanted, between(*one))
    try:
        return list(table.scan(row_filter=wanted, snapshot_id=snapshot).plan_files())
    except ValueError as error:
        if "equality" not in str(error).lower():
            raise
        name = ".".join(table.name())
        raise LakeError(
            f"{name} has equality deletes, which can't be read without Spark",
            hint=f"`neve compact run {name} --strategy deletes` applies them; then sample again",
        ) from error


def between(start: int, end: int) -> BooleanExpression:
    """Rows of some time."""
    first, last = (moment_of(edge).isoformat() for edge in (start, end))
    time = Reference(TIME)
    return And(GreaterThanOrEqual(term=time, value=first), LessThan(term=time, value=last))
