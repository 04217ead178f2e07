"""Histograms with explicit bounds, many at once, merged on the bounds that they have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.rollup.groups import Groups, groups_of, order_by
from neve.rollup.series import mixed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(frozen=True)
class Explicit:
    """Buckets that lie flat: whose each is, where it ends (the last one nowhere), and its count."""

    owners: int
    owner: npt.NDArray[np.int64]
    end: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]

    @classmethod
    def none(cls, histograms: int) -> Explicit:
        """No histogram at all for so many owners."""
        whole = np.zeros(0, dtype=np.int64)
        return cls(histograms, whole, np.zeros(0), whole)

    def chosen(self, owners: npt.NDArray[np.int64]) -> Explicit:
        """The histograms of some owners, each at most once, numbered anew in the given order."""
        place = np.full(self.owners, -1, dtype=np.int64)
        place[owners] = np.arange(len(owners))
        mine = place[self.owner] >= 0
        return Explicit(len(owners), place[self.owner[mine]], self.end[mine], self.count[mine])

    def times(self, factor: int) -> Explicit:
        """Every count multiplied: by -1, to be taken away."""
        return Explicit(self.owners, self.owner, self.end, self.count * factor)

    def beside(self, other: Explicit) -> Explicit:
        """The histograms of both, those of the other one numbered after these."""
        return Explicit(
            self.owners + other.owners,
            np.concatenate((self.owner, other.owner + self.owners)),
            np.concatenate((self.end, other.end)),
            np.concatenate((self.count, other.count)),
        )

    @classmethod
    def placed(cls, parts: Sequence[tuple[npt.NDArray[np.int64], Explicit]], owners: int) -> Explicit:
        """The histograms of all parts, each at its place among so many owners; no place is taken twice."""
        none = cls.none(owners)
        return cls(
            owners,
            np.concatenate((none.owner, *(places[part.owner] for places, part in parts))),
            np.concatenate((none.end, *(part.end for _, part in parts))),
            np.concatenate((none.count, *(part.count for _, part in parts))),
        )

    def merged(self, group: npt.NDArray[np.int64], groups: int) -> Explicit:
        """One histogram for each group of owners; its buckets are in order, the last one without an end."""
        of_group = group[self.owner]
        end = self._common_ends(group, groups)
        order = order_by((of_group, end))
        of_group, end = of_group[order], end[order]
        same = groups_of((of_group, end))
        return Explicit(groups, of_group[same.starts], end[same.starts], same.reduce(np.add, self.count[order]))

    @property
    def lessened(self) -> npt.NDArray[np.bool_]:
        """Which histograms have a count below zero: more was taken away than there was."""
        found = np.zeros(self.owners, dtype=bool)
        found[self.owner[self.count < 0]] = True
        return found

    def _common_ends(self, group: npt.NDArray[np.int64], groups: int) -> npt.NDArray[np.float64]:
        """Where each bucket ends after the bounds that not all of its group have are gone."""
        bounds = np.zeros(self.owners, dtype=np.uint64)
        np.add.at(bounds, self.owner, mixed((self.end + 0.0).view(np.uint64)) | np.uint64(1))  # a bound of 0 counts too
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
        for mine in _each(rows, groups_of((of_group[rows],))):  # few: bounds change when software does
            ends[mine] = _coarsened(self.end[mine], self.owner[mine])
        return ends

    def quantiles(
        self,
        wanted: npt.NDArray[np.float64],
        least: npt.NDArray[np.float64],
        most: npt.NDArray[np.float64],
    ) -> npt.NDArray[np.float64]:
        """A wanted quantile of each merged histogram, between the bounds of its bucket; NaN where nothing is known."""
        begin = np.append(-np.inf, self.end[:-1])
        first = np.append(True, self.owner[1:] != self.owner[:-1])
        begin = np.where(first, np.where(self.end > 0, 0.0, self.end), begin)
        begin = np.where(first & ~np.isnan(least[self.owner]), least[self.owner], begin)
        endless = np.isinf(self.end)
        # Of what lies above the last bound no more is known than the bound, unless the maximum is.
        highest = np.where(np.isnan(most[self.owner]), np.where(first, np.nan, begin), most[self.owner])
        begin = np.where(endless & first & np.isnan(least[self.owner]), np.nan, begin)
        end = np.where(endless, highest, self.end)
        totals = np.bincount(self.owner, self.count, self.owners).astype(np.int64)
        ends = np.cumsum(self.count)
        before = np.cumsum(totals) - totals
        rank = wanted * totals
        full = totals > 0
        full_buckets = np.flatnonzero(self.count > 0)
        # In whole numbers, so that a quantile does not depend on the histograms that lie before it. A rank of 0 is in
        # the first bucket.
        needed = before[full] + np.clip(np.ceil(rank[full]).astype(np.int64), 1, totals[full])
        bucket = full_buckets[np.searchsorted(ends[full_buckets], needed, side="left")]
        below = (ends - self.count)[bucket] - before[full]
        inside = (rank[full] - below) / self.count[bucket]
        found = np.full(self.owners, np.nan)
        found[full] = begin[bucket] + (end - begin)[bucket] * inside
        return found


def _each(rows: npt.NDArray[np.int64], groups: Groups) -> list[npt.NDArray[np.int64]]:
    return np.split(rows, groups.starts[1:]) if len(rows) else []


def _coarsened(ends: npt.NDArray[np.float64], owner: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The ends of some histograms' buckets, each moved to the next one that all of them have."""
    common: set[float] | None = None
    for one in np.split(ends, np.flatnonzero(np.diff(owner)) + 1):
        common = set(one.tolist()) if common is None else common & set(one.tolist())
    bounds = np.array(sorted((common or set()) | {np.inf}))
    moved: npt.NDArray[np.float64] = bounds[np.searchsorted(bounds, ends, side="left")]
    return moved
