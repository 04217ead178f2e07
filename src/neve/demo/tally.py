"""A tally: measurements counted into buckets, export by export. Histograms of both kinds are made from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.span import Span
    from neve.demo.timeline import Exports, Floats, Ints


@dataclass(frozen=True, slots=True)
class Measured:
    """Durations, in the unit of the metric, of spans that one process has finished."""

    spans: Sequence[Span]
    ends: Ints
    values: Floats

    def within(self, exports: Exports) -> Measured:
        """Return those that ended while the process ran."""
        start, end = exports.process
        keep = np.flatnonzero((self.ends > start) & (self.ends <= end))
        return Measured([self.spans[i] for i in keep.tolist()], self.ends[keep], self.values[keep])


@dataclass(frozen=True, slots=True)
class Tally:
    """Per reported export: since when, at what time, counts by bucket, sum, extremes, and the slowest span's number."""

    starts: Ints
    times: Ints
    counts: Ints
    sums: Floats
    lows: Floats
    highs: Floats
    slowest: Ints


def measure(spans: Sequence[Span], nanos_per_unit: float) -> Measured:
    """Take the durations of spans."""
    ends = np.array([span.end for span in spans], dtype=np.int64)
    starts = np.array([span.start for span in spans], dtype=np.int64)
    return Measured(spans, ends, (ends - starts) / nanos_per_unit)


def tally(measured: Measured, buckets: Ints, width: int, exports: Exports, *, cumulative: bool) -> Tally:
    """Count measurements, already numbered by bucket, into the exports that report them.

    Cumulative exports repeat what was before them and begin with the first measurement; delta exports without a
    measurement are left out.
    """
    size = len(exports.times)
    slots = exports.slots(measured.ends)
    counts = np.bincount(slots * width + buckets, minlength=size * width).reshape(size, width).astype(np.int64)
    sums = total_by(slots, measured.values, size)
    lows, highs = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lows, slots, measured.values)
    np.maximum.at(highs, slots, measured.values)
    if cumulative:
        counts, sums = counts.cumsum(axis=0), sums.cumsum()
        lows, highs = np.minimum.accumulate(lows), np.maximum.accumulate(highs)
    told = np.flatnonzero(counts.sum(axis=1))
    starts = exports.starts(cumulative=cumulative)
    slowest = _slowest(slots, measured.values, size)
    return Tally(starts[told], exports.times[told], counts[told], sums[told], lows[told], highs[told], slowest[told])


def total_by(slots: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the values of each slot."""
    return np.bincount(slots, weights=values, minlength=size).astype(np.float64)


def open_at(spans: Sequence[Span], times: Ints) -> Ints:
    """Return how many of the spans were open at each of the instants."""
    begun = np.sort(np.array([span.start for span in spans], dtype=np.int64))
    done = np.sort(np.array([span.end for span in spans], dtype=np.int64))
    return (np.searchsorted(begun, times, "right") - np.searchsorted(done, times, "right")).astype(np.int64)


def _slowest(slots: Ints, values: Floats, size: int) -> Ints:
    """Return for each export the number of its largest measurement, or -1 where there is none."""
    order = np.lexsort((values, slots))
    slowest = np.full(size, -1, dtype=np.int64)
    slowest[slots[order]] = order
    return slowest
