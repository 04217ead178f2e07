"""Aggregations over the samples of a range: the functions that end in `_over_time`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.promql.histograms.arithmetic import IncompatibleSchemas, combine_all
from neve.promql.quantile import quantile_of_columns
from neve.promql.selectors import RangeVector, select_range
from neve.promql.windows import Windows, iterate_positions, reduce_extreme, sum_windows, two_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.histograms.native import Histogram
    from neve.promql.language.syntax import Call
    from neve.promql.matrix import Matrix, Value
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["FUNCTIONS", "note_ignored"]

_CHUNK_CELLS = 4_000_000  # values that are sorted at once


def note_ignored(evaluator: Evaluator, vector: RangeVector, least_floats: int = 1) -> None:
    """Inform about windows whose histograms are ignored because there are floats."""
    if vector.histograms is None:
        return
    mixed = (vector.floats.counts >= least_floats) & (vector.histogram_counts() > 0)
    for row in np.flatnonzero(mixed.any(axis=1)).tolist():
        evaluator.annotations.ignored_in_range(vector.metric(row), vector.span)


def _floats_only(compute: Callable[[Windows, Bools], Floats]) -> Callable[[Evaluator, Call], Value]:
    """Return a function that ignores histograms."""

    def function(evaluator: Evaluator, call: Call) -> Matrix:
        vector = select_range(evaluator, call.arguments[-1])
        note_ignored(evaluator, vector)
        present = vector.floats.counts > 0
        return vector.result(compute(vector.floats, present), present)

    return function


def _total(evaluator: Evaluator, call: Call) -> Matrix:
    """Return sums or means of floats, or of histograms."""
    vector = select_range(evaluator, call.arguments[0])
    counts = vector.floats.counts
    values = sum_windows(vector.floats)
    if call.function == "avg_over_time":
        values = _mean(vector.floats, values)
    present = counts > 0
    cells: list[tuple[int, int, Histogram]] = []
    for row, column in np.argwhere(vector.histogram_counts() > 0).tolist():
        if present[row, column]:
            evaluator.annotations.mixed_samples(vector.metric(row), vector.span)
            continue
        found = _combine(evaluator, vector, row, column, is_average=call.function == "avg_over_time")
        if found is not None:
            cells.append((row, column, found))
    mixed = vector.histogram_counts() > 0
    return vector.result(values, present & ~mixed, cells)


def _mean(windows: Windows, sums: Floats) -> Floats:
    counts = np.maximum(windows.counts, 1)
    means: Floats = sums / counts
    for row, column in np.argwhere(~np.isfinite(sums)).tolist():
        low, high = int(windows.low[row, column]), int(windows.high[row, column])
        windows.budget.visit(len(windows.samples))
        single = Windows(windows.samples, np.array([[low]]), np.array([[high]]), windows.budget)
        means[row, column] = sum_windows(single, windows.samples.values / (high - low))[0, 0]
    return means


def _combine(evaluator: Evaluator, vector: RangeVector, row: int, column: int, *, is_average: bool) -> Histogram | None:
    _, histograms, _ = vector.window_histograms(row, column)
    try:
        found = combine_all(histograms, is_average=is_average)
    except IncompatibleSchemas:
        evaluator.annotations.mixed_schemas(vector.metric(row), vector.span)
        return None
    if found.has_collision:
        evaluator.annotations.reset_collision("aggregation", vector.span)
    if found.is_reconciled:
        evaluator.annotations.reconciled_buckets("aggregation", vector.span)
    return found.histogram


def _count(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    counts = vector.floats.counts + vector.histogram_counts()
    values = counts.astype(np.float64) if call.function == "count_over_time" else np.ones(counts.shape)
    return vector.result(values, counts > 0)


def _pick_edge(vector: RangeVector, *, is_first: bool) -> tuple[Integers, Bools, Bools]:
    """Return the index of the first or last sample, where it is a float, and where a histogram."""
    indexes, times = [], []
    for windows in (vector.floats, vector.histograms):
        if windows is None:
            continue
        index = windows.low if is_first else windows.high - 1
        moments = np.full(index.shape, np.iinfo(np.int64).max if is_first else np.iinfo(np.int64).min)
        there = windows.counts > 0
        moments[there] = windows.samples.times[index[there]]
        indexes.append(index)
        times.append(moments)
    is_float = vector.floats.counts > 0
    if vector.histograms is None:
        return indexes[0], is_float, np.zeros(is_float.shape, np.bool_)
    is_histogram = vector.histograms.counts > 0
    later = times[1] < times[0] if is_first else times[1] >= times[0]
    wins = is_histogram & (~is_float | later)
    return np.where(wins, indexes[1], indexes[0]), is_float & ~wins, wins


def _edge(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the first or last sample of each window."""
    vector = select_range(evaluator, call.arguments[0])
    index, floats, histograms = _pick_edge(vector, is_first=call.function == "first_over_time")
    values = np.zeros(vector.shape)
    values[floats] = vector.floats.samples.values[index[floats]]
    cells: list[tuple[int, int, Histogram]] = []
    if vector.histograms is not None:
        kept = vector.histograms.samples.values
        cells = [(row, column, kept[index[row, column]]) for row, column in np.argwhere(histograms).tolist()]
    return vector.result(values, floats, cells, keeps_name=True)


def _edge_time(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    index, floats, histograms = _pick_edge(vector, is_first=call.function == "ts_of_first_over_time")
    values = np.zeros(vector.shape)
    values[floats] = vector.floats.samples.times[index[floats]] / 1000
    if vector.histograms is not None:
        values[histograms] = vector.histograms.samples.times[index[histograms]] / 1000
    return vector.result(values, floats | histograms)


def _extreme_time(sign: float) -> Callable[[Windows, Bools], Floats]:
    """Return the function that finds the time of the last maximum (`sign` 1) or minimum (-1)."""

    def compute(windows: Windows, present: Bools) -> Floats:
        best = np.full(windows.counts.size, np.nan)
        times = np.zeros(windows.counts.size)
        for chosen, index in iterate_positions(windows, present.ravel()):
            values = windows.samples.values[index] * sign
            better = (values >= best[chosen]) | np.isnan(best[chosen])
            best[chosen[better]] = values[better]
            times[chosen[better]] = windows.samples.times[index[better]] / 1000
        return times.reshape(windows.counts.shape)

    return compute


def _variance(windows: Windows, present: Bools) -> Floats:
    """Return variances by Welford's method, with compensated sums."""
    size = windows.counts.size
    count, mean, mean_lost, squares, squares_lost = (np.zeros(size) for _ in range(5))
    for chosen, index in iterate_positions(windows, present.ravel()):
        values = windows.samples.values[index]
        count[chosen] += 1
        delta = values - (mean[chosen] + mean_lost[chosen])
        mean[chosen], lost = two_sum(mean[chosen], delta / count[chosen])
        mean_lost[chosen] += lost
        product = delta * (values - (mean[chosen] + mean_lost[chosen]))
        squares[chosen], lost = two_sum(squares[chosen], product)
        squares_lost[chosen] += lost
    found: Floats = ((squares + squares_lost) / np.maximum(count, 1)).reshape(windows.counts.shape)
    return found


def _columns(windows: Windows, chosen: Integers) -> tuple[Floats, Bools]:
    """Return the values of some windows as columns of one array, and where there are values."""
    low, counts = windows.low.ravel()[chosen], windows.counts.ravel()[chosen]
    places = np.arange(int(counts.max()))[:, None]
    mask = places < counts[None, :]
    values = windows.samples.values[np.minimum(low[None, :] + places, len(windows.samples) - 1)]
    return values, mask


def _in_chunks(windows: Windows, present: Bools, compute: Callable[[Floats, Bools, Integers], Floats]) -> Floats:
    """Return a function of each window's values, some windows at a time."""
    result = np.zeros(windows.counts.size)
    chosen = np.flatnonzero(present.ravel())
    if not len(chosen):
        return result.reshape(windows.counts.shape)
    longest = int(windows.counts.max())
    size = max(_CHUNK_CELLS // max(longest, 1), 1)
    for start in range(0, len(chosen), size):
        some = chosen[start : start + size]
        windows.budget.visit(len(some) * longest)
        result[some] = compute(*_columns(windows, some), some)
    return result.reshape(windows.counts.shape)


def _quantile(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[1])
    quantiles = evaluator.scalar(call.arguments[0]).values
    present = vector.floats.counts > 0
    steps = present.any(axis=0)
    for one in np.unique(quantiles[steps & ~((quantiles >= 0) & (quantiles <= 1))]).tolist():
        evaluator.annotations.invalid_quantile(one, call.arguments[0].span)
    if vector.histograms is not None:
        mixed = present & (vector.histogram_counts() > 0)
        for row in np.flatnonzero(mixed.any(axis=1)).tolist():
            evaluator.annotations.ignored_in_range(vector.metric(row), call.arguments[0].span)
    every = np.broadcast_to(quantiles, present.shape).ravel()
    values = _in_chunks(vector.floats, present, lambda cells, mask, some: quantile_of_columns(cells, mask, every[some]))
    return vector.result(values, present)


def _deviation(windows: Windows, present: Bools) -> Floats:
    """Return the median absolute deviation."""

    def compute(cells: Floats, mask: Bools, some: Integers) -> Floats:
        half = np.full(len(some), 0.5)
        medians = quantile_of_columns(cells, mask, half)
        found = quantile_of_columns(np.abs(cells - medians), mask, half)
        return np.where((mask & np.isnan(cells)).any(axis=0), np.nan, found)

    return _in_chunks(windows, present, compute)


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "avg_over_time": _total,
    "count_over_time": _count,
    "first_over_time": _edge,
    "last_over_time": _edge,
    "mad_over_time": _floats_only(_deviation),
    "max_over_time": _floats_only(lambda windows, _: reduce_extreme(windows, np.fmax)),
    "min_over_time": _floats_only(lambda windows, _: reduce_extreme(windows, np.fmin)),
    "present_over_time": _count,
    "quantile_over_time": _quantile,
    "stddev_over_time": _floats_only(lambda windows, present: np.sqrt(_variance(windows, present))),
    "stdvar_over_time": _floats_only(_variance),
    "sum_over_time": _total,
    "ts_of_first_over_time": _edge_time,
    "ts_of_last_over_time": _edge_time,
    "ts_of_max_over_time": _floats_only(_extreme_time(1.0)),
    "ts_of_min_over_time": _floats_only(_extreme_time(-1.0)),
}
