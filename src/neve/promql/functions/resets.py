"""Counter resets between neighbouring samples, from values and from start times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from neve.promql.annotations import Annotations
    from neve.promql.selectors import RangeVector
    from neve.promql.series import Bools, Integers, Samples

__all__ = ["StartTimes", "find_resets", "is_start_reset"]


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Use of start times in a function."""

    annotations: Annotations
    is_used: bool

    def note_overlaps(self, vector: RangeVector, windows: Bools) -> None:
        """Warn about windows with a sample that starts before the previous sample."""
        samples = vector.floats.samples
        if not self.is_used or samples.start_times is None or len(samples) < 2:
            return
        start, before = samples.start_times[1:], samples.start_times[:-1]
        overlaps = (start != 0) & (start < samples.times[:-1]) & (start != before)
        flagged = np.flatnonzero(overlaps & _same_series(samples)) + 1
        low, high = vector.floats.low, vector.floats.high
        counts = np.searchsorted(flagged, high - 1, side="right") - np.searchsorted(flagged, low, side="right")
        affected = ((counts > 0) & windows).sum(axis=1)
        for row in np.flatnonzero(affected).tolist():
            self.annotations.add_overlap(vector.metric(row), int(affected[row]), vector.span)


def _same_series(samples: Samples) -> Bools:
    """Return which samples, from the second, belong to the series of the sample before."""
    same = np.ones(max(len(samples) - 1, 0), np.bool_)
    firsts = samples.bounds[1:-1]
    firsts = firsts[(firsts > 0) & (firsts < len(samples))]
    same[firsts - 1] = False
    return same


def find_resets(samples: Samples, starts: StartTimes) -> Integers:
    """Return the indexes of float samples before which the counter was reset."""
    if len(samples) < 2:
        return np.empty(0, np.int64)
    dropped = samples.values[1:] < samples.values[:-1]
    if starts.is_used and samples.start_times is not None:
        before, now = samples.start_times[:-1], samples.start_times[1:]
        dropped = dropped | is_start_reset(before, samples.times[:-1], now, samples.times[1:])
    found: Integers = np.flatnonzero(dropped & _same_series(samples)) + 1
    return found


def is_start_reset(before_start: Integers, before_ms: Integers, start: Integers, now_ms: Integers) -> Bools:
    """Return whether a sample's start time shows a reset since the sample before it."""
    is_known = (start != 0) & (start < now_ms)
    is_adjacent = (start == before_ms) & (before_start <= before_ms) & (before_start != 0) & (before_start != before_ms)
    found: Bools = is_known & ((start > before_ms) | is_adjacent)
    return found
