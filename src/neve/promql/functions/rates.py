"""Growth of counters and gauges: rate, increase, delta, irate, idelta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.functions import extended_ranges
from neve.promql.functions.histogram_rates import grow_histograms, instant_histograms
from neve.promql.functions.resets import StartTimes, find_resets
from neve.promql.labels import get
from neve.promql.language.syntax import METRIC_NAME, Call
from neve.promql.selectors import RangeVector, select_range
from neve.promql.series import Bools, Floats, Integers, Samples
from neve.promql.windows import Windows, sum_windows

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.histograms.native import Histogram
    from neve.promql.matrix import Matrix, Value

__all__ = ["FUNCTIONS", "Extent", "extrapolate", "note_names"]

_COUNTER_SUFFIXES = ("_total", "_sum", "_count", "_bucket")


@dataclass(frozen=True, slots=True)
class Extent:
    """First and last sample of windows, the number of gaps between samples, and the start time of the first sample."""

    first_ms: Integers
    last_ms: Integers
    gaps: Integers
    created_ms: Integers  # 0 where it is unknown
    is_created: Bools  # the series began inside of the window: it grew from zero


def extrapolate(
    extent: Extent, edges: tuple[Integers, Integers], base: Floats, growth: Floats, *, is_counter: bool
) -> Floats:
    """Return the factor from the growth between the samples to that in the whole range.

    The growth is extended to each edge of the range if a sample would be expected there, else by half a gap, and of a
    counter not below zero.
    """
    starts, ends = edges
    to_start, to_end = (extent.first_ms - starts) / 1000, (ends - extent.last_ms) / 1000
    sampled = (extent.last_ms - extent.first_ms) / 1000
    gap = np.divide(sampled, extent.gaps, out=np.zeros(sampled.shape), where=extent.gaps > 0)
    to_start = np.where(to_start >= gap * 1.1, gap / 2, to_start)
    if is_counter:
        usable = (growth > 0) & (base >= 0)
        to_zero = sampled * np.divide(base, growth, out=np.full(base.shape, np.inf), where=usable)
        to_start = np.where(usable & (to_zero < to_start), to_zero, to_start)
    to_start = np.where(extent.is_created, 0.0, to_start)
    sampled = np.where(extent.is_created, (extent.last_ms - extent.created_ms) / 1000, sampled)
    to_end = np.where(to_end >= gap * 1.1, gap / 2, to_end)
    return np.divide(sampled + to_start + to_end, sampled, out=np.ones(sampled.shape), where=sampled != 0)


def _measure(samples: Samples, low: Integers, high: Integers, starts: Integers, *, uses_starts: bool) -> Extent:
    first_ms, last_ms = samples.times[low], samples.times[high - 1]
    created = np.zeros(low.shape, np.int64)
    if uses_starts and samples.start_times is not None:
        created = samples.start_times[low]
    is_created = (created != 0) & (created > starts) & (created < first_ms)
    return Extent(first_ms, last_ms, high - low - 1, created, is_created)


def _grow(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the growth in each window, extrapolated to its edges."""
    vector = select_range(evaluator, call.arguments[0])
    is_counter, is_rate = call.function != "delta", call.function == "rate"
    if vector.is_anchored or vector.is_smoothed:
        result = extended_ranges.grow(evaluator, vector, is_counter=is_counter, is_rate=is_rate)
    else:
        result = _grow_plain(evaluator, vector, is_counter=is_counter, is_rate=is_rate)
    if is_counter:
        note_names(evaluator, call, result)
    return result


def _grow_plain(evaluator: Evaluator, vector: RangeVector, *, is_counter: bool, is_rate: bool) -> Matrix:
    mixed = note_mixed(evaluator, vector)
    uses_starts = evaluator.options.uses_start_times and is_counter
    starts = StartTimes(evaluator.annotations, uses_starts)
    values, present = np.zeros(vector.shape), np.zeros(vector.shape, np.bool_)
    growing = (vector.floats.counts > 0) & ~mixed
    edges = tuple(np.broadcast_to(one, vector.shape)[growing] for one in (vector.starts, vector.ends))
    if growing.any():
        values[growing], present[growing] = _grow_floats(vector, growing, starts, edges, is_counter=is_counter)
    cells: list[tuple[int, int, Histogram]] = []
    found = grow_histograms(evaluator, vector, mixed, starts, is_counter=is_counter)
    if found:
        cells = _extrapolate_cells(vector, found, is_counter=is_counter, uses_starts=uses_starts)
    if is_rate:
        values /= vector.range_ms / 1000
        cells = [(row, column, one.scale(1000 / vector.range_ms)) for row, column, one in cells]
    return vector.result(values, present, cells)


def _grow_floats(
    vector: RangeVector, growing: Bools, starts: StartTimes, edges: tuple[Integers, ...], *, is_counter: bool
) -> tuple[Floats, Bools]:
    samples = vector.floats.samples
    low, high = vector.floats.low[growing], vector.floats.high[growing]
    extent = _measure(samples, low, high, edges[0], uses_starts=starts.is_used)
    base = samples.values[low]
    growth = samples.values[high - 1] - base
    if is_counter:
        growth = growth + _lost_at_resets(vector, starts, growing)
    factor = extrapolate(extent, (edges[0], edges[1]), base, growth, is_counter=is_counter)
    growth = np.where(extent.is_created, growth + base, growth)
    return growth * factor, (extent.gaps > 0) | extent.is_created


def _lost_at_resets(vector: RangeVector, starts: StartTimes, growing: Bools) -> Floats:
    """Return the sum of the values before each reset of a window."""
    samples = vector.floats.samples
    resets = find_resets(samples, starts)
    starts.note_overlaps(vector, growing)
    low, high = vector.floats.low[growing], vector.floats.high[growing]
    if not len(resets):
        return np.zeros(len(low))
    first, last = np.searchsorted(resets, low, side="right"), np.searchsorted(resets, high - 1, side="right")
    lost = Samples(np.array([0, len(resets)]), samples.times[resets], samples.values[resets - 1])
    return sum_windows(Windows(lost, first.astype(np.int64), last.astype(np.int64), vector.floats.budget))


def _extrapolate_cells(
    vector: RangeVector, found: list[tuple[int, int, Histogram]], *, is_counter: bool, uses_starts: bool
) -> list[tuple[int, int, Histogram]]:
    windows = vector.histograms
    if windows is None:
        return []
    rows, columns = (np.array([one[place] for one in found]) for place in (0, 1))
    low, high = windows.low[rows, columns], windows.high[rows, columns]
    extent = _measure(windows.samples, low, high, vector.starts[columns], uses_starts=uses_starts)
    base = np.array([windows.samples.values[place].count for place in low.tolist()], np.float64)
    growth = np.array([one[2].count for one in found], np.float64)
    factor = extrapolate(extent, (vector.starts[columns], vector.ends[columns]), base, growth, is_counter=is_counter)
    return [(row, column, one.scale(float(by))) for (row, column, one), by in zip(found, factor, strict=True)]


def note_mixed(evaluator: Evaluator, vector: RangeVector) -> Bools:
    """Return the windows with floats and histograms, and warn about them."""
    mixed = (vector.floats.counts > 0) & (vector.histogram_counts() > 0)
    for row in np.flatnonzero(mixed.any(axis=1)).tolist():
        evaluator.annotations.mixed_samples(vector.metric(row), vector.span)
    return mixed


def note_names(evaluator: Evaluator, call: Call, result: Matrix) -> None:
    """Inform about metrics whose name is not that of a counter."""
    floats = result.is_float().any(axis=1)
    for name in {get(result.labels[row], METRIC_NAME) for row in np.flatnonzero(floats).tolist()}:
        if name and not name.endswith(_COUNTER_SUFFIXES):
            evaluator.annotations.maybe_not_counter(name, call.arguments[0].span)


def _ends_in_floats(vector: RangeVector) -> Bools:
    """Return the windows whose last two samples are floats."""
    windows, others = vector.floats, vector.histograms
    found = windows.counts >= 2
    if others is not None:
        both = found & (others.counts > 0)
        before_last = windows.samples.times[windows.high[both] - 2]
        found[both] = others.samples.times[others.high[both] - 1] < before_last
    return found


def _instant(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the growth between the last two samples of each window."""
    vector = select_range(evaluator, call.arguments[0])
    is_rate = call.function == "irate"
    starts = StartTimes(evaluator.annotations, evaluator.options.uses_start_times and is_rate)
    windows, samples = vector.floats, vector.floats.samples
    present = _ends_in_floats(vector)
    values = np.zeros(vector.shape)
    last = windows.high[present] - 1
    if len(last):
        gaps = (samples.times[last] - samples.times[last - 1]) / 1000
        growth = samples.values[last] - samples.values[last - 1]
        if is_rate:
            is_reset = np.isin(last, find_resets(samples, starts))
            growth = np.where(is_reset, samples.values[last], growth) / gaps
        values[present] = growth
    cells = instant_histograms(evaluator, vector, starts, is_rate=is_rate)
    return vector.result(values, present, cells)


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "delta": _grow,
    "idelta": _instant,
    "increase": _grow,
    "irate": _instant,
    "rate": _grow,
}
