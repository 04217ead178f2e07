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

    entire: Mask
    more: Mask

    def lessened(self, where: Mask) -> Contribution:
        """Return the contribution after resets: points whose value is less than the previous one started again."""
        return Contribution(self.entire | (where & self.more), self.more & ~where)

    @property
    def known(self) -> Mask:
        """Return a mask of the points that contribute."""
        return self.entire | self.more


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
    """Classify points by their times. For decreased values, see `Contribution.lessened`."""
    names, time, start, cumulative = points.series, points.time, points.start, points.cumulative
    before = np.zeros(len(time), dtype=bool)
    before[1:] = (names[1:] == names[:-1]).all(axis=1) & (time[1:] - time[:-1] <= lookback)
    before &= cumulative
    started = (start > 0) & (start < time)
    anew = np.zeros(len(time), dtype=bool)
    anew[1:] = (start[1:] > 0) & (start[1:] != start[:-1]) & (start[1:] >= time[:-1])
    anew &= before
    first = np.flatnonzero(cumulative & ~before & started)
    new = np.zeros(len(time), dtype=bool)
    new[first] = (time[first] - start[first] <= lookback) | _was_reported_before(points, first, lookback)
    return Contribution(~cumulative | new | (anew & started), before & ~anew)


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
    heard = np.zeros(len(some), dtype=bool)
    begin, end = (moments[reports[place[several]] % len(moments)] for place in (first, last))
    heard[several] = end - begin >= SECOND
    return heard


def difference(values: npt.NDArray[np.generic], more: Mask) -> npt.NDArray[np.generic]:
    """Return values, less the previous one where `more` is set."""
    changed = values.copy()
    at = np.flatnonzero(more)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is NaN
        changed[at] = values[at] - values[at - 1]  # type: ignore[operator]
    return changed


def subtract_previous(histograms: Histograms, place: Ints, worth: Contribution) -> tuple[Histograms, Mask]:
    """Return the delta of each histogram of sorted points, and a mask of the points with a decreased bucket.

    `place` is the number of a point's histogram, or -1.
    """
    at = np.flatnonzero(worth.more & (place >= 0))
    now, before = histograms.chosen(place[at]), histograms.chosen(place[at - 1])
    pairs = np.concatenate((np.arange(len(at)), np.arange(len(at))))
    changes = now.beside(before.times(-1)).merged(pairs, len(at))
    fell = changes.lessened
    anew = np.zeros(len(place), dtype=bool)
    anew[at[fell]] = True
    rest = np.setdiff1d(np.arange(_histogram_count(histograms)), place[at[~fell]], assume_unique=True)
    good = np.flatnonzero(~fell)
    parts = [(rest, histograms.chosen(rest)), (place[at[good]], changes.chosen(good))]
    return type(histograms).placed(parts, _histogram_count(histograms)), anew


def _histogram_count(histograms: ExponentialHistograms | ExplicitHistograms) -> int:
    return histograms.owners if isinstance(histograms, ExplicitHistograms) else len(histograms.scale)
