"""Base-2 exponential histograms, many at once: counted, merged across scales, and asked for quantiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.rollup.groups import groups_of, order_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

UNSET = 2**40  # a scale that no histogram has
FAR = np.int64(2**40)  # beyond every bucket


def scale_for(relative_error: float) -> int:
    """The coarsest scale whose buckets' middles are within the error of everything in them.

    >>> scale_for(0.01), scale_for(0.02)
    (6, 5)
    """
    base = (1 + relative_error) / (1 - relative_error)
    return math.ceil(-math.log2(math.log2(base)))


def bucket_of(values: npt.NDArray[np.float64], scale: int) -> npt.NDArray[np.int64]:
    """The bucket of each positive value: the one that it is the end of, or lies in."""
    fraction, exponent = np.frexp(values)
    exponent = exponent.astype(np.int64)
    found = np.ceil(np.log2(values) * 2.0**scale).astype(np.int64) - 1
    # A logarithm may be rounded across a power of two: a value that is none lies between 2^(e-1) and 2^e.
    lowest, highest = (exponent - 1) << scale, (exponent << scale) - 1
    return np.where(fraction == 0.5, lowest - 1, np.clip(found, lowest, highest))


def begin_of(index: npt.NDArray[Any], scale: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """What a bucket's values are larger than."""
    with np.errstate(over="ignore"):  # no number is as large: infinity
        begins: npt.NDArray[np.float64] = np.exp2(index / np.exp2(scale.astype(np.float64)))
    return begins


@dataclass(frozen=True)
class Exponential:
    """Histograms, each with a scale and a zero bucket; their buckets lie flat, each with the number of its owner."""

    scale: npt.NDArray[np.int64]
    zero_count: npt.NDArray[np.int64]
    zero_threshold: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]
    negative: npt.NDArray[np.bool_]
    index: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]

    @classmethod
    def none(cls, histograms: int) -> Exponential:
        """No histogram at all for so many owners."""
        return cls(
            np.full(histograms, UNSET, dtype=np.int64),
            np.zeros(histograms, dtype=np.int64),
            np.zeros(histograms),
            *_nothing(),
        )

    @classmethod
    def counting(cls, values: npt.NDArray[np.float64], scale: int) -> Exponential:
        """A histogram for each single value."""
        owner = np.flatnonzero(values != 0)
        sizes = np.abs(values[owner])
        return cls(
            np.full(len(values), scale, dtype=np.int64),
            (values == 0).astype(np.int64),
            np.zeros(len(values)),
            owner,
            values[owner] < 0,
            bucket_of(sizes, scale),
            np.ones(len(owner), dtype=np.int64),
        )

    def chosen(self, owners: npt.NDArray[np.int64]) -> Exponential:
        """The histograms of some owners, each at most once, numbered anew in the given order."""
        place = np.full(len(self.scale), -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return Exponential(
            self.scale[owners],
            self.zero_count[owners],
            self.zero_threshold[owners],
            place[self.owner[mine]],
            self.negative[mine],
            self.index[mine],
            self.count[mine],
        )

    def times(self, factor: int) -> Exponential:
        """Every count multiplied: by -1, to be taken away."""
        return Exponential(
            self.scale,
            self.zero_count * factor,
            self.zero_threshold,
            self.owner,
            self.negative,
            self.index,
            self.count * factor,
        )

    def at_most(self, scale: int) -> Exponential:
        """The same at a scale that is no finer than this one."""
        coarser = np.where(self.scale == UNSET, UNSET, np.minimum(self.scale, scale))
        index = self.index >> (self.scale - coarser)[self.owner]
        return Exponential(coarser, self.zero_count, self.zero_threshold, self.owner, self.negative, index, self.count)

    def merged(self, group: npt.NDArray[np.int64], groups: int) -> Exponential:
        """One histogram for each group of owners, as the standard merges them; empty buckets are dropped."""
        merged = Exponential.none(groups)
        np.minimum.at(merged.scale, group, self.scale)
        np.add.at(merged.zero_count, group, self.zero_count)
        np.maximum.at(merged.zero_threshold, group, self.zero_threshold)
        of_group = group[self.owner]
        index = self.index >> (self.scale[self.owner] - merged.scale[of_group])
        order = order_by((of_group, self.negative, index))
        of_group, negative, index = of_group[order], self.negative[order], index[order]
        same = groups_of((of_group, negative, index))
        counts = same.reduce(np.add, self.count[order])
        there = np.flatnonzero(counts)
        rows = same.starts[there]
        found = Exponential(
            merged.scale,
            merged.zero_count,
            merged.zero_threshold,
            of_group[rows],
            negative[rows],
            index[rows],
            counts[there],
        )
        return found._with_zeros() if merged.zero_threshold.any() else found

    def _with_zeros(self) -> Exponential:
        """Buckets that reach below the zero threshold are part of the zero bucket, which grows to their end."""
        scale = self.scale[self.owner]
        begin, end = begin_of(self.index, scale), begin_of(self.index + 1, scale)
        below = begin < self.zero_threshold[self.owner]
        threshold, zeros = self.zero_threshold.copy(), self.zero_count.copy()
        np.maximum.at(threshold, self.owner[below], end[below])
        below = begin < threshold[self.owner]
        np.add.at(zeros, self.owner[below], self.count[below])
        rest = ~below
        return Exponential(
            self.scale, zeros, threshold, self.owner[rest], self.negative[rest], self.index[rest], self.count[rest]
        )

    @property
    def lessened(self) -> npt.NDArray[np.bool_]:
        """Which histograms have a count below zero: more was taken away than there was."""
        found = self.zero_count < 0
        found[self.owner[self.count < 0]] = True
        return found

    def beside(self, other: Exponential) -> Exponential:
        """The histograms of both, those of the other one numbered after these."""
        return Exponential(
            np.concatenate((self.scale, other.scale)),
            np.concatenate((self.zero_count, other.zero_count)),
            np.concatenate((self.zero_threshold, other.zero_threshold)),
            np.concatenate((self.owner, other.owner + len(self.scale))),
            np.concatenate((self.negative, other.negative)),
            np.concatenate((self.index, other.index)),
            np.concatenate((self.count, other.count)),
        )

    @classmethod
    def placed(cls, parts: Sequence[tuple[npt.NDArray[np.int64], Exponential]], owners: int) -> Exponential:
        """The histograms of all parts, each at its place among so many owners; no place is taken twice."""
        all_of = cls.none(owners)
        for places, part in parts:
            all_of.scale[places] = part.scale
            all_of.zero_count[places] = part.zero_count
            all_of.zero_threshold[places] = part.zero_threshold
        flat = [
            [places[part.owner] for places, part in parts],
            *([getattr(part, name) for _, part in parts] for name in ("negative", "index", "count")),
        ]
        empty = _nothing()
        joined = (np.concatenate((nothing, *arrays)) for nothing, arrays in zip(empty, flat, strict=True))
        return cls(all_of.scale, all_of.zero_count, all_of.zero_threshold, *joined)

    def quantiles(self, wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """A wanted quantile of each histogram; NaN where it is empty. The histograms must be merged ones."""
        value, count = self._in_order
        totals = np.bincount(self.owner, self.count, len(self.scale)).astype(np.int64) + self.zero_count
        ends = np.cumsum(count)
        before = np.cumsum(totals) - totals
        rank = np.floor(wanted * (totals - 1)).astype(np.int64)
        there = np.searchsorted(ends, before + rank, side="right")
        full = totals > 0
        found = np.full(len(self.scale), np.nan)
        found[full] = value[there[full]]
        return found

    @cached_property
    def _in_order(self) -> tuple[npt.NDArray[Any], ...]:
        """All buckets from the smallest values to the largest, the zero buckets among them."""
        zeros = np.flatnonzero(self.zero_count)
        scale = self.scale[self.owner]
        to_middle = 2 / (1 + np.exp2(-np.exp2(-scale.astype(np.float64))))
        with np.errstate(over="ignore"):
            middle = np.minimum(begin_of(self.index, scale) * to_middle, np.finfo(np.float64).max)
        owner = np.concatenate((self.owner, zeros))
        place = np.concatenate((np.where(self.negative, -self.index - FAR, self.index + FAR), np.zeros_like(zeros)))
        value = np.concatenate((np.where(self.negative, -middle, middle), np.zeros(len(zeros))))
        count = np.concatenate((self.count, self.zero_count[zeros]))
        order = order_by((owner, place))
        return value[order], count[order]


def _nothing() -> tuple[Any, ...]:
    whole = np.zeros(0, dtype=np.int64)
    return whole, np.zeros(0, dtype=bool), whole, whole
