"""What each point is worth: of a cumulative one, what it has more than the one before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from neve.rollup.explicit import Explicit
from neve.rollup.exponential import Exponential

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Floats = npt.NDArray[np.float64]
    Mask = npt.NDArray[np.bool_]

Histograms = TypeVar("Histograms", Exponential, Explicit)


@dataclass(frozen=True)
class Worth:
    """For points sorted by series and time: which are worth all that they say, and which more than the one before.

    Those that are neither have an unknown past and are worth nothing.
    """

    entire: Mask
    more: Mask

    def lessened(self, where: Mask) -> Worth:
        """The same after some points turned out to have less than the one before: they began anew."""
        return Worth(self.entire | (where & self.more), self.more & ~where)

    @property
    def known(self) -> Mask:
        """Which are worth anything."""
        return self.entire | self.more


SECOND = 1_000_000_000  # nanoseconds


@dataclass(frozen=True)
class Timed:
    """When points of series were made and when their counting began, in nanoseconds; and of which metric they are.

    They are sorted by series and time.
    """

    series: npt.NDArray[np.uint64]
    metric: npt.NDArray[np.uint64]
    time: Ints
    start: Ints
    cumulative: Mask


def judge(points: Timed, lookback: int) -> Worth:
    """What times tell of the points; where a value fell, see `Worth.lessened`."""
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
    new[first] = (time[first] - start[first] <= lookback) | _heard_before(points, first, lookback)
    return Worth(~cumulative | new | (anew & started), before & ~anew)


def _heard_before(points: Timed, some: Ints, lookback: int) -> Mask:
    """Whether other series of the metrics of some points were told of twice within the look-back.

    A source tells all series of a cumulative metric each time: one that was not among them was at zero. One report is
    not enough, as two series that were running before may be first heard of one after the other.
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
    """Values, less the one before where that is asked for."""
    changed = values.copy()
    at = np.flatnonzero(more)
    with np.errstate(invalid="ignore"):  # from infinity to infinity: not a number
        changed[at] = values[at] - values[at - 1]  # type: ignore[operator]
    return changed


def taken_away(histograms: Histograms, place: Ints, worth: Worth) -> tuple[Histograms, Mask]:
    """What each histogram of sorted points is worth; and which of all points had a bucket less than before.

    `place` is the number of a point's histogram, or -1.
    """
    at = np.flatnonzero(worth.more & (place >= 0))
    now, before = histograms.chosen(place[at]), histograms.chosen(place[at - 1])
    pairs = np.concatenate((np.arange(len(at)), np.arange(len(at))))
    changes = now.beside(before.times(-1)).merged(pairs, len(at))
    fell = changes.lessened
    anew = np.zeros(len(place), dtype=bool)
    anew[at[fell]] = True
    rest = np.setdiff1d(np.arange(_number(histograms)), place[at[~fell]], assume_unique=True)
    good = np.flatnonzero(~fell)
    parts = [(rest, histograms.chosen(rest)), (place[at[good]], changes.chosen(good))]
    return type(histograms).placed(parts, _number(histograms)), anew


def _number(histograms: Exponential | Explicit) -> int:
    return histograms.owners if isinstance(histograms, Explicit) else len(histograms.scale)
