"""Which windows the changes of a table touch: those of the rows in files that came or went."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform

from neve.lake.calendar import Unit, start
from neve.lake.changes import changed_files, keeps_rows, owner_of, times_of
from neve.reservoir.lake.windows import floor, micros_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.changes import ChangedFile
    from neve.reservoir.lake.windows import Windows

OWNER, TIME = "organization_id", "timestamp"
MOST_ROWS = 20_000_000  # whose times are read one by one; of more, the earliest and latest of each file must do
UNITS: dict[type, Unit] = {HourTransform: "hour", DayTransform: "day", MonthTransform: "month", YearTransform: "year"}


def touched_by(source: Table, snapshots: Iterable[Snapshot], micros: int) -> Windows | None:
    """The windows that some snapshots changed, where those that only moved rows to other files changed none.

    `None` where nobody can tell, so that it may be any window.
    """
    found: defaultdict[str, set[int]] = defaultdict(set)
    rows = 0
    for snapshot in snapshots:
        if keeps_rows(snapshot):
            continue
        for changed in changed_files(source, snapshot):
            rows += changed.file.record_count
            windows = _windows(source, changed, micros, exactly=rows <= MOST_ROWS)
            if windows is None:
                return None
            for owner, starts in windows.items():
                found[owner].update(starts)
    return dict(found)


def _windows(source: Table, changed: ChangedFile, micros: int, *, exactly: bool) -> Windows | None:
    if changed.deletes:
        return _of_partition(source, changed.file, micros)  # which rows it marks, its partition tells well enough
    if exactly:
        # The bounds of a file that is gone, or has other columns, tell all its windows too, and perhaps more.
        with suppress(OSError, KeyError, pa.ArrowInvalid):
            return _of_rows(source, changed.file, micros)
    return _of_bounds(source, changed.file, micros)


def _of_rows(source: Table, file: DataFile, micros: int) -> Windows:
    with cast("pa.NativeFile", source.io.new_input(file.file_path).open()) as opened:
        rows = pq.ParquetFile(opened).read([OWNER, TIME], use_threads=False)
    starts = starts_of(rows.column(TIME), micros)
    distinct = pa.table({OWNER: rows.column(OWNER), TIME: starts}).group_by([OWNER, TIME]).aggregate([])
    found: defaultdict[str, set[int]] = defaultdict(set)
    for owner, window in zip(distinct.column(OWNER).to_pylist(), distinct.column(TIME).to_pylist(), strict=True):
        found[str(owner)].add(window)
    return found


def starts_of(times: pa.ChunkedArray, micros: int) -> pa.Array:
    """The starts of the windows that some moments lie in."""
    moments = np.asarray(pc.cast(pc.cast(times, pa.timestamp("us", "UTC")), pa.int64()))
    return pa.array(moments // micros * micros)


def _of_bounds(source: Table, file: DataFile, micros: int) -> Windows | None:
    bounds, owner = times_of(source, file), owner_of(source, file)
    if bounds is None or owner is None:
        return _of_partition(source, file, micros)
    return {owner: range(floor(bounds[0], micros), bounds[1] + 1, micros)}


def _of_partition(source: Table, file: DataFile, micros: int) -> Windows | None:
    """The windows of the time that a file's partition stands for."""
    owner, time_id = owner_of(source, file), source.schema().find_field(TIME).field_id
    for place, part in enumerate(source.metadata.specs()[file.spec_id].fields):
        unit, value = UNITS.get(type(part.transform)), file.partition[place]
        if owner is not None and part.source_id == time_id and unit and isinstance(value, int):
            first, last = (micros_of(start(unit, number)) for number in (value, value + 1))
            return {owner: range(floor(first, micros), last, micros)}
    return None
