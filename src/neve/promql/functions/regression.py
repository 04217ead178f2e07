"""Trends of the samples of a range: deriv, predict_linear, double_exponential_smoothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.promql.functions.over_time import note_ignored
from neve.promql.selectors import RangeVector, select_range
from neve.promql.windows import iterate_positions, two_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Call
    from neve.promql.matrix import Matrix, Value
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["FUNCTIONS"]


def _fit(vector: RangeVector, present: Bools, origins: Integers) -> tuple[Floats, Floats]:
    """Return slope and intercept of the line through the samples of each window, by least squares."""
    windows = vector.floats
    size = windows.counts.size
    sums, lost = np.zeros((4, size)), np.zeros((4, size))
    first, is_constant = np.zeros(size), np.ones(size, np.bool_)
    chosen_low = windows.low.ravel()[present.ravel()]
    first[present.ravel()] = windows.samples.values[chosen_low]
    for chosen, index in iterate_positions(windows, present.ravel()):
        values = windows.samples.values[index]
        x = (windows.samples.times[index] - origins[chosen]) / 1000
        is_constant[chosen] &= values == first[chosen]
        for place, term in enumerate((x, values, x * values, x * x)):
            sums[place, chosen], rounding = two_sum(sums[place, chosen], term)
            lost[place, chosen] += rounding
    count = np.maximum(windows.counts.ravel(), 1)
    sum_x, sum_y, sum_xy, sum_x2 = sums + lost
    slope = (sum_xy - sum_x * sum_y / count) / (sum_x2 - sum_x * sum_x / count)
    intercept = sum_y / count - slope * sum_x / count
    flat = np.where(np.isinf(first), np.nan, first)
    slope = np.where(is_constant, np.where(np.isinf(first), np.nan, 0.0), slope)
    shape = windows.counts.shape
    return slope.reshape(shape), np.where(is_constant, flat, intercept).reshape(shape)


def _deriv(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    note_ignored(evaluator, vector)
    present = vector.floats.counts >= 2
    origins = np.zeros(present.size, np.int64)
    flat = present.ravel()
    origins[flat] = vector.floats.samples.times[vector.floats.low.ravel()[flat]]
    return vector.result(_fit(vector, present, origins)[0], present)


def _predict_linear(evaluator: Evaluator, call: Call) -> Matrix:
    vector = select_range(evaluator, call.arguments[0])
    note_ignored(evaluator, vector)
    ahead = evaluator.scalar(call.arguments[1]).values
    present = vector.floats.counts >= 2
    origins = np.broadcast_to(evaluator.times, present.shape).ravel()
    slope, intercept = _fit(vector, present, origins)
    return vector.result(slope * ahead[None, :] + intercept, present)


def _check_factor(name: str, values: Floats) -> None:
    bad = values[~((values > 0) & (values < 1))]
    if len(bad):
        raise EvaluationFailed(f"invalid {name} factor. Expected: 0 < {name[0]}f < 1, got: {bad[0]:f}")


def _smooth(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the level of Holt's double exponential smoothing at the end of each window."""
    vector = select_range(evaluator, call.arguments[0])
    factors = [evaluator.scalar(one).values for one in call.arguments[1:]]
    windows = vector.floats
    any_window = (windows.counts + vector.histogram_counts() > 0).any(axis=0)
    for name, values in zip(("smoothing", "trend"), factors, strict=True):
        _check_factor(name, values[any_window])
    note_ignored(evaluator, vector)
    present = windows.counts >= 2
    level_factor, trend_factor = (np.broadcast_to(one, present.shape).ravel() for one in factors)
    before, level, trend = (np.zeros(present.size) for _ in range(3))
    for position, (chosen, index) in enumerate(iterate_positions(windows, present.ravel())):
        values = windows.samples.values[index]
        if position == 0:
            level[chosen] = values
            trend[chosen] = windows.samples.values[index + 1] - values
            continue
        alpha, beta = level_factor[chosen], trend_factor[chosen]
        if position > 1:
            trend[chosen] = beta * (level[chosen] - before[chosen]) + (1 - beta) * trend[chosen]
        following = alpha * values + (1 - alpha) * (level[chosen] + trend[chosen])
        before[chosen], level[chosen] = level[chosen], following
    return vector.result(level.reshape(present.shape), present)


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "deriv": _deriv,
    "double_exponential_smoothing": _smooth,
    "predict_linear": _predict_linear,
}
