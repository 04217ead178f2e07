"""Histograms, many at once: base-2 exponential histograms, and histograms with explicit bounds.

Exponential histograms are merged across scales, explicit ones on their common bounds. Both give quantiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.model.series_identity import mix_bits
from neve.rollup.arrays import Groups, groups_of, order_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


UNSET = 2**40  # a scale that no histogram has
BEYOND_BUCKETS = np.int64(2**40)  # beyond every bucket


def bucket_of(values: npt.NDArray[np.float64], scale: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each positive value. The upper bound of a bucket is inclusive."""
    fraction, exponent = np.frexp(values)
    exponent = exponent.astype(np.int64)
    found = np.ceil(np.log2(values) * 2.0**scale).astype(np.int64) - 1
    # A logarithm may be rounded across a power of two: a value that is none is between 2^(e-1) and 2^e.
    lowest, highest = (exponent - 1) << scale, (exponent << scale) - 1
    return np.where(fraction == 0.5, lowest - 1, np.clip(found, lowest, highest))


def begin_of(index: npt.NDArray[Any], scale: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the exclusive lower bound of a bucket."""
    with np.errstate(over="ignore"):  # too large for a double: infinity
        begins: npt.NDArray[np.float64] = np.exp2(index / np.exp2(scale.astype(np.float64)))
    return begins


@dataclass(frozen=True)
class ExponentialHistograms:
    """Histograms, each with a scale and a zero bucket.

    Their buckets are a flat array with the number of each one's owner.
    """

    scale: npt.NDArray[np.int64]
    zero_count: npt.NDArray[np.int64]
    zero_threshold: npt.NDArray[np.float64]
    owner: npt.NDArray[np.int64]
    negative: npt.NDArray[np.bool_]
    index: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]

    @classmethod
    def none(cls, histograms: int) -> ExponentialHistograms:
        """Return empty histograms of a number of owners."""
        return cls(
            np.full(histograms, UNSET, dtype=np.int64),
            np.zeros(histograms, dtype=np.int64),
            np.zeros(histograms),
            *_no_buckets(),
        )

    @classmethod
    def of_values(cls, values: npt.NDArray[np.float64], scale: int) -> ExponentialHistograms:
        """Return a histogram for each single value."""
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

    def select(self, owners: npt.NDArray[np.int64]) -> ExponentialHistograms:
        """Return the histograms of some owners, each at most once, renumbered in the given order."""
        place = np.full(len(self.scale), -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return ExponentialHistograms(
            self.scale[owners],
            self.zero_count[owners],
            self.zero_threshold[owners],
            place[self.owner[mine]],
            self.negative[mine],
            self.index[mine],
            self.count[mine],
        )

    def multiply(self, factor: int) -> ExponentialHistograms:
        """Multiply every count. With -1, the histograms are subtracted."""
        return ExponentialHistograms(
            self.scale,
            self.zero_count * factor,
            self.zero_threshold,
            self.owner,
            self.negative,
            self.index,
            self.count * factor,
        )

    def at_most(self, scale: int) -> ExponentialHistograms:
        """Return the histograms at this scale or a coarser one."""
        coarser = np.where(self.scale == UNSET, UNSET, np.minimum(self.scale, scale))
        index = self.index >> (self.scale - coarser)[self.owner]
        return ExponentialHistograms(
            coarser, self.zero_count, self.zero_threshold, self.owner, self.negative, index, self.count
        )

    def merge(self, group: npt.NDArray[np.int64], groups: int) -> ExponentialHistograms:
        """Merge one histogram for each group of owners, as OpenTelemetry defines it. Empty buckets are dropped."""
        merged = ExponentialHistograms.none(groups)
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
        found = ExponentialHistograms(
            merged.scale,
            merged.zero_count,
            merged.zero_threshold,
            of_group[rows],
            negative[rows],
            index[rows],
            counts[there],
        )
        return found._absorb_near_zero() if merged.zero_threshold.any() else found

    def _absorb_near_zero(self) -> ExponentialHistograms:
        """Merge buckets that reach below the zero threshold into the zero bucket, which grows to their end."""
        scale = self.scale[self.owner]
        begin, end = begin_of(self.index, scale), begin_of(self.index + 1, scale)
        below = begin < self.zero_threshold[self.owner]
        threshold, zeros = self.zero_threshold.copy(), self.zero_count.copy()
        np.maximum.at(threshold, self.owner[below], end[below])
        below = begin < threshold[self.owner]
        np.add.at(zeros, self.owner[below], self.count[below])
        rest = ~below
        return ExponentialHistograms(
            self.scale, zeros, threshold, self.owner[rest], self.negative[rest], self.index[rest], self.count[rest]
        )

    @property
    def has_negative_count(self) -> npt.NDArray[np.bool_]:
        """Return a mask of histograms with a count below zero: more was subtracted than there was."""
        found = self.zero_count < 0
        found[self.owner[self.count < 0]] = True
        return found

    def concatenate(self, other: ExponentialHistograms) -> ExponentialHistograms:
        """Concatenate the histograms of both. Those of the other one are numbered after these."""
        return ExponentialHistograms(
            np.concatenate((self.scale, other.scale)),
            np.concatenate((self.zero_count, other.zero_count)),
            np.concatenate((self.zero_threshold, other.zero_threshold)),
            np.concatenate((self.owner, other.owner + len(self.scale))),
            np.concatenate((self.negative, other.negative)),
            np.concatenate((self.index, other.index)),
            np.concatenate((self.count, other.count)),
        )

    @classmethod
    def from_parts(
        cls, parts: Sequence[tuple[npt.NDArray[np.int64], ExponentialHistograms]], owners: int
    ) -> ExponentialHistograms:
        """Return the histograms of all parts, each at the position of its owner. No position is used twice."""
        all_of = cls.none(owners)
        for places, part in parts:
            all_of.scale[places] = part.scale
            all_of.zero_count[places] = part.zero_count
            all_of.zero_threshold[places] = part.zero_threshold
        flat = [
            [places[part.owner] for places, part in parts],
            *([getattr(part, name) for _, part in parts] for name in ("negative", "index", "count")),
        ]
        empty = _no_buckets()
        joined = (np.concatenate((nothing, *arrays)) for nothing, arrays in zip(empty, flat, strict=True))
        return cls(all_of.scale, all_of.zero_count, all_of.zero_threshold, *joined)

    def quantiles(self, wanted: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return a quantile of each histogram, or NaN for an empty one. The histograms must be merged."""
        value, count = self._sorted_buckets
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
    def _sorted_buckets(self) -> tuple[npt.NDArray[Any], ...]:
        """Return all buckets from the smallest values to the largest, including the zero buckets."""
        zeros = np.flatnonzero(self.zero_count)
        scale = self.scale[self.owner]
        to_middle = 2 / (1 + np.exp2(-np.exp2(-scale.astype(np.float64))))
        with np.errstate(over="ignore"):
            middle = np.minimum(begin_of(self.index, scale) * to_middle, np.finfo(np.float64).max)
        owner = np.concatenate((self.owner, zeros))
        place = np.concatenate(
            (np.where(self.negative, -self.index - BEYOND_BUCKETS, self.index + BEYOND_BUCKETS), np.zeros_like(zeros))
        )
        value = np.concatenate((np.where(self.negative, -middle, middle), np.zeros(len(zeros))))
        count = np.concatenate((self.count, self.zero_count[zeros]))
        order = order_by((owner, place))
        return value[order], count[order]


def _no_buckets() -> tuple[Any, ...]:
    whole = np.zeros(0, dtype=np.int64)
    return whole, np.zeros(0, dtype=bool), whole, whole


@dataclass(frozen=True)
class ExplicitHistograms:
    """Histograms with explicit bounds, as a flat array of buckets: owner, end (the last has none) and count."""

    owners: int
    owner: npt.NDArray[np.int64]
    end: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]

    @classmethod
    def none(cls, histograms: int) -> ExplicitHistograms:
        """Return empty histograms of a number of owners."""
        whole = np.zeros(0, dtype=np.int64)
        return cls(histograms, whole, np.zeros(0), whole)

    def select(self, owners: npt.NDArray[np.int64]) -> ExplicitHistograms:
        """Return the histograms of some owners, each at most once, renumbered in the given order."""
        place = np.full(self.owners, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return ExplicitHistograms(len(owners), place[self.owner[mine]], self.end[mine], self.count[mine])

    def multiply(self, factor: int) -> ExplicitHistograms:
        """Multiply every count. With -1, the histograms are subtracted."""
        return ExplicitHistograms(self.owners, self.owner, self.end, self.count * factor)

    def concatenate(self, other: ExplicitHistograms) -> ExplicitHistograms:
        """Concatenate the histograms of both. Those of the other one are numbered after these."""
        return ExplicitHistograms(
            self.owners + other.owners,
            np.concatenate((self.owner, other.owner + self.owners)),
            np.concatenate((self.end, other.end)),
            np.concatenate((self.count, other.count)),
        )

    @classmethod
    def from_parts(
        cls, parts: Sequence[tuple[npt.NDArray[np.int64], ExplicitHistograms]], owners: int
    ) -> ExplicitHistograms:
        """Return the histograms of all parts, each at the position of its owner. No position is used twice."""
        none = cls.none(owners)
        return cls(
            owners,
            np.concatenate((none.owner, *(places[part.owner] for places, part in parts))),
            np.concatenate((none.end, *(part.end for _, part in parts))),
            np.concatenate((none.count, *(part.count for _, part in parts))),
        )

    def merge(self, group: npt.NDArray[np.int64], groups: int) -> ExplicitHistograms:
        """Merge one histogram for each group of owners. Its buckets are in order, the last one without an end."""
        of_group = group[self.owner]
        end = self._common_ends(group, groups)
        order = order_by((of_group, end))
        of_group, end = of_group[order], end[order]
        same = groups_of((of_group, end))
        return ExplicitHistograms(
            groups, of_group[same.starts], end[same.starts], same.reduce(np.add, self.count[order])
        )

    @property
    def has_negative_count(self) -> npt.NDArray[np.bool_]:
        """Return a mask of histograms with a count below zero: more was subtracted than there was."""
        found = np.zeros(self.owners, dtype=bool)
        found[self.owner[self.count < 0]] = True
        return found

    def _common_ends(self, group: npt.NDArray[np.int64], groups: int) -> npt.NDArray[np.float64]:
        """Return the end of each bucket after removal of the bounds that not all histograms of its group have."""
        bounds = np.zeros(self.owners, dtype=np.uint64)
        np.add.at(
            bounds, self.owner, mix_bits((self.end + 0.0).view(np.uint64)) | np.uint64(1)
        )  # a bound of 0 counts too
        has = np.zeros(self.owners, dtype=bool)
        has[self.owner] = True
        least, most = np.full(groups, np.iinfo(np.uint64).max, dtype=np.uint64), np.zeros(groups, dtype=np.uint64)
        np.minimum.at(least, group[has], bounds[has])
        np.maximum.at(most, group[has], bounds[has])
        unlike = least < most
        if not unlike.any():
            return self.end
        of_group = group[self.owner]
        rows = np.flatnonzero(unlike[of_group])
        rows = rows[order_by((of_group[rows], self.owner[rows]))]
        ends = self.end.copy()
        for mine in _split_groups(rows, groups_of((of_group[rows],))):  # few groups: bounds change only with software
            ends[mine] = _coarsen(self.end[mine], self.owner[mine])
        return ends

    def quantiles(
        self,
        wanted: npt.NDArray[np.float64],
        least: npt.NDArray[np.float64],
        most: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """Return a quantile of each merged histogram, between the bounds of its bucket, or NaN if nothing is known."""
        begin = np.append(-np.inf, self.end[:-1])
        first = np.append(True, self.owner[1:] != self.owner[:-1])
        begin = np.where(first, np.where(self.end > 0, 0.0, self.end), begin)
        begin = np.where(first & ~np.isnan(least[self.owner]), least[self.owner], begin)
        endless = np.isinf(self.end)
        # Above the last bound, only the bound is known, unless the maximum is.
        highest = np.where(np.isnan(most[self.owner]), np.where(first, np.nan, begin), most[self.owner])
        begin = np.where(endless & first & np.isnan(least[self.owner]), np.nan, begin)
        end = np.where(endless, highest, self.end)
        totals = np.bincount(self.owner, self.count, self.owners).astype(np.int64)
        ends = np.cumsum(self.count)
        before = np.cumsum(totals) - totals
        rank = wanted * totals
        full = totals > 0
        full_buckets = np.flatnonzero(self.count > 0)
        # In whole numbers, so that a quantile does not depend on the preceding histograms. A rank of 0 is in the first
        # bucket.
        needed = before[full] + np.clip(np.ceil(rank[full]).astype(np.int64), 1, totals[full])
        bucket = full_buckets[np.searchsorted(ends[full_buckets], needed, side="left")]
        below = (ends - self.count)[bucket] - before[full]
        inside = (rank[full] - below) / self.count[bucket]
        found = np.full(self.owners, np.nan)
        found[full] = begin[bucket] + (end - begin)[bucket] * inside
        return found


def _split_groups(rows: npt.NDArray[np.int64], groups: Groups) -> list[npt.NDArray[np.int64]]:
    return np.split(rows, groups.starts[1:]) if len(rows) else []


def _coarsen(ends: npt.NDArray[np.float64], owner: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the ends of some histograms' buckets, each moved to the next end that all of them have."""
    common: set[float] | None = None
    for one in np.split(ends, np.flatnonzero(np.diff(owner)) + 1):
        common = set(one.tolist()) if common is None else common & set(one.tolist())
    bounds = np.array(sorted((common or set()) | {np.inf}))
    moved: npt.NDArray[np.float64] = bounds[np.searchsorted(bounds, ends, side="left")]
    return moved
