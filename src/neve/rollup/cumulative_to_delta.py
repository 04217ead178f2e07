"""Convert cumulative points to deltas: the increase since the previous point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from neve.rollup.histograms import ExplicitHistograms, ExponentialHistograms

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

Histograms = TypeVar("Histograms", ExponentialHistograms, ExplicitHistograms)


@dataclass(frozen=True)
class Contribution:
    """Contribution of points, sorted by series and time: their full value, or the increase since the previous one.

    Points that are neither have an unknown past and contribute nothing.
    """

    is_total: Mask
    is_increase: Mask

    def reset_where(self, where: Mask) -> Contribution:
        """Return the contribution after resets: points whose value is less than the previous one started again."""
        return Contribution(self.is_total | (where & self.is_increase), self.is_increase & ~where)

    @property
    def is_known(self) -> Mask:
        """Return a mask of the points that contribute."""
        return self.is_total | self.is_increase


SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class PointTimes:
    """Times and start times of points in nanoseconds, and the metric of each.

    They are sorted by series and time.
    """

    series: npt.NDArray[np.uint64]
    metric: npt.NDArray[np.uint64]
    time: Ints
    start: Ints
    cumulative: Mask


def classify_points(points: PointTimes, lookback: int) -> Contribution:
    """Classify points by their times. For decreased values, see `Contribution.reset_where`."""
    names, time, start, cumulative = points.series, points.time, points.start, points.cumulative
    before = np.zeros(len(time), dtype=bool)
    before[1:] = (names[1:] == names[:-1]).all(axis=1) & (time[1:] - time[:-1] <= lookback)
    before &= cumulative
    started = (start > 0) & (start < time)
    is_reset = np.zeros(len(time), dtype=bool)
    is_reset[1:] = (start[1:] > 0) & (start[1:] != start[:-1]) & (start[1:] >= time[:-1])
    is_reset &= before
    first = np.flatnonzero(cumulative & ~before & started)
    new = np.zeros(len(time), dtype=bool)
    new[first] = (time[first] - start[first] <= lookback) | _was_reported_before(points, first, lookback)
    return Contribution(~cumulative | new | (is_reset & started), before & ~is_reset)


def _was_reported_before(points: PointTimes, some: Ints, lookback: int) -> Mask:
    """Return whether other series of the metrics of some points were reported twice within the look-back.

    A source reports all series of a cumulative metric each time: a series that was missing was at zero. One report is
    not enough, as two series that were running before may be received for the first time one after the other.
    """
    if not len(some):
        return np.zeros(0, dtype=bool)
    _, metric = np.unique(points.metric, return_inverse=True)
    moments, rank = np.unique(points.time, return_inverse=True)
    reports = np.sort((metric * len(moments) + rank)[points.cumulative])
    earliest = np.searchsorted(moments, points.time[some] - lookback, side="left")
    latest = np.searchsorted(moments, points.time[some] - SECOND, side="right") - 1
    mine = metric[some] * len(moments)
    first = np.searchsorted(reports, mine + earliest, side="left")
    last = np.searchsorted(reports, mine + latest, side="right") - 1
    several = np.flatnonzero(first < last)
    was_reported = np.zeros(len(some), dtype=bool)
    begin, end = (moments[reports[place[several]] % len(moments)] for place in (first, last))
    was_reported[several] = end - begin >= SECOND
    return was_reported


def difference(values: npt.NDArray[np.generic], is_increase: Mask) -> npt.NDArray[np.generic]:
    """Return values, less the previous one where `is_increase` is set."""
    changed = values.copy()
    at = np.flatnonzero(is_increase)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        changed[at] = values[at] - values[at - 1]  # type: ignore[operator]
    return changed


def subtract_previous(histograms: Histograms, place: Ints, contribution: Contribution) -> tuple[Histograms, Mask]:
    """Return the delta of each histogram of sorted points, and a mask of the points with a decreased bucket.

    `place` is the number of a point's histogram, or -1.
    """
    at = np.flatnonzero(contribution.is_increase & (place >= 0))
    now, before = histograms.select(place[at]), histograms.select(place[at - 1])
    pairs = np.concatenate((np.arange(len(at)), np.arange(len(at))))
    changes = now.concatenate(before.multiply(-1)).merge(pairs, len(at))
    fell = changes.has_negative_count
    is_reset = np.zeros(len(place), dtype=bool)
    is_reset[at[fell]] = True
    rest = np.setdiff1d(np.arange(_histogram_count(histograms)), place[at[~fell]], assume_unique=True)
    good = np.flatnonzero(~fell)
    parts = [(rest, histograms.select(rest)), (place[at[good]], changes.select(good))]
    return type(histograms).from_parts(parts, _histogram_count(histograms)), is_reset


def _histogram_count(histograms: ExponentialHistograms | ExplicitHistograms) -> int:
    return histograms.owners if isinstance(histograms, ExplicitHistograms) else len(histograms.scale)
