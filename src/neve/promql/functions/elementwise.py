"""Functions of single samples: mathematics, trigonometry, clamps, parts of native histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.evaluator import Evaluator
from neve.promql.histograms.quantiles import variance
from neve.promql.language.syntax import Call
from neve.promql.matrix import Matrix, Value

if TYPE_CHECKING:
    from neve.promql.histograms.native import Histogram
    from neve.promql.series import Floats

__all__ = ["FUNCTIONS"]

_Function = Callable[[Evaluator, Call], Value]

_MATH: dict[str, Callable[[Floats], Floats]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "deg": lambda values: values * 180 / math.pi,
    "exp": np.exp,
    "floor": np.floor,
    "ln": np.log,
    "log10": np.log10,
    "log2": np.log2,
    "rad": lambda values: values * math.pi / 180,
    "sgn": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
_PARTS: dict[str, Callable[[Histogram], float]] = {
    "histogram_avg": lambda one: one.sum / one.count if one.count else math.nan,
    "histogram_count": lambda one: one.count,
    "histogram_sum": lambda one: one.sum,
    "histogram_stddev": lambda one: _root(variance(one)),
    "histogram_stdvar": variance,
}


def _root(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


def _apply(compute: Callable[[Floats], Floats]) -> _Function:
    def function(evaluator: Evaluator, call: Call) -> Matrix:
        matrix = evaluator.vector(call.arguments[0])
        return matrix.with_floats(compute(matrix.values))

    return function


def _measure(compute: Callable[[Histogram], float]) -> _Function:
    def function(evaluator: Evaluator, call: Call) -> Matrix:
        matrix = evaluator.vector(call.arguments[0])
        there = matrix.is_histogram()
        values = np.zeros(there.shape)
        if matrix.histograms is not None:
            values[there] = [compute(one) for one in matrix.histograms[there]]
        return Matrix(matrix.labels, values, there, None, np.ones(len(matrix), np.bool_)).mask(there)

    return function


def _clamp(evaluator: Evaluator, call: Call) -> Matrix:
    """Limit values. Nothing is left where the lower limit is above the upper one."""
    matrix = evaluator.vector(call.arguments[0])
    limits = [evaluator.scalar(one).values for one in call.arguments[1:]]
    lowest, highest = np.full(evaluator.steps, -np.inf), np.full(evaluator.steps, np.inf)
    if call.function != "clamp_max":
        lowest = limits[0]
    if call.function != "clamp_min":
        highest = limits[-1]
    values = np.maximum(lowest[None, :], np.minimum(highest[None, :], matrix.values))
    return matrix.with_floats(values).mask(np.broadcast_to(~(highest < lowest), (1, evaluator.steps)))


def _round(evaluator: Evaluator, call: Call) -> Matrix:
    matrix = evaluator.vector(call.arguments[0])
    nearest = evaluator.scalar(call.arguments[1]).values if len(call.arguments) > 1 else np.ones(evaluator.steps)
    inverse = 1.0 / nearest[None, :]
    return matrix.with_floats(np.floor(matrix.values * inverse + 0.5) / inverse)


FUNCTIONS: dict[str, _Function] = {
    **{name: _apply(compute) for name, compute in _MATH.items()},
    **{name: _measure(compute) for name, compute in _PARTS.items()},
    "clamp": _clamp,
    "clamp_max": _clamp,
    "clamp_min": _clamp,
    "round": _round,
}
