"""Growth of native histograms between the samples of a window."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.functions.resets import StartTimes, is_start_reset
from neve.promql.histograms.arithmetic import IncompatibleSchemas, add, coarsen, empty_like, has_reset, subtract
from neve.promql.histograms.native import Histogram, ResetHint

if TYPE_CHECKING:
    from neve.promql.evaluator import Evaluator
    from neve.promql.selectors import RangeVector
    from neve.promql.series import Bools

__all__ = ["grow_histograms", "instant_histograms"]

_Cells = list[tuple[int, int, Histogram]]


def is_reset(points: list[tuple[int, Histogram, int]], index: int, starts: StartTimes) -> bool:
    """Return whether a counter was reset before a sample."""
    before_ms, before, before_start = points[index - 1]
    now_ms, now, start = points[index]
    if starts.is_used:
        arrays = (np.array([one], np.int64) for one in (before_start, before_ms, start, now_ms))
        if bool(is_start_reset(*arrays)[0]):
            return True
    return has_reset(now, before)


def grow_histograms(
    evaluator: Evaluator, vector: RangeVector, mixed: Bools, starts: StartTimes, *, is_counter: bool
) -> _Cells:
    """Return the growth in each window that has histograms only."""
    if vector.histograms is None:
        return []
    cells: _Cells = []
    for row, column in np.argwhere((vector.histograms.counts > 0) & ~mixed).tolist():
        points = list(zip(*vector.window_histograms(row, column), strict=True))
        try:
            found = _grow_window(evaluator, vector, (row, column), points, starts, is_counter=is_counter)
        except IncompatibleSchemas:
            evaluator.annotations.mixed_schemas(vector.metric(row), vector.span)
            continue
        if found is not None:
            cells.append((row, column, found))
    return cells


def _grow_window(
    evaluator: Evaluator,
    vector: RangeVector,
    place: tuple[int, int],
    points: list[tuple[int, Histogram, int]],
    starts: StartTimes,
    *,
    is_counter: bool,
) -> Histogram | None:
    row, column = place
    first_ms, first, created = points[0]
    is_created = starts.is_used and created != 0 and int(vector.starts[column]) < created < first_ms
    grown = None
    if len(points) > 1:
        _note_kind(evaluator, vector, row, [one for _, one, _ in points], is_counter=is_counter)
        grown = _difference(evaluator, vector, points, starts, is_counter=is_counter)
        _note_overlap(vector, row, points, starts)
    if is_created:
        grown = first if grown is None else _add(evaluator, vector, grown, first)
    return grown


def _note_kind(
    evaluator: Evaluator, vector: RangeVector, row: int, histograms: list[Histogram], *, is_counter: bool
) -> None:
    gauges = [one.hint is ResetHint.GAUGE for one in histograms]
    if is_counter and any(gauges):
        evaluator.annotations.not_counter(vector.metric(row), vector.span)
    elif not is_counter and not (gauges[0] and gauges[-1]):
        evaluator.annotations.not_gauge(vector.metric(row), vector.span)


def _note_overlap(vector: RangeVector, row: int, points: list[tuple[int, Histogram, int]], starts: StartTimes) -> None:
    if not starts.is_used:
        return
    for (before_ms, _, before_start), (_, _, start) in itertools.pairwise(points):
        if start != 0 and start < before_ms and start != before_start:
            starts.annotations.add_overlap(vector.metric(row), 1, vector.span)
            return


def _add(evaluator: Evaluator, vector: RangeVector, total: Histogram, other: Histogram) -> Histogram:
    found = add(total, other)
    if found.is_reconciled:
        evaluator.annotations.reconciled_buckets("addition", vector.span)
    return found.histogram


def _difference(
    evaluator: Evaluator,
    vector: RangeVector,
    points: list[tuple[int, Histogram, int]],
    starts: StartTimes,
    *,
    is_counter: bool,
) -> Histogram:
    """Return last minus first, plus what was lost at resets."""
    histograms = [one for _, one, _ in points]
    base, last = histograms[0], histograms[-1]
    resets = [index for index in range(1, len(points)) if is_reset(points, index, starts)] if is_counter else []
    if resets and resets[0] == 1:
        base = empty_like(histograms[1])  # last minus first, plus the first again: its layout does not matter
        resets = resets[1:]
    checked = [base, *(histograms[1:] if is_counter else [last])]
    if len({one.is_custom for one in checked}) > 1:
        raise IncompatibleSchemas("exponential and custom buckets can't be combined")
    result = last
    if not last.is_custom:
        result = coarsen(last, min(one.schema for one in checked))
    found = subtract(result, base)
    if found.is_reconciled:
        evaluator.annotations.reconciled_buckets("subtraction", vector.span)
    result = found.histogram
    for index in resets:
        result = _add(evaluator, vector, result, histograms[index - 1])
    return result.with_hint(ResetHint.GAUGE).compact()


def instant_histograms(evaluator: Evaluator, vector: RangeVector, starts: StartTimes, *, is_rate: bool) -> _Cells:
    """Return the growth between the last two samples of each window that has histograms."""
    if vector.histograms is None:
        return []
    cells: _Cells = []
    for row, column in np.argwhere(vector.histograms.counts > 0).tolist():
        floats = [(moment, None, start) for moment, _, start in zip(*vector.window_floats(row, column), strict=True)]
        points = list(zip(*vector.window_histograms(row, column), strict=True))
        latest = sorted([*floats, *points], key=lambda one: one[0])[-2:]
        if len(latest) < 2:
            continue
        pair = [(moment, one, start) for moment, one, start in latest if one is not None]
        if len(pair) == 1:
            evaluator.annotations.mixed_samples(vector.metric(row), vector.span)
        if len(pair) < 2:
            continue
        found = _instant_window(evaluator, vector, row, pair, starts, is_rate=is_rate)
        if found is not None:
            cells.append((row, column, found))
    return cells


def _instant_window(
    evaluator: Evaluator,
    vector: RangeVector,
    row: int,
    points: list[tuple[int, Histogram, int]],
    starts: StartTimes,
    *,
    is_rate: bool,
) -> Histogram | None:
    (before_ms, before, _), (now_ms, now, _) = points
    annotations, metric = evaluator.annotations, vector.metric(row)
    gauges = [one.hint is ResetHint.GAUGE for one in (before, now)]
    if is_rate and any(gauges):
        annotations.not_counter(metric, vector.span)
    if not is_rate and not all(gauges):
        annotations.not_gauge(metric, vector.span)
    result = now
    if not is_rate or not is_reset(points, 1, starts):
        try:
            found = subtract(now, before)
        except IncompatibleSchemas:
            annotations.mixed_schemas(metric, vector.span)
            return None
        if found.is_reconciled:
            annotations.reconciled_buckets("subtraction", vector.span)
        result = found.histogram
    result = result.with_hint(ResetHint.GAUGE).compact()
    return result.divide((now_ms - before_ms) / 1000) if is_rate else result
