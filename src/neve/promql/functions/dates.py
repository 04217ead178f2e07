"""Functions of dates, all in UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.promql.matrix import Matrix, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Call
    from neve.promql.series import Floats

__all__ = ["FUNCTIONS"]

_Moments = npt.NDArray[np.datetime64]
_Numbers = npt.NDArray[np.int64]
_MAX_SECONDS = 1e14  # three million years


def _integers(values: npt.NDArray[np.generic]) -> _Numbers:
    return values.astype(np.int64)


def _months(moments: _Moments) -> _Numbers:
    return _integers(moments.astype("datetime64[M]"))


def _days(moments: _Moments) -> _Numbers:
    return _integers(moments.astype("datetime64[D]"))


def _first_day(months: _Numbers) -> _Numbers:
    return _integers(months.astype("datetime64[M]").astype("datetime64[D]"))


def _first_of_year(moments: _Moments) -> _Numbers:
    return _integers(moments.astype("datetime64[Y]").astype("datetime64[D]"))


_PARTS: dict[str, Callable[[_Moments], _Numbers]] = {
    "year": lambda one: _integers(one.astype("datetime64[Y]")) + 1970,
    "month": lambda one: _months(one) % 12 + 1,
    "day_of_month": lambda one: _days(one) - _first_day(_months(one)) + 1,
    "day_of_week": lambda one: (_days(one) + 4) % 7,
    "day_of_year": lambda one: _days(one) - _first_of_year(one) + 1,
    "days_in_month": lambda one: _first_day(_months(one) + 1) - _first_day(_months(one)),
    "hour": lambda one: _integers(one) // 3600 % 24,
    "minute": lambda one: _integers(one) // 60 % 60,
}


def _convert(compute: Callable[[_Moments], _Numbers], seconds: Floats) -> Floats:
    is_date = np.isfinite(seconds) & (np.abs(seconds) < _MAX_SECONDS)
    moments = np.trunc(np.where(is_date, seconds, 0.0)).astype(np.int64).astype("datetime64[s]")
    found: Floats = np.where(is_date, compute(moments).astype(np.float64), np.nan)
    return found


def _make(compute: Callable[[_Moments], _Numbers]) -> Callable[[Evaluator, Call], Value]:
    def function(evaluator: Evaluator, call: Call) -> Matrix:
        if call.arguments:
            matrix = evaluator.vector(call.arguments[0])
            return matrix.with_floats(_convert(compute, matrix.values))
        values = _convert(compute, np.floor(evaluator.times / 1000))[None, :]
        return Matrix([()], values, np.ones(values.shape, np.bool_), None, np.zeros(1, np.bool_))

    return function


FUNCTIONS: dict[str, Callable[[Evaluator, Call], Value]] = {name: _make(compute) for name, compute in _PARTS.items()}
