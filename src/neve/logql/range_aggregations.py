"""Functions of the samples in each range: counts, rates, sums, quantiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from neve.lexical.matchers import MatchKind
from neve.logql.samples import check_errors
from neve.promql.labels import make_labels
from neve.promql.matrix import Matrix, empty_matrix
from neve.promql.windows import find_windows, iterate_positions, reduce_extreme, sum_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.logql.language.syntax import RangeAggregation
    from neve.logql.samples import SampleSet
    from neve.promql.budget import Budget
    from neve.promql.series import Bools, Floats, Integers
    from neve.promql.windows import Windows

__all__ = ["aggregate_ranges"]

_NANOS = 1e9


def aggregate_ranges(node: RangeAggregation, found: SampleSet, times_ns: Integers, budget: Budget) -> Matrix:
    """Return the value of a range aggregation at each time. Ranges are open on the left."""
    log_range = node.log_range
    ends = times_ns - log_range.offset_ns
    windows = find_windows(found.samples, ends - log_range.range_ns, ends, budget)
    budget.charge(windows.low.size)
    present: Bools = windows.counts > 0
    used = np.flatnonzero(present.any(axis=1)).tolist() if len(found.labels) else []
    check_errors(found.labels[row] for row in used)
    if node.operator == "absent_over_time":
        return _absent(node, present, len(times_ns))
    if not len(found.labels):
        return empty_matrix(len(times_ns))
    values = _compute(node, windows, ends, has_amounts=found.has_amounts)
    return Matrix(found.labels, values, present, None, np.zeros(len(found.labels), np.bool_)).mask(present)


def _absent(node: RangeAggregation, present: Bools, steps: int) -> Matrix:
    labels: dict[str, str] = {}
    for matcher in node.log_range.query.matchers:
        is_new = matcher.kind is MatchKind.EQUAL and matcher.name not in labels
        labels[matcher.name] = matcher.value if is_new else ""
    missing: Bools = np.ones((1, steps), np.bool_)
    if len(present):
        missing[0] = ~np.any(present, axis=0)
    result = Matrix([make_labels(labels)], np.ones((1, steps)), missing, None, np.zeros(1, np.bool_))
    return result.mask(result.present)


def _compute(node: RangeAggregation, windows: Windows, ends: Integers, *, has_amounts: bool) -> Floats:
    seconds = node.log_range.range_ns / _NANOS
    if node.operator == "count_over_time" or (node.operator == "rate" and node.log_range.unwrap is None):
        counts = sum_windows(windows) if has_amounts else windows.counts.astype(np.float64)
        return counts if node.operator == "count_over_time" else counts / seconds
    if node.operator in {"rate", "bytes_rate"}:
        return sum_windows(windows) / seconds
    if node.operator == "rate_counter":
        return _by_window(windows, lambda low, high, step: _rate(windows, low, high, int(ends[step]), seconds))
    if node.operator == "quantile_over_time":
        quantile = node.parameter or 0.0
        return _by_window(windows, lambda low, high, _step: _quantile(quantile, windows.samples.values[low:high]))
    return _REDUCTIONS[node.operator](windows)


def _average(windows: Windows) -> Floats:
    means: Floats = sum_windows(windows) / np.maximum(windows.counts, 1)
    overflowed = ~np.isfinite(means)
    if overflowed.any():
        slow = _by_window(windows, lambda low, high, _step: _mean(windows.samples.values[low:high]))
        means = np.where(overflowed, slow, means)
    return means


def _mean(values: Floats) -> float:
    """Return the mean of values whose sum overflows, or that are not all finite."""
    special = values[~np.isfinite(values)]
    return float(special.sum()) if len(special) else float((values / len(values)).sum())


def _variance(windows: Windows) -> Floats:
    """Return variances, by the running means of Welford."""
    size = windows.low.size
    counts, means, squares = np.zeros(size), np.zeros(size), np.zeros(size)
    values = windows.samples.values
    for chosen, places in iterate_positions(windows, (windows.counts > 0).ravel()):
        counts[chosen] += 1
        delta = values[places] - means[chosen]
        means[chosen] += delta / counts[chosen]
        squares[chosen] += delta * (values[places] - means[chosen])
    variances: Floats = (squares / np.maximum(counts, 1)).reshape(windows.low.shape)
    return variances


def _pick(windows: Windows, places: Integers) -> Floats:
    picked: Floats = windows.samples.values[np.clip(places, 0, max(len(windows.samples) - 1, 0))]
    return picked


_REDUCTIONS: dict[str, Callable[[Windows], Floats]] = {
    "bytes_over_time": sum_windows,
    "sum_over_time": sum_windows,
    "avg_over_time": _average,
    "max_over_time": lambda windows: reduce_extreme(windows, np.fmax),
    "min_over_time": lambda windows: reduce_extreme(windows, np.fmin),
    "stdvar_over_time": _variance,
    "stddev_over_time": lambda windows: np.sqrt(_variance(windows)),
    "first_over_time": lambda windows: _pick(windows, windows.low),
    "last_over_time": lambda windows: _pick(windows, windows.high - 1),
}


def _by_window(windows: Windows, reduce: Callable[[int, int, int], float]) -> Floats:
    """Return the result of a function for each window that has samples."""
    found = np.zeros(windows.low.shape)
    for row, step in np.argwhere(windows.counts > 0).tolist():
        low, high = int(windows.low[row, step]), int(windows.high[row, step])
        windows.budget.visit(high - low)
        found[row, step] = reduce(low, high, step)
    return found


def _quantile(quantile: float, values: Floats) -> float:
    if quantile < 0 or quantile > 1:
        return math.copysign(math.inf, quantile)
    ordered = np.sort(values)
    unknown = np.isnan(ordered)
    ordered = np.concatenate((ordered[unknown], ordered[~unknown]))  # NaN is the smallest
    rank = quantile * (len(ordered) - 1)
    low = math.floor(rank)
    high, weight = min(low + 1, len(ordered) - 1), rank - low
    return float(ordered[low] * (1 - weight) + ordered[high] * weight)


def _rate(windows: Windows, low: int, high: int, end_ns: int, seconds: float) -> float:
    """Return the rate of a counter, extrapolated to the edges of the range as in Prometheus."""
    if high - low < 2:
        return 0.0
    values, times = windows.samples.values[low:high], windows.samples.times[low:high]
    growth = float(values[-1] - values[0])
    before = np.concatenate(([0.0], values[:-1]))
    growth += float(before[values < before].sum())
    to_start = (int(times[0]) - (end_ns - int(seconds * _NANOS))) / _NANOS
    to_end = (end_ns - int(times[-1])) / _NANOS
    sampled = (int(times[-1]) - int(times[0])) / _NANOS
    if sampled == 0:
        return math.nan
    gap = sampled / (high - low - 1)
    to_start = gap / 2 if to_start >= gap * 1.1 else to_start
    if growth > 0 and values[0] >= 0:
        to_start = min(to_start, sampled * float(values[0]) / growth)
    to_end = gap / 2 if to_end >= gap * 1.1 else to_end
    return growth * ((sampled + to_start + to_end) / sampled) / seconds
