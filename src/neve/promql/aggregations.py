"""Aggregations over the series of a vector, for all groups and steps at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import EvaluationFailed
from neve.lexical.literals import format_float, quote
from neve.promql.histograms.arithmetic import Combination, IncompatibleSchemas, combine_all
from neve.promql.labels import Labels, get, is_valid_name, keep, set_label, without
from neve.promql.language.syntax import METRIC_NAME, Aggregate, Text, strip_parens
from neve.promql.matrix import Matrix, empty_matrix, put_histograms
from neve.promql.quantile import quantile_of_columns
from neve.promql.ranking import evaluate_ranking
from neve.promql.windows import two_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.promql.evaluator import Evaluator
    from neve.promql.histograms.native import Histogram
    from neve.promql.series import Bools, Floats, Integers

__all__ = ["Groups", "evaluate_aggregate", "group_series"]

_RANKINGS = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
_FLOATS_ONLY = frozenset({"min", "max", "stddev", "stdvar", "quantile"})


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of series: the labels of each group, the group of each series."""

    labels: list[Labels]
    members: Integers

    def sorted_rows(self) -> tuple[Integers, Integers]:
        """Return the rows in order of their groups, and where each group begins."""
        order = np.argsort(self.members, kind="stable")
        starts = np.searchsorted(self.members[order], np.arange(len(self.labels)))
        return order, starts


def group_series(labels: list[Labels], names: tuple[str, ...], *, is_without: bool) -> Groups:
    """Return the groups of `by` or `without`, in order of their first series."""
    if is_without:
        dropped = frozenset((*names, METRIC_NAME))
        # Series of LogQL can have empty labels. As in Loki, groups don't.
        keys = [tuple(pair for pair in without(one, dropped) if pair[1]) for one in labels]
    else:
        kept = frozenset(names)
        keys = [keep(one, kept) for one in labels]
    places: dict[Labels, int] = {}
    members = np.array([places.setdefault(key, len(places)) for key in keys], np.int64)
    return Groups(list(places), members)


def evaluate_aggregate(evaluator: Evaluator, node: Aggregate) -> Matrix:
    """Return the value of an aggregation."""
    if node.operator == "count_values":
        return _count_values(evaluator, node)
    parameter = None if node.parameter is None else evaluator.scalar(node.parameter).values
    matrix = evaluator.vector(node.expression)
    groups = group_series(matrix.labels, node.labels, is_without=node.is_without)
    if node.operator in _RANKINGS and parameter is not None:
        return evaluate_ranking(evaluator, node, matrix, groups.members, parameter)
    if not len(matrix):
        return empty_matrix(evaluator.steps)
    if node.operator in _FLOATS_ONLY and matrix.histograms is not None and matrix.is_histogram().any():
        evaluator.annotations.ignored_in_aggregation(node.operator, node.expression.span)
    if node.operator == "quantile" and parameter is not None:
        _check_quantile(evaluator, node, parameter)
        return _by_group(matrix, groups, lambda values, there: quantile_of_columns(values, there, parameter))
    if node.operator in {"sum", "avg"}:
        return _total(evaluator, node, matrix, groups)
    return _simple(node.operator, matrix, groups)


def _result(matrix: Matrix, groups: Groups, values: Floats, present: Bools) -> Matrix:
    dropped = np.zeros(len(groups.labels), np.bool_)
    np.logical_or.at(dropped, groups.members, matrix.name_dropped)
    return Matrix(groups.labels, values, present, None, dropped).mask(present)


def _count(mask: Bools, groups: Groups) -> Integers:
    order, starts = groups.sorted_rows()
    counts: Integers = np.add.reduceat(mask[order].astype(np.int64), starts, axis=0)
    return counts


def _simple(operator: str, matrix: Matrix, groups: Groups) -> Matrix:
    if operator in {"count", "group"}:
        counts = _count(matrix.present, groups)
        totals = counts.astype(np.float64) if operator == "count" else np.ones(counts.shape)
        return _result(matrix, groups, totals, counts > 0)
    order, starts = groups.sorted_rows()
    floats = matrix.is_float()
    present = _count(floats, groups) > 0
    if operator in {"min", "max"}:
        values = np.where(floats, matrix.values, np.nan)[order]
        reduce = np.fmin if operator == "min" else np.fmax
        return _result(matrix, groups, reduce.reduceat(values, starts, axis=0), present)
    variances = _variance(matrix.values, floats, groups)
    return _result(matrix, groups, np.sqrt(variances) if operator == "stddev" else variances, present)


def _by_group(matrix: Matrix, groups: Groups, reduce: Callable[[Floats, Bools], Floats]) -> Matrix:
    """Return the result of a function of each group's rows."""
    order, starts = groups.sorted_rows()
    floats = matrix.is_float()
    ends = [*starts[1:].tolist(), len(order)]
    values = np.empty((len(groups.labels), matrix.present.shape[1]))
    for group, (low, high) in enumerate(zip(starts.tolist(), ends, strict=True)):
        rows = order[low:high]
        values[group] = reduce(matrix.values[rows], floats[rows])
    return _result(matrix, groups, values, _count(floats, groups) > 0)


def _check_quantile(evaluator: Evaluator, node: Aggregate, quantiles: Floats) -> None:
    span = node.expression.span if node.parameter is None else node.parameter.span
    if np.isnan(quantiles).any():
        evaluator.annotations.invalid_quantile(math.nan, span)
    known = quantiles[~np.isnan(quantiles)]
    for bad in (known[known > 1].max(initial=0.0), known[known < 0].min(initial=0.0)):
        if bad != 0:
            evaluator.annotations.invalid_quantile(float(bad), span)


@dataclass(slots=True)
class _Halving:
    """Rows of all groups, combined two by two until one row for each group is left."""

    members: Integers

    def partners(self) -> tuple[Integers, Integers, Integers] | None:
        """Return the rows that stay, and the pairs among them: (kept, place of the pair in kept, row to add)."""
        starts = np.flatnonzero(np.diff(self.members, prepend=-1))
        ranks = np.arange(len(self.members)) - np.repeat(starts, np.diff(np.append(starts, len(self.members))))
        if not (ranks > 0).any():
            return None
        kept = np.flatnonzero(ranks % 2 == 0)
        has_partner = np.append(self.members[1:] == self.members[:-1], False)[kept]
        self.members = self.members[kept]
        return kept, np.flatnonzero(has_partner), kept[has_partner] + 1


def _sum_groups(values: Floats, mask: Bools, groups: Groups) -> Floats:
    """Return the sum of each group, with the precision of twice the digits."""
    order, _ = groups.sorted_rows()
    totals, lost = np.where(mask, values, 0.0)[order], np.zeros(values.shape)
    halving = _Halving(groups.members[order])
    while (found := halving.partners()) is not None:
        kept, places, added = found
        rest, rest_lost = totals[added], lost[added]
        totals, lost = totals[kept], lost[kept]
        totals[places], rounding = two_sum(totals[places], rest)
        lost[places] += rest_lost + rounding
    result: Floats = np.where(np.isfinite(totals), totals + lost, totals)
    return result


def _variance(values: Floats, mask: Bools, groups: Groups) -> Floats:
    """Return the variance of each group, merged two by two."""
    order, _ = groups.sorted_rows()
    counts, means = mask[order].astype(np.float64), np.where(mask, values, 0.0)[order]
    squares = np.where(np.isfinite(means), 0.0, np.nan)
    halving = _Halving(groups.members[order])
    while (found := halving.partners()) is not None:
        kept, places, added = found
        other = counts[added], means[added], squares[added]
        counts, means, squares = counts[kept], means[kept], squares[kept]
        total = counts[places] + other[0]
        delta = np.where((counts[places] > 0) & (other[0] > 0), other[1] - means[places], 0.0)
        share = np.divide(other[0], total, out=np.zeros(total.shape), where=total > 0)
        squares[places] += other[2] + delta * delta * counts[places] * share
        means[places] = np.where(counts[places] > 0, means[places] + delta * share, other[1])
        counts[places] = total
    variances: Floats = np.divide(squares, counts, out=np.full(counts.shape, np.nan), where=counts > 0)
    return variances


def _total(evaluator: Evaluator, node: Aggregate, matrix: Matrix, groups: Groups) -> Matrix:
    """Return sums or means."""
    floats = matrix.is_float()
    counts = _count(floats, groups)
    values = _sum_groups(matrix.values, floats, groups)
    if node.operator == "avg":
        overflowed = ~np.isfinite(values)
        values = np.divide(values, counts, out=np.zeros(values.shape), where=counts > 0)
        if overflowed.any():
            shares = np.divide(matrix.values, np.maximum(counts, 1)[groups.members])
            values = np.where(overflowed, _sum_groups(shares, floats, groups), values)
    result = _result(matrix, groups, values, counts > 0)
    if matrix.histograms is None:
        return result
    return _total_histograms(evaluator, node, matrix, groups, (values, counts > 0))


def _total_histograms(
    evaluator: Evaluator, node: Aggregate, matrix: Matrix, groups: Groups, floats: tuple[Floats, Bools]
) -> Matrix:
    values, present = floats[0], floats[1].copy()
    cells: list[tuple[int, int, Histogram]] = []
    members: dict[tuple[int, int], list[int]] = {}
    for step, row in np.argwhere(matrix.is_histogram().T).tolist():
        members.setdefault((int(groups.members[row]), step), []).append(row)
    for (group, step), rows in members.items():
        if present[group, step]:
            evaluator.annotations.mixed_samples(None, node.expression.span)
            present[group, step] = False
            continue
        found = _combine(evaluator, node, matrix, rows, step)
        if found is not None:
            cells.append((group, step, found))
    for group, step, _ in cells:
        present[group, step] = True
    histograms = put_histograms((len(groups.labels), evaluator.steps), cells)
    dropped = np.zeros(len(groups.labels), np.bool_)
    np.logical_or.at(dropped, groups.members, matrix.name_dropped)
    return Matrix(groups.labels, values, present, histograms, dropped).mask(present)


def _combine(evaluator: Evaluator, node: Aggregate, matrix: Matrix, rows: list[int], step: int) -> Histogram | None:
    annotations, span = evaluator.annotations, node.expression.span
    listed = [matrix.histograms[row, step] for row in rows]  # type: ignore[index]  # there are histograms
    try:
        found: Combination = combine_all(listed, is_average=node.operator == "avg")
    except IncompatibleSchemas:
        other = next(row for row, one in zip(rows, listed, strict=True) if one.is_custom != listed[0].is_custom)
        annotations.mixed_schemas(get(matrix.labels[other], METRIC_NAME), span)
        return None
    if found.is_reconciled:
        annotations.reconciled_buckets("aggregation", span)
    if found.has_collision:
        annotations.reset_collision("aggregation", span)
    evaluator.budget.charge_histogram(found.histogram)
    return found.histogram.compact()


def _count_values(evaluator: Evaluator, node: Aggregate) -> Matrix:
    """Return the number of series with each value. The value becomes a label."""
    name = strip_parens(node.parameter) if node.parameter is not None else None
    if not isinstance(name, Text) or not is_valid_name(name.value):
        raise EvaluationFailed(f"invalid label name {'' if name is None else quote(evaluator.text(name))}")
    matrix = evaluator.vector(node.expression)
    names = node.labels if node.is_without else (*node.labels, name.value)
    counts: dict[Labels, dict[int, int]] = {}
    for row, step in np.argwhere(matrix.present).tolist():
        evaluator.budget.visit()
        histogram = None if matrix.histograms is None else matrix.histograms[row, step]
        text = format_float(float(matrix.values[row, step])) if histogram is None else str(histogram)
        labels = set_label(matrix.labels[row], name.value, text)
        [group] = group_series([labels], names, is_without=node.is_without).labels
        if group not in counts:
            evaluator.budget.charge_labels(len(text))
        steps = counts.setdefault(group, {})
        steps[step] = steps.get(step, 0) + 1
    evaluator.charge_cells(len(counts))
    values = np.zeros((len(counts), evaluator.steps))
    for index, steps in enumerate(counts.values()):
        values[index, list(steps)] = list(steps.values())
    return Matrix(list(counts), values, values > 0, None, np.zeros(len(counts), np.bool_))
