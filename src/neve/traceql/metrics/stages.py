"""Computations on series: rankings, comparisons with a number, arithmetic between series."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.traceql.language.fields import Static, Type
from neve.traceql.language.syntax import MetricsFilter, Ranking
from neve.traceql.metrics.series import Exemplar, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from neve.traceql.language.syntax import MetricsScalarMath, SecondStage
    from neve.traceql.metrics.series import Labels

__all__ = ["apply_stages", "combine_series", "combine_with_number"]

NAME = "__name__"
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def apply_stages(series: list[Series], stages: Sequence[SecondStage]) -> list[Series]:
    """Return series after rankings and comparisons. Series without a value are left out."""
    for stage in stages:
        if isinstance(stage, Ranking):
            series = _rank(series, stage)
        elif isinstance(stage, MetricsFilter):
            series = _filter(series, stage)
    return series


def _rank(series: list[Series], stage: Ranking) -> list[Series]:
    """Keep the largest or smallest values at each interval. Of equal ones, those of the first labels."""
    if not series:
        return series
    ordered = sorted(series, key=lambda one: str(one.labels))
    matrix = np.stack([one.values for one in ordered])
    keys = matrix if stage.operator == "bottomk" else -matrix
    order = np.argsort(keys, axis=0, kind="stable")  # NaN is last
    place = np.argsort(order, axis=0, kind="stable")
    kept = np.where(place < stage.count, matrix, np.nan)
    return _drop_empty([_with_values(one, values) for one, values in zip(ordered, kept, strict=True)])


def _filter(series: list[Series], stage: MetricsFilter) -> list[Series]:
    compare = _COMPARE[stage.operator]
    found = []
    for one in series:
        values = np.where(compare(one.values, stage.value), one.values, np.nan)
        kept = [exemplar for exemplar in one.exemplars if compare(exemplar.value, stage.value)]
        found.append(Series(one.labels, values, kept))
    return _drop_empty(found)


def _with_values(one: Series, values: NDArray[np.float64]) -> Series:
    return Series(one.labels, values, one.exemplars)


def _drop_empty(series: list[Series]) -> list[Series]:
    return [one for one in series if not np.isnan(one.values).all()]


def compute(symbol: str, left: Any, right: Any) -> Any:
    """Return the result of arithmetic. A division by zero is no value."""
    with np.errstate(all="ignore"):
        match symbol:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
        return np.where(np.equal(right, 0), np.nan, np.divide(left, np.where(np.equal(right, 0), 1.0, right)))


def combine_with_number(series: Sequence[Series], node: MetricsScalarMath) -> list[Series]:
    """Return the result of arithmetic between each series and a number."""

    def change(value: Any) -> Any:
        pair = (node.number, value) if node.is_left else (value, node.number)
        return compute(node.operator, *pair)

    return [
        Series(
            one.labels, change(one.values), [replace(each, value=float(change(each.value))) for each in one.exemplars]
        )
        for one in series
    ]


def combine_series(symbol: str, left: Sequence[Series], right: Sequence[Series]) -> list[Series]:
    """Return the result for series with equal labels. A single series without labels goes with each of the others."""
    lefts, rights = ({_identify(one.labels): one for one in side} for side in (left, right))
    target = lefts if () in rights else rights
    found = []
    for key in target:
        one, other = lefts.get(key, lefts.get(())), rights.get(key, rights.get(()))
        if one is not None and other is not None:
            values = compute(symbol, one.values, other.values)
            found.append(Series(_merge(symbol, one.labels, other.labels), values, _join_exemplars(one, other)))
    return found


def _identify(labels: Labels) -> Labels:
    return tuple(sorted((pair for pair in labels if pair[0] != NAME), key=str))


def _merge(symbol: str, left: Labels, right: Labels) -> Labels:
    """Return the labels of both sides, and a name if both have one."""
    names = [value.value for labels in (left, right) for name, value in labels if name == NAME]
    found = dict(pair for pair in (*right, *left) if pair[0] != NAME)
    if len(names) == 2:  # both sides
        found[NAME] = Static(Type.STRING, f"({names[0]} {symbol} {names[1]})")
    return tuple(found.items())


def _join_exemplars(left: Series, right: Series) -> list[Exemplar]:
    is_left_wider, is_right_wider = (len(_identify(one.labels)) == 0 for one in (left, right))
    if is_left_wider == is_right_wider:
        return [*left.exemplars, *right.exemplars]
    return right.exemplars if is_left_wider else left.exemplars
