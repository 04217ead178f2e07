"""The tests of one column as intervals between its literals."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil, floor
from typing import TYPE_CHECKING
from uuid import UUID

import numpy as np
import numpy.typing as npt
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import DecimalType, StringType, UUIDType

from neve.autopilot.estimate.cuts import Cuts, Places
from neve.autopilot.estimate.plain import REAL, TEXT, Plain, plain, successor

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.types import IcebergType

    from neve.autopilot.workload import Test

Rows = npt.NDArray[np.intp]
NOTHING = (1, 0)


@dataclass(frozen=True)
class Ends:
    """A test with its literals as the column compares them; `low` and `high` hold unless they are none."""

    points: tuple[Plain, ...] = ()
    low: Plain | None = None
    high: Plain | None = None
    low_inclusive: bool = True
    high_inclusive: bool = True
    is_range: bool = False

    @property
    def literals(self) -> Iterable[Plain]:
        """All that values are compared with."""
        return (one for one in (*self.points, self.low, self.high) if one is not None)

    def within(self, cuts: Cuts) -> list[tuple[int, int]]:
        """The intervals of places whose values satisfy the test."""
        if not self.is_range:
            return [(place, place) for place in sorted({cuts.place(point) for point in self.points})] or [NOTHING]
        first, last = cuts.lowest, cuts.highest
        if self.low is not None:
            first = cuts.place(self.low) + (0 if self.low_inclusive else 1)
        if self.high is not None:
            last = cuts.place(self.high) - (0 if self.high_inclusive else 1)
        return [(first, last)]


def ends_of(test: Test, kind: IcebergType) -> Ends | None:
    """A test of a column of this type; none where its literals are no values of the column."""
    if test.kind == "range":
        return _range(test, kind)
    points = [plain(kind, value) for value in test.values]
    if not points or any(point is None for point in points):
        return None
    known = [point for point in points if point is not None]
    if test.kind == "prefix":
        [prefix] = known if len(known) == 1 else [None]
        if not isinstance(prefix, bytes):
            return None
        return Ends(low=prefix, high=successor(prefix), high_inclusive=False, is_range=True)
    # A fraction is equal to no whole number: nothing is to be read for it.
    return Ends(points=tuple(point for point in known if _fits(kind, point)))


def _range(test: Test, kind: IcebergType) -> Ends | None:
    low, high = (None if end is None else plain(kind, end) for end in (test.low, test.high))
    if (test.low is not None and low is None) or (test.high is not None and high is None):
        return None
    low_inclusive, high_inclusive = test.low_inclusive, test.high_inclusive
    if low is not None and not _fits(kind, low):
        low, low_inclusive = ceil(low), True  # type: ignore[arg-type]
    if high is not None and not _fits(kind, high):
        high, high_inclusive = floor(high), True  # type: ignore[arg-type]
    return Ends((), low, high, low_inclusive, high_inclusive, is_range=True)


def _fits(kind: IcebergType, point: Plain) -> bool:
    return isinstance(kind, (*TEXT, *REAL)) or isinstance(point, int)


@dataclass(frozen=True)
class ColumnTests:
    """The tests of one column, by the rows that their answers have.

    `starts` says where the intervals of each test begin.
    """

    column: str
    kind: IcebergType
    cuts: Cuts
    rows: Rows
    low: Places
    high: Places
    starts: Rows
    points: tuple[tuple[Plain, ...] | None, ...]
    null_rows: Rows
    filled_rows: Rows
    _hashed: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    @classmethod
    def of(cls, column: str, kind: IcebergType, tests: Sequence[tuple[int, Test, Ends | None]]) -> ColumnTests:
        """Tests with their rows; those of nulls have no ends."""
        valued = [(row, ends) for row, _test, ends in tests if ends is not None]
        cuts = Cuts(literal for _row, ends in valued for literal in ends.literals)
        within = [ends.within(cuts) for _row, ends in valued]
        flat = np.array([pair for pairs in within for pair in pairs], dtype=np.int64).reshape(-1, 2)
        sizes = np.array([len(pairs) for pairs in within], dtype=np.intp)
        return cls(
            column=column,
            kind=kind,
            cuts=cuts,
            rows=_rows(row for row, _ends in valued),
            low=flat[:, 0],
            high=flat[:, 1],
            starts=np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.intp) if len(sizes) else _rows(()),
            points=tuple(None if ends.is_range else ends.points for _row, ends in valued),
            null_rows=_rows(row for row, test, ends in tests if ends is None and test.kind == "is_null"),
            filled_rows=_rows(row for row, test, ends in tests if ends is None and test.kind == "not_null"),
        )

    def buckets(self, number: int) -> npt.NDArray[np.bool_]:
        """Which of so many buckets each test with values may find them in; a range may be in any."""
        if number in self._hashed:
            return self._hashed[number]
        allowed = np.ones((len(self.points), number), dtype=bool)
        bucket = BucketTransform(number).transform(self.kind)
        for row, points in enumerate(self.points):
            if points is not None:
                allowed[row] = False
                numbers = [bucket(_native(self.kind, point)) for point in points]
                allowed[row, np.array([number for number in numbers if number is not None], dtype=np.intp)] = True
        self._hashed[number] = allowed
        return allowed


def _rows(rows: Iterable[int]) -> Rows:
    return np.array(list(rows), dtype=np.intp)


def _native(kind: IcebergType, point: Plain) -> object:
    """A value as Iceberg's transforms take it."""
    if isinstance(kind, StringType) and isinstance(point, bytes):
        return point.decode(errors="replace")
    if isinstance(kind, UUIDType) and isinstance(point, bytes):
        return UUID(bytes=point)
    if isinstance(kind, DecimalType) and isinstance(point, int):
        return Decimal(point).scaleb(-kind.scale)
    return point
