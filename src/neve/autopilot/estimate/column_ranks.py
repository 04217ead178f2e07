"""Sampled column as ranks of its distinct values, and the bounds that simulated files have of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import BinaryType, StringType

from neve.autopilot.estimate.columns import ComparableValues, rank_values
from neve.predicate.comparable import find_successor
from neve.predicate.file_evidence import Bounds

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.sample import Tail
    from neve.predicate.compiled_filters import Positions, SortedLiterals

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
CHANCE_GAPS = 4.0  # gaps between the last sampled value and the last value that chance may explain
MOST_PIECES = 0.9
RARE_ROWS = 2.0  # rows of a value that a piece of the sample may lack by chance


@dataclass(frozen=True)
class SamplePieces:
    """The sample in some order, the start of each piece of it, and the table rows that each piece represents."""

    index: Numbers
    starts: npt.NDArray[np.intp]
    rows: Floats


@dataclass(frozen=True)
class RankedColumn:
    """The rank of each row's value (null: -1) and, for each distinct value, the share of rows up to it."""

    ranks: Numbers
    values: ComparableValues
    below: Floats
    upto: Floats
    null_share: float

    @classmethod
    def of(cls, kind: IcebergType, array: pa.Array, weights: Floats) -> RankedColumn:
        """Rank a column.

        NaN counts as null, because bounds leave it out.
        """
        known = ~array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        ranks = np.full(len(array), -1, dtype=np.int64)
        distinct, ranks[known] = rank_values(kind, array.filter(pa.array(known)))
        masses = np.bincount(ranks[known], weights=weights[known], minlength=len(distinct)).astype(np.float64)
        filled, every = float(masses.sum()), float(weights.sum())
        upto = masses.cumsum() / filled if filled else masses
        return cls(ranks, distinct, np.concatenate(([0.0], upto[:-1])), upto, 1 - filled / every if every else 0.0)

    def position(
        self, kind: IcebergType, cuts: SortedLiterals, length: int, tail: Tail | None = None
    ) -> PositionedColumn:
        """Return the positions of the values among the literals of queries.

        Text is cut to `length` characters, as bounds are (0: not cut).
        """
        places = low = high = cuts.places(self.values)
        if length and isinstance(kind, (StringType, BinaryType)):
            pairs = [_truncate_bounds(value, length, isinstance(kind, StringType)) for value in self.values]
            low = cuts.places([first for first, _last in pairs])
            high = np.array([cuts.highest if last is None else cuts.place(last) for _first, last in pairs], np.int64)
        return PositionedColumn(self, places, low, high, tail)


@dataclass(frozen=True)
class PositionedColumn:
    """A ranked column with the positions of the bounds of its values."""

    ranked: RankedColumn
    places: Positions  # of the values themselves
    low: Positions
    high: Positions
    tail: Tail | None = None  # the ends of the column whose rows are all in the sample

    def extend_to(self, low: int | None, high: int | None) -> PositionedColumn:
        """Return the column with the minimum and maximum of the whole table at its ends, if they are known."""
        lows, highs = self.low.copy(), self.high.copy()
        if len(lows) and low is not None:
            lows[0] = min(lows[0], low)
        if len(highs) and high is not None:
            highs[-1] = max(highs[-1], high)
        return replace(self, low=lows, high=highs)

    def bounds(self, column: str, pieces: SamplePieces, *, is_ordered: bool) -> Bounds:
        """Return the bounds of the files that pieces of the sample represent.

        They are wider than the bounds of the pieces themselves.
        """
        base, starts = self.ranked, pieces.starts
        ranks = base.ranks[pieces.index]
        sampled = np.diff(np.append(starts, len(ranks)))
        filled = np.add.reduceat((ranks >= 0).astype(np.int64), starts)
        is_empty = filled == 0
        may_have_null = (filled < sampled) | ((base.null_share > 0) & (sampled * base.null_share <= RARE_ROWS))
        if not len(base.upto):
            nowhere = np.zeros(len(starts), dtype=np.int64)
            return Bounds(column, nowhere, nowhere, may_have_null, is_empty)
        last = np.maximum.reduceat(ranks, starts)
        first = np.minimum.reduceat(np.where(ranks < 0, len(base.upto), ranks), starts)
        first, last = np.where(is_empty, 0, first), np.where(is_empty, 0, last)
        first, last = self._widen(first, last, np.maximum(filled, 1), pieces.rows, is_ordered=is_ordered)
        return Bounds(
            column=column,
            low=np.where(is_empty, self.low[0], self.low[first]),
            high=np.where(is_empty, self.high[-1], self.high[last]),
            has_null=may_have_null,
            only_null=is_empty & (sampled * (1 - base.null_share) > RARE_ROWS),
        )

    def _widen(
        self, first: Numbers, last: Numbers, sampled: Numbers, rows: Floats, *, is_ordered: bool
    ) -> tuple[Numbers, Numbers]:
        """Return the first and last value of files with `rows` rows, of which only some were sampled.

        Values of n rows that span a share s of all rows are about s/n apart: the next value is one gap away. If rows
        are not ordered by the column and a piece ends a few gaps before the column does, chance has cut it off: its
        file reaches as far as its many rows do. A value counts as reached when half of its rows are.
        """
        base = self.ranked
        low, high = base.below[first], base.upto[last]
        gap = (high - low) / sampled * np.clip(1 - sampled / rows, 0.0, 1.0)
        lower, upper = low - gap, high + gap
        if not is_ordered:
            end = np.minimum(np.log(2) / rows, 0.5)  # beyond this, a file is as likely to have no row as to have one
            lower = np.where(_ends_by_chance(low, gap), end, lower)
            upper = np.where(_ends_by_chance(1 - high, gap), 1 - end, upper)
        middle = (base.below + base.upto) / 2
        lowest, highest = self._between_tails()
        return (
            np.minimum(first, np.maximum(np.searchsorted(middle, lower, side="left"), lowest)),
            np.maximum(last, np.minimum(np.searchsorted(middle, upper, side="right") - 1, highest)),
        )

    def _between_tails(self) -> tuple[int, int]:
        """Return the first and last value outside the tails.

        A file reaches further only if a sampled row of it does.
        """
        if self.tail is None:
            return 0, len(self.low) - 1
        lowest = int(np.searchsorted(self.places, self.tail.low, side="right"))
        highest = int(np.searchsorted(self.places, self.tail.high, side="left")) - 1
        return lowest, highest


def _ends_by_chance(missing: Floats, gap: Floats) -> npt.NDArray[np.bool_]:
    """Return which pieces end before the column does by chance alone.

    The inputs are the share that each piece lacks and the gap in it. If nearly all pieces do, the layout is independent
    of the column. The few pieces that end even earlier are then chance as well, and there are more of them the more
    pieces there are.
    """
    by_chance: npt.NDArray[np.bool_] = missing <= CHANCE_GAPS * gap
    if by_chance.mean() < MOST_PIECES:
        return by_chance
    every: npt.NDArray[np.bool_] = missing <= (CHANCE_GAPS + np.log(len(gap))) * gap
    return every


def _truncate_bounds(value: bytes, length: int, is_text: bool) -> tuple[bytes, bytes | None]:
    """Return the bounds of a value: its prefix, and the first value after all values with that prefix."""
    begin = value.decode(errors="replace")[:length].encode() if is_text else value[:length]
    return (value, value) if begin == value else (begin, find_successor(begin))
