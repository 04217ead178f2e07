"""Functions of scalars and times, and conversions between scalars and vectors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.language.syntax import Call, VectorSelector, strip_parens
from neve.promql.matrix import Matrix, Scalar, Value
from neve.promql.selectors import Latest, select_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.series import Integers

__all__ = ["FUNCTIONS"]


def _constant(evaluator: Evaluator, value: float) -> Scalar:
    return Scalar(np.full(evaluator.steps, value))


def _step(evaluator: Evaluator, _call: Call) -> Scalar:
    query = evaluator.query
    return _constant(evaluator, query.step_ms / 1000 if query.start_ms != query.end_ms else 0.0)


def _range(evaluator: Evaluator, _call: Call) -> Scalar:
    return _constant(evaluator, (evaluator.query.end_ms - evaluator.query.start_ms) / 1000)


def _extreme(evaluator: Evaluator, call: Call) -> Scalar:
    left, right = (evaluator.scalar(one).values for one in call.arguments)
    return Scalar(np.maximum(left, right) if call.function == "max_of" else np.minimum(left, right))


def _to_scalar(evaluator: Evaluator, call: Call) -> Scalar:
    """Return the only float of a vector at each step, or NaN if there is not exactly one."""
    matrix = evaluator.vector(call.arguments[0])
    floats = matrix.is_float()
    totals = np.where(floats, matrix.values, 0.0).sum(axis=0)
    return Scalar(np.where(floats.sum(axis=0) == 1, totals, np.nan))


def _to_vector(evaluator: Evaluator, call: Call) -> Matrix:
    values = evaluator.scalar(call.arguments[0]).values[None, :]
    return Matrix([()], values, np.ones(values.shape, np.bool_), None, np.zeros(1, np.bool_))


def _sample_times(latest: Latest, values: Integers) -> Matrix:
    names = np.ones(len(latest.series), np.bool_)
    return Matrix(latest.series.labels, values / 1000, latest.present, None, names).mask(latest.present)


def _timestamp(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the time of each sample of a selector, else the time of the step."""
    argument = strip_parens(call.arguments[0])
    if isinstance(argument, VectorSelector) and not argument.timing.is_smoothed:
        latest = select_latest(evaluator, argument)
        return _sample_times(latest, latest.times())
    matrix = evaluator.vector(argument)
    values = np.broadcast_to(evaluator.times / 1000, matrix.present.shape)
    names = np.ones(len(matrix), np.bool_)
    return Matrix(matrix.labels, values, matrix.present, None, names)


def _start_timestamp(evaluator: Evaluator, call: Call) -> Matrix:
    """Return the start time of each sample of a selector. Other expressions have none."""
    argument = strip_parens(call.arguments[0])
    if not isinstance(argument, VectorSelector) or not evaluator.options.uses_start_times:
        matrix = evaluator.vector(argument)
        return matrix.mask(np.zeros(matrix.present.shape, np.bool_))
    latest = select_latest(evaluator, argument)
    return _sample_times(latest, latest.start_times())


def _sort(evaluator: Evaluator, call: Call) -> Matrix:
    """Sort an instant vector by value, NaN last. In a range query the order has no effect."""
    matrix = evaluator.vector(call.arguments[0])
    matrix = matrix.mask(matrix.is_float())
    warn_ineffective_sort(evaluator, call)
    if evaluator.steps != 1:
        return matrix
    keys = matrix.values[:, 0] if call.function == "sort" else -matrix.values[:, 0]
    return matrix.rows(np.argsort(keys, kind="stable"))


def warn_ineffective_sort(evaluator: Evaluator, call: Call) -> None:
    """Warn that a range query is always ordered by labels."""
    if evaluator.times[0] != evaluator.times[-1]:
        message = "sort is ineffective for range queries since results are always ordered by labels"
        evaluator.annotations.warn(message, call.span)


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {
    "end": lambda evaluator, _call: _constant(evaluator, evaluator.query.end_ms / 1000),
    "max_of": _extreme,
    "min_of": _extreme,
    "pi": lambda evaluator, _call: _constant(evaluator, math.pi),
    "range": _range,
    "scalar": _to_scalar,
    "sort": _sort,
    "sort_desc": _sort,
    "start": lambda evaluator, _call: _constant(evaluator, evaluator.query.start_ms / 1000),
    "start_timestamp": _start_timestamp,
    "step": _step,
    "time": lambda evaluator, _call: Scalar(evaluator.times / 1000),
    "timestamp": _timestamp,
    "vector": _to_vector,
}
