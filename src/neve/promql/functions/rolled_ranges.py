"""Functions over long ranges, from windows that the storage has aggregated already.

Windows are [a, b) and ranges (a, b]. A window is a sample at its end, so that a range of whole windows has the samples
of its windows. The storage does not offer windows with samples that are exactly at the start of one. So the values of
gauges give the result of the points, but for the order in which floats are added.

Counters have the growth since the sample before each sample. The growth between the first and the last sample of a
range is the sum of its windows without the first growth, and the times of both are known. Only the level of the counter
is not, which limits the extrapolation to the start of a range: a counter that has just begun can't have begun below
zero. The level is at least the first growth, which bounds the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from neve.promql.functions.rates import Extent, extrapolate, note_names
from neve.promql.functions.rolled_quantiles import (
    LEAST_WINDOWS,
    MOST_QUANTILE_ERROR,
    bound_quantiles,
    find_growth,
    grow_buckets,
)
from neve.promql.language.syntax import RangeSelector, strip_parens
from neve.promql.selectors import make_range
from neve.promql.series import Samples, SeriesSet
from neve.promql.storage.rolled_windows import has_pauses
from neve.promql.windows import Windows, reduce_extreme, sum_windows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.lexical.matchers import Matcher
    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Call
    from neve.promql.matrix import Matrix
    from neve.promql.selectors import RangeVector
    from neve.promql.series import Floats, Integers
    from neve.promql.storage.rolled_windows import RolledSeries

__all__ = ["FUNCTIONS", "RollingSource", "evaluate_rolled"]

WINDOWS_MS = {86_400_000: "1d", 3_600_000: "1h", 300_000: "5m", 60_000: "1m"}
LEAST_MS = 86_400_000  # shorter queries read points
MOST_ERROR = 0.05  # relative; points are read where the bound is larger
ROUNDING = 1e-9
FUNCTIONS = {
    "sum_over_time": "gauge",
    "avg_over_time": "gauge",
    "count_over_time": "gauge",
    "min_over_time": "gauge",
    "max_over_time": "gauge",
    "rate": "sum",
    "increase": "sum",
}


@runtime_checkable
class RollingSource(Protocol):
    """Port to a storage that has aggregated windows."""

    def roll(
        self, kind: str, matchers: Sequence[Matcher], start_ms: int, end_ms: int, window_ms: int
    ) -> RolledSeries | None:
        """Return the windows of the gauges, sums or buckets that match, or `None` if only points give the result."""


def evaluate_rolled(evaluator: Evaluator, call: Call) -> Matrix | None:
    """Return the value of a call from windows, or `None` if it needs the points."""
    return (_evaluate_quantile if call.function == "histogram_quantile" else _evaluate_range)(evaluator, call)


def _evaluate_range(evaluator: Evaluator, call: Call) -> Matrix | None:
    node = strip_parens(call.arguments[-1]) if call.arguments else None
    if call.function not in FUNCTIONS or not isinstance(node, RangeSelector):
        return None
    timing, kind = node.selector.timing, FUNCTIONS[call.function]
    is_extended = timing.is_anchored or timing.is_smoothed or evaluator.options.uses_start_times
    if not isinstance(evaluator.source, RollingSource) or (kind == "sum" and is_extended):
        return None
    ends, length = evaluator.selection_times(timing), evaluator.duration(node.range)
    first, last = int(ends.min()) - length, int(ends.max())
    fitting = [one for one in WINDOWS_MS if length % one == 0 and not (ends % one).any()]
    if not fitting or last - first < LEAST_MS or first < 0:
        return None
    found = evaluator.source.roll(kind, node.selector.all_matchers, first, last, fitting[0])
    if found is None:
        return None
    samples = Samples(found.bounds, found.ends_ms, found.numbers["total"])
    evaluator.budget.charge(len(samples) * len(found.numbers))
    vector = make_range(evaluator, SeriesSet(found.labels, samples, None), ends, length, node)
    window = WINDOWS_MS[fitting[0]]
    if kind == "sum":
        return _grow(evaluator, call, vector, found, window)
    evaluator.annotations.rolled_up(window, node.span)
    return vector.result(_aggregate(call.function, vector, found), vector.floats.counts > 0)


def _evaluate_quantile(evaluator: Evaluator, call: Call) -> Matrix | None:
    """Return quantiles of classic histograms, from the longest windows that bound them well."""
    node = find_growth(call)
    if node is None or not isinstance(evaluator.source, RollingSource):
        return None
    timing = node.selector.timing
    ends, length = evaluator.selection_times(timing), evaluator.duration(node.range)
    first, last = int(ends.min()) - length, int(ends.max())
    is_extended = timing.is_anchored or timing.is_smoothed or evaluator.options.uses_start_times
    if is_extended or last - first < LEAST_MS or first < 0:
        return None
    for window_ms in (one for one in WINDOWS_MS if length % one == 0 and not (ends % one).any()):
        if length // window_ms < LEAST_WINDOWS:
            continue
        found = evaluator.source.roll("histogram", node.selector.all_matchers, first, last, window_ms)
        if found is None:
            return None
        samples = Samples(found.bounds, found.ends_ms, found.numbers["total"])
        evaluator.budget.charge(len(samples) * len(found.numbers))
        vector = make_range(evaluator, SeriesSet(found.labels, samples, None), ends, length, node)
        growth = grow_buckets(found, vector)
        bounded = None if growth is None else bound_quantiles(evaluator, call, growth)
        if bounded is not None and bounded[1] <= MOST_QUANTILE_ERROR:
            evaluator.annotations.rolled_quantile(WINDOWS_MS[window_ms], bounded[1], node.span)
            return bounded[0]
    return None


def _aggregate(function: str, vector: RangeVector, found: RolledSeries) -> Floats:
    def windows(name: str) -> Windows:
        samples = Samples(found.bounds, found.ends_ms, found.numbers[name])
        return Windows(samples, vector.floats.low, vector.floats.high, vector.floats.budget)

    if function == "min_over_time":
        return reduce_extreme(windows("least"), np.fmin)
    if function == "max_over_time":
        return reduce_extreme(windows("most"), np.fmax)
    if function == "count_over_time":
        return sum_windows(windows("count"))
    total = sum_windows(windows("total"))
    return total if function == "sum_over_time" else total / np.maximum(sum_windows(windows("count")), 1.0)


def _grow(evaluator: Evaluator, call: Call, vector: RangeVector, found: RolledSeries, window: str) -> Matrix | None:
    """Return the growth of counters, or `None` if the windows do not bound it well."""
    if has_pauses(found):
        return None
    counts = Samples(found.bounds, found.ends_ms, found.numbers["count"])
    low, high, budget = vector.floats.low, vector.floats.high, vector.floats.budget
    points = sum_windows(Windows(counts, low, high, budget))
    present = points >= 2
    if (points[~present] > 0).any():  # a sample that is in no window may be the second one
        return None
    edges = tuple(np.broadcast_to(one, vector.shape)[present] for one in (vector.starts, vector.ends))
    first, last = low[present], high[present] - 1
    total, before = sum_windows(vector.floats)[present], found.numbers["first"][first]
    gaps = points[present].astype(np.int64) - 1
    unknown = np.zeros(len(first), np.int64)
    extent = Extent(found.first_ms[first], found.last_ms[last], gaps, unknown, unknown != 0)
    growth = total - before
    whole = growth * extrapolate(extent, (edges[0], edges[1]), before, growth, is_counter=False)
    least = growth * extrapolate(extent, (edges[0], edges[1]), before, growth, is_counter=True)
    error = _bound_error(whole, least, _bound_begun(found, extent, total, first))
    if error > MOST_ERROR:
        return None
    values = np.zeros(vector.shape)
    values[present] = whole / (vector.range_ms / 1000 if call.function == "rate" else 1.0)
    evaluator.annotations.rolled_growth(window, error if error > ROUNDING else 0.0, vector.span)
    result = vector.result(values, present)
    note_names(evaluator, call, result)
    return result


def _bound_begun(found: RolledSeries, extent: Extent, total: Floats, first: Integers) -> Floats:
    """Return the most growth of counters that begin in the range, 0 for others: one sample more may be in the range.

    A rollup leaves out a sample without one before it, unless its start is known.
    """
    begins = np.isin(first, found.bounds[:-1])
    most: Floats = np.where(begins, total * (1 + 2.2 / np.maximum(extent.gaps + 1, 1)), 0.0)
    return most


def _bound_error(whole: Floats, least: Floats, most: Floats) -> float:
    """Return the largest relative difference of values to their bounds."""
    away = np.maximum(whole - least, most - whole)
    relative = np.divide(away, whole, out=np.where(away > 0, np.inf, 0.0), where=whole > 0)
    return float(relative.max(initial=0.0))
