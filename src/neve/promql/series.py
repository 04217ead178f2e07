"""Series and their samples, as the storage hands them over: flat arrays, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from neve.promql.budget import weigh_histogram
from neve.promql.histograms.native import Histogram
from neve.promql.labels import Labels, match_sets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher

__all__ = [
    "STALE",
    "Bools",
    "Floats",
    "Integers",
    "MemorySource",
    "Sample",
    "Samples",
    "SeriesSet",
    "SeriesSource",
    "build_series",
    "is_stale",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_STALE_BITS = np.uint64(0x7FF0000000000002)
STALE = float(np.array([_STALE_BITS]).view(np.float64)[0])  # the NaN that ends a series


def is_stale(values: Floats) -> Bools:
    """Return which values are stale marks, and not other NaNs."""
    marks: Bools = np.ascontiguousarray(values).view(np.uint64) == _STALE_BITS
    return marks


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of all series. Those of series i are at `bounds[i]` to `bounds[i + 1]`, in order of time.

    `values` are floats, or `Histogram` objects. `start_times` are 0 where they are unknown.
    """

    bounds: Integers
    times: Integers
    values: npt.NDArray[Any]
    start_times: Integers | None = None

    def __len__(self) -> int:
        return len(self.times)

    def select(self, wanted: Bools) -> Samples:
        """Return the samples for which `wanted` is true."""
        kept = np.concatenate(([0], np.cumsum(wanted)))
        starts = None if self.start_times is None else self.start_times[wanted]
        return Samples(kept[self.bounds], self.times[wanted], self.values[wanted], starts)


@dataclass(frozen=True, slots=True)
class SeriesSet:
    """Series in order of their labels, with float samples and histogram samples apart."""

    labels: list[Labels]
    floats: Samples
    histograms: Samples | None = None
    name_dropped: Bools | None = None  # series of a subquery whose name is to be removed

    def __len__(self) -> int:
        return len(self.labels)

    def count_samples(self) -> int:
        """Return the number of samples, for limits. Native histograms count by their buckets."""
        histograms = () if self.histograms is None else self.histograms.values
        return len(self.floats) + sum(weigh_histogram(one) for one in histograms)

    def without_stale(self) -> SeriesSet:
        """Return the series without stale marks."""
        floats, histograms = self.floats, self.histograms
        stale = is_stale(floats.values)
        if stale.any():
            floats = floats.select(~stale)
        if histograms is not None and len(histograms):
            ended = is_stale(np.array([one.sum for one in histograms.values]))
            histograms = histograms.select(~ended) if ended.any() else histograms
        return SeriesSet(self.labels, floats, histograms, self.name_dropped)


class SeriesSource(Protocol):
    """Port to the storage."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match, with their samples from `start_ms` to `end_ms`, both inclusive."""


Sample = tuple[int, float | Histogram, int]  # time in milliseconds, value, start time


def build_series(series: Sequence[tuple[Labels, Sequence[Sample]]]) -> SeriesSet:
    """Return series from plain samples, sorted by labels. For tests and small data."""
    ordered = sorted(series, key=lambda one: one[0])
    floats = [[one for one in samples if not isinstance(one[1], Histogram)] for _, samples in ordered]
    histograms = [[one for one in samples if isinstance(one[1], Histogram)] for _, samples in ordered]
    has_histograms = any(histograms)
    return SeriesSet(
        [labels for labels, _ in ordered],
        _build_samples(floats, np.float64),
        _build_samples(histograms, object) if has_histograms else None,
    )


class MemorySource:
    """Series in memory: the double of the storage."""

    def __init__(self) -> None:
        self._series: dict[Labels, list[Sample]] = {}

    def add(self, labels: Labels, samples: Sequence[Sample]) -> None:
        """Append samples to a series."""
        self._series.setdefault(labels, []).extend(samples)

    def samples(self, labels: Labels) -> Sequence[Sample]:
        """Return the samples of a series."""
        return self._series.get(labels, [])

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> SeriesSet:
        """Return the series that match."""
        found = []
        chosen = match_sets(list(self._series), matchers)
        for (labels, samples), is_match in zip(self._series.items(), chosen, strict=True):
            if is_match:
                found.append((labels, [one for one in samples if start_ms <= one[0] <= end_ms]))
        return build_series(found)


def _build_samples(groups: list[list[Sample]], kind: Any) -> Samples:
    flat = [one for group in groups for one in group]
    values = np.empty(len(flat), kind)
    for index, one in enumerate(flat):
        values[index] = one[1]
    starts = np.array([one[2] for one in flat], np.int64)
    return Samples(
        np.concatenate(([0], np.cumsum([len(group) for group in groups]))).astype(np.int64),
        np.array([one[0] for one in flat], np.int64),
        values,
        starts if starts.any() else None,
    )
