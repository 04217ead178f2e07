"""Selectors: the samples of series at each step, or within a range before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.promql.histograms.arithmetic import IncompatibleSchemas, interpolate
from neve.promql.histograms.native import Histogram, ResetHint
from neve.promql.labels import Labels, get
from neve.promql.language.syntax import METRIC_NAME, Call, Node, RangeSelector, Subquery, VectorSelector, strip_parens
from neve.promql.matrix import Matrix, is_filled, put_histograms
from neve.promql.series import Bools, Floats, Integers, Samples, SeriesSet, is_stale
from neve.promql.windows import Windows, find_windows, latest_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lexical.positions import Span
    from neve.promql.evaluator import Evaluator

__all__ = [
    "Latest",
    "RangeVector",
    "check_modifiers",
    "evaluate_range",
    "evaluate_selector",
    "find_latest",
    "select_range",
]

_LOWEST_MS, _HIGHEST_MS = -(1 << 62), 1 << 62
_SMOOTHED_FUNCTIONS = ("delta", "increase", "rate")
_ANCHORED_FUNCTIONS = ("changes", "delta", "increase", "rate", "resets")


@dataclass(frozen=True, slots=True)
class Latest:
    """Latest sample of each series at each step: where there is one, its index, and whether it is a histogram."""

    series: SeriesSet
    present: Bools
    index: Integers
    is_histogram: Bools

    def times(self) -> Integers:
        """Return the times of the samples."""
        return self._pick(lambda samples: samples.times)

    def start_times(self) -> Integers:
        """Return the start times of the samples, 0 where they are unknown."""
        return self._pick(lambda one: np.zeros(len(one), np.int64) if one.start_times is None else one.start_times)

    def _pick(self, column: Callable[[Samples], Integers]) -> Integers:
        picked = np.zeros(self.present.shape, np.int64)
        chosen = self.present & ~self.is_histogram
        picked[chosen] = column(self.series.floats)[self.index[chosen]]
        if self.series.histograms is not None:
            chosen = self.present & self.is_histogram
            picked[chosen] = column(self.series.histograms)[self.index[chosen]]
        return picked


def find_latest(evaluator: Evaluator, series: SeriesSet, times: Integers) -> Latest:
    """Return the latest samples that are not older than the lookback and not stale."""
    evaluator.charge_cells(len(series))
    present, index, ages = _find_one(series.floats, times, evaluator.options.lookback_ms)
    is_histogram = np.zeros(present.shape, np.bool_)
    stale = np.zeros(present.shape, np.bool_)
    stale[present] = is_stale(series.floats.values[index[present]])
    if series.histograms is not None:
        there, places, other_ages = _find_one(series.histograms, times, evaluator.options.lookback_ms)
        is_histogram = there & (~present | (other_ages < ages))
        ended = np.zeros(present.shape, np.bool_)
        ended[there] = is_stale(np.array([one.sum for one in series.histograms.values[places[there]]], np.float64))
        stale = np.where(is_histogram, ended, stale)
        index = np.where(is_histogram, places, index)
        present = present | there
    found = present & ~stale
    evaluator.samples_read[:] += found.sum(axis=0)
    return Latest(series, found, index, is_histogram)


def _find_one(samples: Samples, times: Integers, lookback_ms: int) -> tuple[Bools, Integers, Integers]:
    index = latest_index(samples, times)
    present = index >= samples.bounds[:-1, None]
    ages = np.full(index.shape, _HIGHEST_MS, np.int64)
    ages[present] = np.broadcast_to(times, index.shape)[present] - samples.times[index[present]]
    present &= ages < lookback_ms
    return present, index, ages


def select_latest(evaluator: Evaluator, node: VectorSelector) -> Latest:
    """Return the latest samples of a selector's series."""
    times = evaluator.selection_times(node.timing)
    start = _clip(int(times.min()) - evaluator.options.lookback_ms + 1)
    return find_latest(evaluator, evaluator.select(node.all_matchers, start, _clip(int(times.max()))), times)


def evaluate_selector(evaluator: Evaluator, node: VectorSelector) -> Matrix:
    """Return the instant vector of a selector."""
    if node.timing.is_smoothed:
        return _evaluate_smoothed(evaluator, node)
    latest = select_latest(evaluator, node)
    values = np.zeros(latest.present.shape)
    chosen = latest.present & ~latest.is_histogram
    values[chosen] = latest.series.floats.values[latest.index[chosen]]
    histograms = None
    if latest.series.histograms is not None and latest.is_histogram.any():
        histograms = np.full(values.shape, None, object)
        chosen = latest.present & latest.is_histogram
        histograms[chosen] = latest.series.histograms.values[latest.index[chosen]]
    names = np.zeros(len(latest.series), np.bool_)
    return Matrix(latest.series.labels, values, latest.present, histograms, names).mask(latest.present)


def _clip(milliseconds: int) -> int:
    return max(_LOWEST_MS, min(_HIGHEST_MS, milliseconds))


@dataclass(frozen=True, slots=True)
class RangeVector:
    """Windows over series at each step. `starts` and `ends` are the edges of the range, in milliseconds."""

    labels: list[Labels]
    floats: Windows
    histograms: Windows | None
    name_dropped: Bools
    starts: Integers
    ends: Integers
    range_ms: int
    span: Span
    is_anchored: bool = False
    is_smoothed: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Return the numbers of series and steps."""
        return len(self.labels), len(self.ends)

    def metric(self, row: int) -> str:
        """Return the name of a series' metric, for annotations."""
        return get(self.labels[row], METRIC_NAME)

    def histogram_counts(self) -> Integers:
        """Return the number of histograms in each window."""
        return np.zeros(self.shape, np.int64) if self.histograms is None else self.histograms.counts

    def result(
        self,
        values: Floats,
        present: Bools,
        cells: list[tuple[int, int, Histogram]] | None = None,
        *,
        keeps_name: bool = False,
    ) -> Matrix:
        """Return the instant vector that a function made of the windows."""
        histograms = put_histograms(self.shape, cells or [])
        if histograms is not None:
            present = present | is_filled(histograms)
        dropped = self.name_dropped if keeps_name else np.ones(len(self.labels), np.bool_)
        return Matrix(self.labels, values, present, histograms, dropped).mask(present)

    def window_histograms(self, row: int, column: int) -> tuple[list[int], list[Histogram], list[int]]:
        """Return times, histograms and start times in one window."""
        if self.histograms is None:
            return [], [], []
        found = _slice(self.histograms, row, column)
        if found[1]:
            self.histograms.budget.charge_histogram(found[1][-1])  # callers make one histogram of each window
        return found

    def window_floats(self, row: int, column: int) -> tuple[list[int], list[float], list[int]]:
        """Return times, floats and start times in one window."""
        return _slice(self.floats, row, column)


def _slice(windows: Windows, row: int, column: int) -> tuple[list[int], list, list[int]]:  # type: ignore[type-arg]  # either kind
    low, high = int(windows.low[row, column]), int(windows.high[row, column])
    windows.budget.visit(max(high - low, 1))
    samples = windows.samples
    starts = samples.start_times
    listed = [0] * (high - low) if starts is None else starts[low:high].tolist()
    return samples.times[low:high].tolist(), samples.values[low:high].tolist(), listed


def select_range(evaluator: Evaluator, node: Node) -> RangeVector:
    """Return the range vector of a range selector or a subquery."""
    inside = strip_parens(node)
    if isinstance(inside, Subquery):
        return _evaluate_subquery(evaluator, inside)
    if isinstance(inside, RangeSelector):
        return evaluate_range(evaluator, inside)
    raise TypeError("expected a range vector")


def check_modifiers(call: Call) -> None:
    """Raise `EvaluationFailed` if a function can't work on an anchored or smoothed range."""
    for argument in call.arguments:
        node = strip_parens(argument)
        if not isinstance(node, RangeSelector):
            continue
        timing = node.selector.timing
        for name, is_set, functions in (
            ("anchored", timing.is_anchored, _ANCHORED_FUNCTIONS),
            ("smoothed", timing.is_smoothed, _SMOOTHED_FUNCTIONS),
        ):
            if is_set and call.function not in functions:
                known = ", ".join(functions)
                raise EvaluationFailed(f"{name} modifier can only be used with: {known} - not with {call.function}")


def evaluate_range(evaluator: Evaluator, node: RangeSelector) -> RangeVector:
    """Return the windows (t - range, t] of a selector. `anchored` and `smoothed` look further, by the lookback."""
    timing = node.selector.timing
    ends = evaluator.selection_times(timing)
    length = evaluator.duration(node.range)
    before = evaluator.options.lookback_ms if timing.is_anchored or timing.is_smoothed else 0
    after = evaluator.options.lookback_ms if timing.is_smoothed else 0
    first, last = _clip(int(ends.min()) - length - before + 1), _clip(int(ends.max()) + after)
    series = evaluator.select(node.selector.all_matchers, first, last).without_stale()
    return make_range(
        evaluator,
        series,
        ends,
        length,
        node,
        (before, after),
        is_anchored=timing.is_anchored,
        is_smoothed=timing.is_smoothed,
    )


def make_range(
    evaluator: Evaluator,
    series: SeriesSet,
    ends: Integers,
    length: int,
    node: Node,
    margins: tuple[int, int] = (0, 0),
    **extended: bool,
) -> RangeVector:
    evaluator.charge_cells(len(series))
    starts = ends - np.int64(length)
    low, high = starts - np.int64(margins[0]), ends + np.int64(margins[1])
    histograms = None if series.histograms is None else find_windows(series.histograms, low, high, evaluator.budget)
    dropped = np.zeros(len(series), np.bool_) if series.name_dropped is None else series.name_dropped
    floats = find_windows(series.floats, low, high, evaluator.budget)
    for windows in (floats, histograms):
        evaluator.samples_read[:] += 0 if windows is None else windows.counts.sum(axis=0)
    return RangeVector(series.labels, floats, histograms, dropped, starts, ends, length, node.span, **extended)


def _evaluate_subquery(evaluator: Evaluator, node: Subquery) -> RangeVector:
    """Return windows over the values of an expression, at multiples of the subquery's step since 1970."""
    ends = evaluator.selection_times(node.timing)
    length = evaluator.duration(node.range)
    step = evaluator.options.default_step_ms if node.step is None else evaluator.duration(node.step)
    step = max(step, 1)
    first = (int(ends.min()) - length) // step * step + step
    count = max((int(ends.max()) - first) // step + 1, 0)
    evaluator.budget.charge(count)  # before the steps are allocated
    times = first + np.arange(count, dtype=np.int64) * step
    if not count:
        return make_range(evaluator, _to_series(None, times), ends, length, node)
    inner = evaluator.at_times(times).vector(node.expression)  # samples are counted in its windows, as in Prometheus
    return make_range(evaluator, _to_series(inner, times), ends, length, node)


def _to_series(matrix: Matrix | None, times: Integers) -> SeriesSet:
    """Return a matrix as series of samples."""
    if matrix is None:
        nothing = Samples(np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0))
        return SeriesSet([], nothing, None, np.empty(0, np.bool_))
    floats = _to_samples(matrix.values, matrix.is_float(), times)
    histograms = None
    if matrix.histograms is not None:
        histograms = _to_samples(matrix.histograms, matrix.is_histogram(), times)
        for place, one in enumerate(histograms.values):
            if one.hint in {ResetHint.RESET, ResetHint.NOT_RESET}:  # hints are about neighbours in the storage
                histograms.values[place] = one.with_hint(ResetHint.UNKNOWN)
    return SeriesSet(matrix.labels, floats, histograms, matrix.name_dropped)


def _to_samples(cells: Floats, wanted: Bools, times: Integers) -> Samples:
    bounds = np.concatenate(([0], np.cumsum(wanted.sum(axis=1)))).astype(np.int64)
    return Samples(bounds, np.broadcast_to(times, wanted.shape)[wanted], cells[wanted])


def _evaluate_smoothed(evaluator: Evaluator, node: VectorSelector) -> Matrix:
    """Return a selector's samples, interpolated between the samples before and after each step."""
    times, lookback = evaluator.selection_times(node.timing), evaluator.options.lookback_ms
    first, last = _clip(int(times.min()) - lookback + 1), _clip(int(times.max()) + lookback)
    series = evaluator.select(node.all_matchers, first, last).without_stale()
    vector = make_range(evaluator, series, times, 0, node, (lookback, lookback))
    values, present = np.zeros(vector.shape), np.zeros(vector.shape, np.bool_)
    cells: list[tuple[int, int, Histogram]] = []
    for row, column in np.ndindex(vector.shape):
        at = int(times[column])
        moments, floats, _ = vector.window_floats(row, column)
        histogram_moments, histograms, _ = vector.window_histograms(row, column)
        if moments and histogram_moments:
            evaluator.annotations.mixed_samples(vector.metric(row), node.span)
        elif moments and moments[0] <= at:
            values[row, column], present[row, column] = float(np.interp(at, moments, floats)), True
        elif histogram_moments and histogram_moments[0] <= at:
            found = _smooth_histogram(evaluator, vector, row, (histogram_moments, histograms), at)
            if found is not None:
                cells.append((row, column, found))
    return vector.result(values, present, cells, keeps_name=True)


def _smooth_histogram(
    evaluator: Evaluator, vector: RangeVector, row: int, samples: tuple[list[int], list[Histogram]], at: int
) -> Histogram | None:
    moments, histograms = samples
    after = int(np.searchsorted(moments, at))
    if after < len(moments) and moments[after] == at:
        return histograms[after]
    before = histograms[after - 1]
    if after == len(moments):
        return before.with_hint(ResetHint.UNKNOWN)
    later = histograms[after]
    is_counter = ResetHint.GAUGE not in {before.hint} or later.hint is not ResetHint.GAUGE
    try:
        if before.is_custom != later.is_custom:
            raise IncompatibleSchemas("exponential and custom buckets can't be combined")
        found = interpolate(before, moments[after - 1], later, moments[after], at, is_counter=is_counter)
    except IncompatibleSchemas:
        evaluator.annotations.mixed_schemas(vector.metric(row), vector.span)
        return None
    if found.is_reconciled:
        evaluator.annotations.reconciled_buckets("addition", vector.span)
        evaluator.annotations.reconciled_buckets("subtraction", vector.span)
    return found.histogram
