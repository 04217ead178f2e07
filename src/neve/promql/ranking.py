"""Aggregations that choose series: topk, bottomk, limitk, limit_ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.lexical.literals import format_general
from neve.promql.labels import hash_labels
from neve.promql.matrix import Matrix, empty_matrix

if TYPE_CHECKING:
    from neve.promql.evaluator import Evaluator
    from neve.promql.language.syntax import Aggregate
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["evaluate_ranking"]

_MAX_INTEGER = float(1 << 63)


def evaluate_ranking(
    evaluator: Evaluator, node: Aggregate, matrix: Matrix, members: Integers, parameter: Floats
) -> Matrix:
    """Return the chosen series of each group, with all their labels."""
    if node.operator == "limit_ratio":
        return _limit_ratio(evaluator, node, matrix, parameter)
    if not parameter.max() >= 1 and not np.isnan(parameter).any():
        return empty_matrix(evaluator.steps)
    _check_count(parameter)
    counts = np.trunc(np.clip(parameter, 0, len(matrix))).astype(np.int64)
    if node.operator == "limitk":
        return matrix.mask(_choose_first(matrix.present, members, counts))
    if matrix.histograms is not None and matrix.is_histogram().any():
        evaluator.annotations.ignored_in_aggregation(node.operator, node.span)
    floats = matrix.is_float()
    keys = np.where(floats, -matrix.values if node.operator == "topk" else matrix.values, np.nan)
    order = _order(keys, floats, members)
    chosen = _choose_ordered(floats, members, counts, order)
    if evaluator.steps == 1:
        ranked = order[:, 0]
        return matrix.rows(ranked[chosen[ranked, 0]])
    return matrix.mask(chosen)


def _check_count(parameter: Floats) -> None:
    if np.isnan(parameter).any():
        raise EvaluationFailed("Parameter value is NaN")
    if parameter.min() <= -_MAX_INTEGER:
        raise EvaluationFailed(f"Scalar value {format_general(float(parameter.min()))} underflows int64")
    if parameter.max() >= _MAX_INTEGER:
        raise EvaluationFailed(f"Scalar value {format_general(float(parameter.max()))} overflows int64")


def _choose_first(present: Bools, members: Integers, counts: Integers) -> Bools:
    order = np.argsort(members, kind="stable")
    return _choose_ordered(present, members, counts, np.broadcast_to(order[:, None], present.shape))


def _order(keys: Floats, floats: Bools, members: Integers) -> Integers:
    """Return for each step the rows in order of group, then value; NaN comes last, missing values after it."""
    groups = np.broadcast_to(members[:, None], keys.shape)
    return np.lexsort((np.arange(len(members))[:, None] + np.zeros(keys.shape), keys, ~floats, groups), axis=0)


def _choose_ordered(present: Bools, members: Integers, counts: Integers, order: Integers) -> Bools:
    """Return the first `counts` present rows of each group at each step, in the given order."""
    there = np.take_along_axis(present, order, axis=0)
    running = np.cumsum(there, axis=0)
    starts = np.searchsorted(np.sort(members), members[order])  # the order is by group
    before = np.where(starts > 0, np.take_along_axis(running, np.maximum(starts - 1, 0), axis=0), 0)
    ranked = there & (running - before <= counts[None, :])
    chosen = np.zeros(present.shape, np.bool_)
    np.put_along_axis(chosen, order, ranked, axis=0)
    return chosen


def _limit_ratio(evaluator: Evaluator, node: Aggregate, matrix: Matrix, ratios: Floats) -> Matrix:
    """Return a share of the series: those whose hash is below the ratio, or for a negative ratio the others."""
    if np.isnan(ratios).any():
        raise EvaluationFailed("Ratio value is NaN")
    span = node.span if node.parameter is None else node.parameter.span
    if ratios.max() > 1:
        evaluator.annotations.invalid_ratio(float(ratios.max()), 1.0, span)
    if ratios.min() < -1:
        evaluator.annotations.invalid_ratio(float(ratios.min()), -1.0, span)
    offsets = np.array([hash_labels(one) / float((1 << 64) - 1) for one in matrix.labels])[:, None]
    limits = np.clip(ratios, -1, 1)[None, :]
    chosen = ((limits >= 0) & (offsets < limits)) | ((limits < 0) & (offsets >= 1 + limits))
    return matrix.mask(chosen & (limits != 0))
