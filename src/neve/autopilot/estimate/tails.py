"""The few rows beyond literals near an end of a column: read, all of them, because no sample tells where they lie.

Which files a value near the end of a column is looked for in depends on which files have a row beyond it. Where a file
has some eight such rows or more, every file has one; where it has fewer, chance decides, and a sample of one row in
thirty says next to nothing of it. The rows themselves do, and they are few.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.autopilot.estimate.columns import source_of
from neve.autopilot.estimate.counts import counted, places_of
from neve.autopilot.estimate.reader import RowReader, values_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.autopilot.estimate.files import TableFiles, Told
    from neve.autopilot.estimate.intervals import ColumnTests
    from neve.autopilot.estimate.sample import Sample

ROWS_A_FILE = 8  # one file in three thousand has none of so many


@dataclass(frozen=True)
class Tail:
    """The ends of a column that are known row by row: all places up to `low`, and all from `high` on."""

    low: int
    high: int

    def holds(self, places: npt.NDArray[np.int64], nulls: int) -> npt.NDArray[np.bool_]:
        """Which places lie in the tail; `nulls` is the one of rows without a value."""
        return (places <= self.low) | ((places >= self.high) & (places < nulls))


def tails_of(sample: Sample, columns: Mapping[str, ColumnTests], rows: float) -> dict[str, Tail]:
    """The ends of columns that hold literals, and at most so many rows each."""
    found = {}
    for name, tests in columns.items():
        if source_of(name).key is None and name in sample.columns:
            masses = counted(tests, sample.columns[name], sample.weights)[:-1]
            below, above = masses.cumsum(), masses[::-1].cumsum()[::-1]
            literals = np.arange(1, len(masses), 2)  # odd places are those of the literals themselves
            low = literals[below[literals] <= rows].max(initial=-1)
            high = literals[above[literals] <= rows].min(initial=tests.cuts.highest + 1)
            if low >= 0 or high <= tests.cuts.highest:
                found[name] = Tail(int(low), int(high))
    return found


@dataclass(frozen=True)
class TailReader:
    """Reads the rows in the tails of some columns."""

    reader: RowReader
    columns: Mapping[str, ColumnTests]
    tails: Mapping[str, Tail]

    def rows(self, files: TableFiles, most_files: int) -> tuple[pa.Table, npt.NDArray[np.int64]] | None:
        """The rows and the number of each one's file; nothing where more files than these would have to be read."""
        wanted = list(self._reaching(files))
        if len(wanted) > most_files:
            return None
        names = sorted({source_of(name).top for name in self.tails})
        pieces = [self.reader.where(path, names, self._holds) for _number, path in wanted]
        numbers = [np.full(piece.num_rows, number) for (number, _path), piece in zip(wanted, pieces, strict=True)]
        whole = pa.concat_tables([self.reader.schema.empty_table(), *pieces]).combine_chunks()
        return whole, np.concatenate([np.zeros(0, dtype=np.int64), *numbers])

    def _reaching(self, files: TableFiles) -> Iterator[tuple[int, str]]:
        """The files whose bounds reach into a tail, or are not known."""
        for number, (spec, place) in enumerate(files.in_order()):
            if any(self._reaches(name, spec.columns.get(name), place) for name in self.tails):
                yield number, spec.paths[place]

    def _reaches(self, name: str, told: Told | None, place: int) -> bool:
        low, high = (None, None) if told is None else (told.lows[place], told.highs[place])
        cuts, tail = self.columns[name].cuts, self.tails[name]
        return low is None or high is None or cuts.place(low) <= tail.low or cuts.place(high) >= tail.high

    def _holds(self, rows: pa.Table) -> npt.NDArray[np.bool_]:
        return in_tails({name: values_of(rows, source_of(name)) for name in self.tails}, self.columns, self.tails)


def in_tails(
    values: Mapping[str, pa.Array], columns: Mapping[str, ColumnTests], tails: Mapping[str, Tail]
) -> npt.NDArray[np.bool_]:
    """Which rows lie in the tail of any column."""
    held = np.zeros(len(next(iter(values.values()))), dtype=bool)
    for name, tail in tails.items():
        tests = columns[name]
        held |= tail.holds(places_of(tests, values[name]), tests.cuts.highest + 1)
    return held
