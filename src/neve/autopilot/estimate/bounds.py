"""What is known of a column in files: the smallest and largest value, nulls, and the bucket that all values are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.autopilot.estimate.joining import Answers, joined

if TYPE_CHECKING:
    from neve.autopilot.estimate.cuts import Places
    from neve.autopilot.estimate.intervals import ColumnTests

Mask = npt.NDArray[np.bool_]
Chosen = slice | npt.NDArray[np.intp]
NO_BUCKET = -1


@dataclass(frozen=True)
class Bounds:
    """For each file the places of the bounds of a column, whether it has nulls, and whether it has nothing else.

    A file that nothing is known of has the widest bounds and may have nulls: then no test rules it out.
    """

    column: str
    low: Places
    high: Places
    has_null: Mask
    only_null: Mask

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Strike out the files that lie beside what is asked for."""
        if len(tests.rows):
            hits = (self.low <= tests.high[:, None]) & (self.high >= tests.low[:, None])
            answers[tests.rows] &= joined(hits, tests.starts, every=False) & ~self.only_null
        answers[tests.null_rows] &= self.has_null
        answers[tests.filled_rows] &= ~self.only_null

    def chosen(self, files: Chosen) -> Bounds:
        """What is known of some of the files."""
        return Bounds(self.column, self.low[files], self.high[files], self.has_null[files], self.only_null[files])


@dataclass(frozen=True)
class Buckets:
    """For each file the bucket that its partition has of a column; `NO_BUCKET` where the column is null."""

    column: str
    number: int
    of_file: npt.NDArray[np.int64]

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Strike out the files of other buckets than those of the values that are asked for."""
        is_null = self.of_file == NO_BUCKET
        if len(tests.rows):
            allowed = tests.buckets(self.number)[:, self.of_file]  # a file of nulls has no values that are asked for
            has_values = np.array([points is not None for points in tests.points])
            answers[tests.rows] &= allowed & ~(is_null & has_values[:, None])
        answers[tests.null_rows] &= is_null
        answers[tests.filled_rows] &= ~is_null

    def chosen(self, files: Chosen) -> Buckets:
        """What is known of some of the files."""
        return Buckets(self.column, self.number, self.of_file[files])
