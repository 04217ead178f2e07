"""Numbers of changes and counter resets in a range."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.promql.functions.histogram_rates import is_reset
from neve.promql.functions.resets import StartTimes, find_resets
from neve.promql.histograms.native import Histogram
from neve.promql.selectors import RangeVector, select_range
from neve.promql.windows import latest_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Call
    from neve.promql.matrix import Matrix, Value
    from neve.promql.series import Bools, Integers, Samples

__all__ = ["FUNCTIONS"]

_Point = tuple[int, "float | Histogram", int]


def _find_changes(samples: Samples) -> Integers:
    """Return the indexes of float samples that differ from the sample before. NaN equals NaN."""
    before, now = samples.values[:-1], samples.values[1:]
    found: Integers = np.flatnonzero((before != now) & ~(np.isnan(before) & np.isnan(now))) + 1
    return found


def _first_samples(vector: RangeVector) -> tuple[Integers, Bools]:
    """Return the first sample of each window and whether it counts: an anchored range begins before its start."""
    windows = vector.floats
    if not vector.is_anchored:
        return windows.low, windows.counts > 0
    anchors = latest_index(windows.samples, vector.starts)
    return np.maximum(windows.low, anchors), windows.high > np.maximum(anchors + 1, windows.low)


def _count(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    starts = StartTimes(evaluator.annotations, evaluator.options.uses_start_times and call.function == "resets")
    samples = vector.floats.samples
    flagged = find_resets(samples, starts) if call.function == "resets" else _find_changes(samples)
    low, present = _first_samples(vector)
    last = np.searchsorted(flagged, vector.floats.high - 1, side="right")
    values = (last - np.searchsorted(flagged, low, side="right")).astype(np.float64)
    if vector.histograms is not None:
        present = present.copy()
        for row, column in np.argwhere(vector.histograms.counts > 0).tolist():
            points = _merge(vector, row, column)
            present[row, column] = bool(points)
            pairs = range(1, len(points))
            compare = _has_reset if call.function == "resets" else _has_changed
            values[row, column] = sum(compare(points, index, starts) for index in pairs)
    return vector.result(values, present)


def _merge(vector: RangeVector, row: int, column: int) -> list[_Point]:
    """Return floats and histograms of a window in order of time."""
    floats: list[_Point] = list(zip(*vector.window_floats(row, column), strict=True))
    histograms: list[_Point] = list(zip(*vector.window_histograms(row, column), strict=True))
    points = sorted([*floats, *histograms], key=lambda one: one[0])
    if not vector.is_anchored:
        return points
    before = [one for one in points if one[0] <= int(vector.starts[column])]
    after = points[len(before) :]
    return [*before[-1:], *after] if after else []


def _has_reset(points: list[_Point], index: int, starts: StartTimes) -> bool:
    before, now = points[index - 1], points[index]
    if isinstance(before[1], Histogram) and isinstance(now[1], Histogram):
        return is_reset([(one[0], one[1], one[2]) for one in points], index, starts)  # type: ignore[misc]  # two histograms
    if isinstance(before[1], Histogram) or isinstance(now[1], Histogram):
        return True
    return now[1] < before[1]


def _has_changed(points: list[_Point], index: int, _starts: StartTimes) -> bool:
    before, now = points[index - 1][1], points[index][1]
    if isinstance(before, Histogram) and isinstance(now, Histogram):
        return not now.equals(before)
    if isinstance(before, Histogram) or isinstance(now, Histogram):
        return True
    return now != before and not (np.isnan(now) and np.isnan(before))


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {"changes": _count, "resets": _count}
