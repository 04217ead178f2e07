"""Evidence about the files of a table: the values of a column that a partition or the bounds of a file allow."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import date
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DateType, StringType

from neve.predicate.comparable import (
    EPOCH_DAY,
    MICROS_TYPES,
    NANOS_TYPES,
    TEXT_TYPES,
    Comparable,
    find_successor,
    to_comparable,
)
from neve.predicate.compiled_filters import Answers, reduce_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.transforms import Transform
    from pyiceberg.types import IcebergType

    from neve.predicate.compiled_filters import ColumnTests, Evidence, FileSelection, Positions, SortedLiterals


PositionSpan = tuple[int, int]  # the positions of the first and the last value
HOUR_MICROS = 3_600_000_000  # microseconds


def find_span(
    transform: Transform[object, object], kind: IcebergType, value: object, cuts: SortedLiterals
) -> PositionSpan:
    """Return the positions of all values that the transform maps to `value`.

    Return all positions if that is unknown. A value has the form of Iceberg's metadata: days and hours are counted
    since 1970.
    """
    ends = _find_ends(transform, kind, value)
    if ends is None:
        return cuts.lowest, cuts.highest
    first, after = ends
    if after is None:
        return cuts.place(first), cuts.highest
    return cuts.place(first), max(cuts.place(first), cuts.below(after))


def _find_ends(
    transform: Transform[object, object], kind: IcebergType, value: object
) -> tuple[Comparable, Comparable | None] | None:
    """Return the first value, and the first value after the last one."""
    if isinstance(transform, IdentityTransform):
        return _single_value_range(to_comparable(kind, value))
    if isinstance(transform, TruncateTransform):
        return _prefix_range(transform.width, kind, to_comparable(kind, value))
    if not isinstance(value, (int, date)):
        return None
    number = (value - EPOCH_DAY).days if isinstance(value, date) else int(value)
    if isinstance(transform, HourTransform):
        return _time_range(kind, number * HOUR_MICROS, (number + 1) * HOUR_MICROS)
    days = _day_range(transform, number)
    if days is None:
        return None
    first, after = days
    return (
        (first, after)
        if isinstance(kind, DateType)
        else _time_range(kind, first * 24 * HOUR_MICROS, after * 24 * HOUR_MICROS)
    )


def _day_range(transform: Transform[object, object], number: int) -> tuple[int, int] | None:
    if isinstance(transform, DayTransform):
        return number, number + 1
    if isinstance(transform, MonthTransform):
        year, month = 1970 + number // 12, number % 12 + 1
        first = (date(year, month, 1) - EPOCH_DAY).days
        return first, first + monthrange(year, month)[1]
    if isinstance(transform, YearTransform):
        return (date(1970 + number, 1, 1) - EPOCH_DAY).days, (date(1971 + number, 1, 1) - EPOCH_DAY).days
    return None


def _time_range(kind: IcebergType, first: int, after: int) -> tuple[int, int] | None:
    if isinstance(kind, NANOS_TYPES):
        return first * 1000, after * 1000
    return (first, after) if isinstance(kind, MICROS_TYPES) else None


def _single_value_range(value: Comparable | None) -> tuple[Comparable, Comparable | None] | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value, value + b"\0"
    return (value, value + 1) if isinstance(value, int) else (value, nextafter(value, inf))


def _prefix_range(
    width: int, kind: IcebergType, value: Comparable | None
) -> tuple[Comparable, Comparable | None] | None:
    if isinstance(value, bytes) and isinstance(kind, TEXT_TYPES):
        length = len(value.decode(errors="replace")) if isinstance(kind, StringType) else len(value)
        # Text that is shorter than the width was not cut: it is the value itself.
        return (value, find_successor(value)) if length >= width else _single_value_range(value)
    if isinstance(value, int) and not isinstance(kind, (DateType, *MICROS_TYPES, *NANOS_TYPES)):
        return value, value + width
    return None


Mask = npt.NDArray[np.bool_]
NO_BUCKET = -1


@dataclass(frozen=True)
class Bounds:
    """The positions of a column's bounds in each file, whether the file has nulls, and whether it has only nulls.

    A file without statistics has the widest bounds and may have nulls: then no test rules it out.
    """

    column: str
    low: Positions
    high: Positions
    has_null: Mask
    only_null: Mask

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Rule out the files whose bounds don't overlap the tests."""
        if len(tests.rows):
            hits = (self.low <= tests.high[:, None]) & (self.high >= tests.low[:, None])
            answers[tests.rows] &= reduce_runs(hits, tests.starts, every=False) & ~self.only_null
        answers[tests.null_rows] &= self.has_null
        answers[tests.filled_rows] &= ~self.only_null

    def select(self, files: FileSelection) -> Bounds:
        """Return the bounds of some of the files."""
        return Bounds(self.column, self.low[files], self.high[files], self.has_null[files], self.only_null[files])


@dataclass(frozen=True)
class Buckets:
    """The bucket of a column in each file's partition; `NO_BUCKET` if the column is null."""

    column: str
    number: int
    of_file: npt.NDArray[np.int64]

    def answer(self, tests: ColumnTests, answers: Answers) -> None:
        """Rule out the files whose bucket contains no tested value."""
        is_null = self.of_file == NO_BUCKET
        if len(tests.rows):
            allowed = tests.buckets(self.number)[:, self.of_file]  # a file of nulls contains no tested value
            has_values = np.array([points is not None for points in tests.points])
            answers[tests.rows] &= allowed & ~(is_null & has_values[:, None])
        answers[tests.null_rows] &= is_null
        answers[tests.filled_rows] &= ~is_null

    def select(self, files: FileSelection) -> Buckets:
        """Return the buckets of some of the files."""
        return Buckets(self.column, self.number, self.of_file[files])


def build_partition_evidence(tests: ColumnTests, transform: Any, values: Sequence[object]) -> Evidence:
    """Return the evidence of partition values, one for each file, about their source column."""
    is_null = np.array([value is None for value in values], dtype=bool)
    if isinstance(transform, BucketTransform):
        numbers = [NO_BUCKET if value is None else value for value in values]
        return Buckets(tests.column, transform.num_buckets, np.array(numbers, dtype=np.int64))
    spans = {
        value: find_span(transform, tests.kind, value, tests.cuts)
        for value in dict.fromkeys(values)
        if value is not None
    }
    everything = (tests.cuts.lowest, tests.cuts.highest)
    ends = np.array([spans.get(value, everything) for value in values], dtype=np.int64).reshape(-1, 2)
    return Bounds(tests.column, ends[:, 0], ends[:, 1], is_null, is_null)
