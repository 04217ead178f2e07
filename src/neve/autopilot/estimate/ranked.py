"""A sampled column as ranks of its distinct values, with where each of them lies among the literals of queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyiceberg.types import BinaryType, StringType

from neve.autopilot.estimate.bounds import Bounds
from neve.autopilot.estimate.plain import Values, ranked_values, successor

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.cuts import Cuts, Places
    from neve.autopilot.estimate.tails import Tail

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
CHANCE = 4.0  # gaps that chance may leave between the last sampled value and the last one
MOSTLY = 0.9
RARE = 2.0  # rows of a kind that a piece of the sample may lack by chance


@dataclass(frozen=True)
class Pieces:
    """The sample in some order, where each piece of it begins, and how many rows of the table each stands for."""

    index: Numbers
    starts: npt.NDArray[np.intp]
    rows: Floats


@dataclass(frozen=True)
class Ranked:
    """The rank of each row's value (null: -1) and, of each distinct value, the share of rows up to it."""

    ranks: Numbers
    values: Values
    below: Floats
    upto: Floats
    null_share: float

    @classmethod
    def of(cls, kind: IcebergType, array: pa.Array, weights: Floats) -> Ranked:
        """Rank a column; what is no number counts as null, as bounds leave it out."""
        known = ~array.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        ranks = np.full(len(array), -1, dtype=np.int64)
        distinct, ranks[known] = ranked_values(kind, array.filter(pa.array(known)))
        masses = np.bincount(ranks[known], weights=weights[known], minlength=len(distinct)).astype(np.float64)
        filled, every = float(masses.sum()), float(weights.sum())
        upto = masses.cumsum() / filled if filled else masses
        return cls(ranks, distinct, np.concatenate(([0.0], upto[:-1])), upto, 1 - filled / every if every else 0.0)

    def placed(self, kind: IcebergType, cuts: Cuts, length: int, tail: Tail | None = None) -> Placed:
        """The values among the literals of queries, with text cut to `length` characters as bounds are (0: not)."""
        places = low = high = cuts.places(self.values)
        if length and isinstance(kind, (StringType, BinaryType)):
            pairs = [_cut(value, length, isinstance(kind, StringType)) for value in self.values]
            low = cuts.places([first for first, _last in pairs])
            high = np.array([cuts.highest if last is None else cuts.place(last) for _first, last in pairs], np.int64)
        return Placed(self, places, low, high, tail)


@dataclass(frozen=True)
class Placed:
    """A ranked column with the places that bounds of its values have."""

    ranked: Ranked
    places: Places  # of the values themselves
    low: Places
    high: Places
    tail: Tail | None = None  # the ends of the column whose rows are all in the sample

    def reaching(self, low: int | None, high: int | None) -> Placed:
        """The same, with the smallest and largest value of the whole table at its ends, where they are known."""
        lows, highs = self.low.copy(), self.high.copy()
        if len(lows) and low is not None:
            lows[0] = min(lows[0], low)
        if len(highs) and high is not None:
            highs[-1] = max(highs[-1], high)
        return replace(self, low=lows, high=highs)

    def bounds(self, column: str, pieces: Pieces, *, is_ordered: bool) -> Bounds:
        """The bounds of the files that pieces of the sample stand for, wider than those of the pieces themselves."""
        base, starts = self.ranked, pieces.starts
        ranks = base.ranks[pieces.index]
        sampled = np.diff(np.append(starts, len(ranks)))
        filled = np.add.reduceat((ranks >= 0).astype(np.int64), starts)
        is_empty = filled == 0
        may_have_null = (filled < sampled) | ((base.null_share > 0) & (sampled * base.null_share <= RARE))
        if not len(base.upto):
            nowhere = np.zeros(len(starts), dtype=np.int64)
            return Bounds(column, nowhere, nowhere, may_have_null, is_empty)
        last = np.maximum.reduceat(ranks, starts)
        first = np.minimum.reduceat(np.where(ranks < 0, len(base.upto), ranks), starts)
        first, last = np.where(is_empty, 0, first), np.where(is_empty, 0, last)
        first, last = self._widened(first, last, np.maximum(filled, 1), pieces.rows, is_ordered=is_ordered)
        return Bounds(
            column=column,
            low=np.where(is_empty, self.low[0], self.low[first]),
            high=np.where(is_empty, self.high[-1], self.high[last]),
            has_null=may_have_null,
            only_null=is_empty & (sampled * (1 - base.null_share) > RARE),
        )

    def _widened(
        self, first: Numbers, last: Numbers, sampled: Numbers, rows: Floats, *, is_ordered: bool
    ) -> tuple[Numbers, Numbers]:
        """The first and last value of files with so many rows, of which so few were sampled.

        Values of n rows that span a share s of all rows are about s/n apart: the next one is a gap away. Where rows
        are not ordered by the column and a piece ends a few gaps before the column does, chance has cut it off: its
        file reaches as far as its many rows do. A value counts as reached when half of its rows are.
        """
        base = self.ranked
        low, high = base.below[first], base.upto[last]
        gap = (high - low) / sampled * np.clip(1 - sampled / rows, 0.0, 1.0)
        lower, upper = low - gap, high + gap
        if not is_ordered:
            end = np.minimum(np.log(2) / rows, 0.5)  # beyond which a file has no row as often as not
            lower = np.where(_by_chance(low, gap), end, lower)
            upper = np.where(_by_chance(1 - high, gap), 1 - end, upper)
        middle = (base.below + base.upto) / 2
        lowest, highest = self._between_tails()
        return (
            np.minimum(first, np.maximum(np.searchsorted(middle, lower, side="left"), lowest)),
            np.maximum(last, np.minimum(np.searchsorted(middle, upper, side="right") - 1, highest)),
        )

    def _between_tails(self) -> tuple[int, int]:
        """The first and last value outside the tails: a file reaches further only where a sampled row of it does."""
        if self.tail is None:
            return 0, len(self.low) - 1
        lowest = int(np.searchsorted(self.places, self.tail.low, side="right"))
        highest = int(np.searchsorted(self.places, self.tail.high, side="left")) - 1
        return lowest, highest


def _by_chance(missing: Floats, gap: Floats) -> npt.NDArray[np.bool_]:
    """Which pieces end before the column does by chance alone, given the share that they lack and the gap in them.

    Where nearly all do, the layout has nothing to do with the column: the few that end yet earlier are chance as well,
    of which there is more the more pieces there are.
    """
    by_chance: npt.NDArray[np.bool_] = missing <= CHANCE * gap
    if by_chance.mean() < MOSTLY:
        return by_chance
    every: npt.NDArray[np.bool_] = missing <= (CHANCE + np.log(len(gap))) * gap
    return every


def _cut(value: bytes, length: int, is_text: bool) -> tuple[bytes, bytes | None]:
    """The bounds of a value: its beginning, and the first that comes after all with that beginning."""
    begin = value.decode(errors="replace")[:length].encode() if is_text else value[:length]
    return (value, value) if begin == value else (begin, successor(begin))
