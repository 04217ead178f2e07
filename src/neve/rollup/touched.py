"""Which windows the changes of a source touch: what commits announce, else the times in the files that they changed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.transforms import DayTransform, HourTransform, MonthTransform, YearTransform

from neve.lake.calendar import Unit, start
from neve.lake.changes import changed_files, keeps_rows, owner_of, said, times_of
from neve.model.commits import WINDOWS
from neve.rollup.announced import EVERYONE, announced
from neve.rollup.ranges import EVERYTHING, NO_TIME, Ranges, micros_of, windows_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from neve.lake.changes import ChangedFile

TIME = "timestamp"
MOST_ROWS = 20_000_000  # whose times are read one by one; of more, the earliest and latest of each file must do
UNITS: dict[type, Unit] = {
    HourTransform: "hour",
    DayTransform: "day",
    MonthTransform: "month",
    YearTransform: "year",
}


@dataclass(frozen=True)
class Touched:
    """Time by organization; `everyone` is for rows whose owner is not known."""

    owners: dict[str, Ranges] = field(default_factory=dict)
    everyone: Ranges = NO_TIME
    commits: int = 0

    def of(self, owner: str) -> Ranges:
        """What is touched of one organization."""
        return self.owners.get(owner, Ranges()) | self.everyone

    @property
    def all(self) -> Ranges:
        """What is touched of anybody."""
        return Ranges.of([part for ranges in (*self.owners.values(), self.everyone) for part in ranges])


def touched_by(source: Table, snapshots: Iterable[Snapshot], micros: int) -> Touched:
    """The windows that some snapshots changed; those that only moved rows to other files changed none."""
    found: defaultdict[str, list[Ranges]] = defaultdict(list)
    commits, rows = 0, 0
    for snapshot in snapshots:
        if keeps_rows(snapshot):
            continue
        commits += 1
        words = said(snapshot).get(WINDOWS)
        if words is not None:
            for owner, ranges in announced(words).items():
                found[owner].append(ranges)
            continue
        for changed in changed_files(source, snapshot):
            rows += changed.file.record_count
            owner = owner_of(source, changed.file) or EVERYONE
            found[owner].append(_times(source, changed, micros, exactly=rows <= MOST_ROWS))
    joined = {
        owner: Ranges.of(part for ranges in several for part in ranges).aligned(micros)
        for owner, several in found.items()
    }
    everyone = joined.pop(EVERYONE, Ranges())
    return Touched(joined, everyone, commits)


def _times(source: Table, changed: ChangedFile, micros: int, *, exactly: bool) -> Ranges:
    if changed.deletes:
        return _of_partition(source, changed.file)  # which rows it marks, its partition tells well enough
    if exactly:
        try:
            return _windows(source, changed.file, micros)
        except (OSError, KeyError, pa.ArrowInvalid):  # a file that is gone, or has other columns: its bounds must do
            return _of_bounds(source, changed.file)
    return _of_bounds(source, changed.file)


def _windows(source: Table, file: DataFile, micros: int) -> Ranges:
    with cast("pa.NativeFile", source.io.new_input(file.file_path).open()) as opened:
        times = pq.ParquetFile(opened).read([TIME], use_threads=False).column(TIME)
    moments = np.asarray(pc.cast(pc.cast(times, pa.timestamp("us", "UTC")), pa.int64()))
    return windows_in(moments, micros)


def _of_bounds(source: Table, file: DataFile) -> Ranges:
    bounds = times_of(source, file)
    return Ranges.of([(bounds[0], bounds[1] + 1)]) if bounds else _of_partition(source, file)


def _of_partition(source: Table, file: DataFile) -> Ranges:
    """The time that a file's partition stands for; all of it where it stands for none."""
    time_id = source.schema().find_field(TIME).field_id
    for place, part in enumerate(source.metadata.specs()[file.spec_id].fields):
        value = file.partition[place]
        if part.source_id == time_id and isinstance(value, int):
            return _period(part.transform, value)
    return EVERYTHING


def _period(transform: object, value: int) -> Ranges:
    unit = UNITS.get(type(transform))
    if unit is None:
        return EVERYTHING
    return Ranges.of([(micros_of(start(unit, value)), micros_of(start(unit, value + 1)))])
