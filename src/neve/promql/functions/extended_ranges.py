"""Growth in `anchored` and `smoothed` ranges: exact between the edges, without extrapolation.

An anchored range begins with the last sample at or before its start. A smoothed one has interpolated values at both
edges.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.histograms.arithmetic import Combination, IncompatibleSchemas, add, has_reset, interpolate, subtract
from neve.promql.histograms.native import Histogram, ResetHint

if TYPE_CHECKING:
    from neve.promql.evaluator import Evaluator
    from neve.promql.matrix import Matrix
    from neve.promql.selectors import RangeVector

__all__ = ["extend_floats", "grow"]


@dataclass(frozen=True, slots=True)
class _Window:
    """Edges of a range, and the samples that count: `first` to `last`, both inclusive."""

    start_ms: int
    end_ms: int
    first: int
    last: int


def _place(times: list[int], start_ms: int, end_ms: int, *, is_smoothed: bool) -> _Window | None:
    """Return which samples count, or `None` if there are none in the range."""
    last = len(times) - 1
    first = max(0, bisect_right(times, start_ms, 0, last) - 1)
    if is_smoothed:
        last = bisect_left(times, end_ms, 0, last)
    if times[last] <= start_ms or (is_smoothed and times[first] > end_ms):
        return None
    return _Window(start_ms, end_ms, first, last)


def _interpolate(times: list[int], values: list[float], left: int, at_ms: int, *, is_counter: bool) -> float:
    low, high = values[left], values[left + 1]
    if is_counter and high < low:
        low = 0.0
    return low + (high - low) * (at_ms - times[left]) / (times[left + 1] - times[left])


def _edges(
    times: list[int], values: list[float], window: _Window, *, is_smoothed: bool, is_counter: bool
) -> tuple[float, float]:
    """Return the values at both edges."""
    left, right = values[window.first], values[window.last]
    if is_smoothed and times[window.first] < window.start_ms:
        left = _interpolate(times, values, window.first, window.start_ms, is_counter=is_counter)
    if is_smoothed and window.last > 0 and times[window.last] > window.end_ms:
        right = _interpolate(times, values, window.last - 1, window.end_ms, is_counter=is_counter)
    return left, right


def _inside(times: list[int], window: _Window) -> slice:
    first = window.first + (1 if times[window.first] <= window.start_ms else 0)
    last = window.last - (1 if times[window.last] >= window.end_ms else 0)
    return slice(first, last + 1)


def extend_floats(
    times: list[int], values: list[float], start_ms: int, end_ms: int, *, is_smoothed: bool
) -> tuple[list[int], list[float]]:
    """Return the samples of an extended range, with one at each edge."""
    window = _place(times, start_ms, end_ms, is_smoothed=is_smoothed)
    if window is None:
        return [], []
    left, right = _edges(times, values, window, is_smoothed=is_smoothed, is_counter=False)
    inside = _inside(times, window)
    return [start_ms, *times[inside], end_ms], [left, *values[inside], right]


def _grow_floats(
    times: list[int], values: list[float], window: _Window, *, is_smoothed: bool, is_counter: bool
) -> float:
    left, right = _edges(times, values, window, is_smoothed=is_smoothed, is_counter=is_counter)
    total, before = right - left, left
    if not is_counter:
        return total
    for value in (*values[_inside(times, window)], right):
        if value < before:
            total += before
        before = value
    return total


def grow(evaluator: Evaluator, vector: RangeVector, *, is_counter: bool, is_rate: bool) -> Matrix:
    """Return the growth in each window."""
    values, present = np.zeros(vector.shape), np.zeros(vector.shape, np.bool_)
    cells: list[tuple[int, int, Histogram]] = []
    counts, others = vector.floats.counts, vector.histogram_counts()
    for row, column in np.argwhere(counts + others > 0).tolist():
        if counts[row, column] and others[row, column]:
            evaluator.annotations.mixed_samples(vector.metric(row), vector.span)
        elif counts[row, column]:
            times, floats, _ = vector.window_floats(row, column)
            window = _place(times, *_range(vector, column), is_smoothed=vector.is_smoothed)
            if window is not None:
                grown = _grow_floats(times, floats, window, is_smoothed=vector.is_smoothed, is_counter=is_counter)
                values[row, column], present[row, column] = grown, True
        else:
            found = _grow_histograms(_Growth(evaluator, vector, row, is_counter), column)
            if found is not None:
                cells.append((row, column, found))
    if is_rate:
        values /= vector.range_ms / 1000
        cells = [(row, column, one.divide(vector.range_ms / 1000)) for row, column, one in cells]
    return vector.result(values, present, cells)


def _range(vector: RangeVector, column: int) -> tuple[int, int]:
    return int(vector.starts[column]), int(vector.ends[column])


@dataclass(frozen=True, slots=True)
class _Growth:
    """Growth of the histograms of one series, with its annotations."""

    evaluator: Evaluator
    vector: RangeVector
    row: int
    is_counter: bool

    def unwrap(self, found: Combination, *operations: str) -> Histogram:
        if found.is_reconciled:
            for operation in operations:
                self.evaluator.annotations.reconciled_buckets(operation, self.vector.span)
        return found.histogram

    def interpolate(self, times: list[int], histograms: list[Histogram], left: int, at_ms: int) -> Histogram:
        samples = histograms[left], times[left], histograms[left + 1], times[left + 1]
        found = interpolate(*samples, at_ms, is_counter=self.is_counter)
        return self.unwrap(found, "subtraction", "addition")

    def is_valid(self, histograms: list[Histogram]) -> bool:
        annotations, metric = self.evaluator.annotations, self.vector.metric(self.row)
        for one in histograms:
            if one.is_custom != histograms[0].is_custom:
                annotations.mixed_schemas(metric, self.vector.span)
                return False
            if self.is_counter and one.hint is ResetHint.GAUGE:
                annotations.not_counter(metric, self.vector.span)
        return True


def _grow_histograms(growth: _Growth, column: int) -> Histogram | None:
    vector = growth.vector
    times, histograms, _ = vector.window_histograms(growth.row, column)
    window = _place(times, *_range(vector, column), is_smoothed=vector.is_smoothed)
    if window is None or not growth.is_valid(histograms[window.first : window.last + 1]):
        return None
    try:
        return _subtract_edges(growth, times, histograms, window)
    except IncompatibleSchemas:
        growth.evaluator.annotations.mixed_schemas(vector.metric(growth.row), vector.span)
        return None


def _subtract_edges(growth: _Growth, times: list[int], histograms: list[Histogram], window: _Window) -> Histogram:
    vector = growth.vector
    left, right = histograms[window.first], histograms[window.last]
    is_cut = vector.is_smoothed and times[window.first] < window.start_ms
    if is_cut:
        left = growth.interpolate(times, histograms, window.first, window.start_ms)
    if vector.is_smoothed and window.last > 0 and times[window.last] > window.end_ms:
        right = growth.interpolate(times, histograms, window.last - 1, window.end_ms)
    if not growth.is_counter and not left.hint is right.hint is ResetHint.GAUGE:
        growth.evaluator.annotations.not_gauge(vector.metric(growth.row), vector.span)
    result = growth.unwrap(subtract(right, left), "subtraction")
    if growth.is_counter:
        first, before = window.first + 1, left
        if is_cut and has_reset(histograms[first], histograms[window.first]):
            first, before = first + 1, histograms[first]
        if first <= window.last:
            for one in (*histograms[first : window.last], right):
                if has_reset(one, before):
                    result = growth.unwrap(add(result, before), "addition")
                before = one
    return result.with_hint(ResetHint.GAUGE).compact()
