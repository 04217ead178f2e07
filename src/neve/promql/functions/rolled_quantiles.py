"""Quantiles of classic histograms over long ranges, from windows that the storage has aggregated already.

Windows have the growth of each bucket since the sample before each sample. Points give the growth since the first
sample of a range, extrapolated to its edges. So three things are unknown: the growth up to the first sample, which is
at most that of the first window of the range, whether the extrapolation of a bucket stops at zero, and the first sample
of a series that begins in the range. Each bucket has therefore an upper bound of its growth, and amounts by which it
may be lower. The smallest and largest quantile that these allow are the bounds of the result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.functions.buckets import check_quantiles, collect_histograms
from neve.promql.functions.rates import Extent, extrapolate
from neve.promql.histograms.classic import bucket_quantiles
from neve.promql.language.syntax import Aggregate, Call, Evaluated, Node, RangeSelector, strip_parens
from neve.promql.matrix import Matrix, merge_rows
from neve.promql.series import Samples
from neve.promql.storage.rolled_windows import has_pauses
from neve.promql.windows import Windows, sum_windows

if TYPE_CHECKING:
    from neve.promql.evaluator import Evaluator
    from neve.promql.selectors import RangeVector
    from neve.promql.series import Bools, Floats
    from neve.promql.storage.rolled_windows import RolledSeries

__all__ = ["LEAST_WINDOWS", "MOST_QUANTILE_ERROR", "bound_quantiles", "find_growth", "grow_buckets"]

LEAST_WINDOWS = 6  # of a range: the first of them is the uncertain part
MOST_QUANTILE_ERROR = 0.15  # relative; points are read where the bound is larger


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of buckets: the estimate, an upper bound, and by how much it may be lower.

    `first` is the growth in the first window, of which each bucket may lack any part. `edges` is what the extrapolation
    may have added to all observations up to a bound.
    """

    estimate: Matrix
    most: Matrix
    first: Matrix
    edges: Matrix


def find_growth(call: Call) -> RangeSelector | None:
    """Return the range of `histogram_quantile(q, sum(rate(x[r])))`, with any number of sums, or `None`."""
    node: Node = strip_parens(call.arguments[1])
    while isinstance(node, Aggregate) and node.operator == "sum":
        node = strip_parens(node.expression)
    if not isinstance(node, Call) or node.function not in {"rate", "increase"}:
        return None
    inside = strip_parens(node.arguments[0])
    return inside if isinstance(inside, RangeSelector) else None


def grow_buckets(found: RolledSeries, vector: RangeVector) -> Growth | None:
    """Return the growth of buckets in each range, or `None` if the windows do not bound it."""
    if has_pauses(found):
        return None
    low, high, budget = vector.floats.low, vector.floats.high, vector.floats.budget
    points = sum_windows(Windows(Samples(found.bounds, found.ends_ms, found.numbers["count"]), low, high, budget))
    present = points >= 2
    if (points[~present] > 0).any():  # a sample that is in no window may be the second one
        return None
    edges = tuple(np.broadcast_to(one, vector.shape)[present] for one in (vector.starts, vector.ends))
    first, last = low[present], high[present] - 1
    gaps, nothing = points[present].astype(np.int64) - 1, np.zeros(len(first), np.int64)
    extent = Extent(found.first_ms[first], found.last_ms[last], gaps, nothing, nothing != 0)
    total, begun = sum_windows(vector.floats)[present], found.numbers["total"][first]
    zero = np.zeros(len(first))
    factor = extrapolate(extent, (edges[0], edges[1]), zero, zero, is_counter=False)
    least = extrapolate(extent, (edges[0], edges[1]), zero, total, is_counter=True)  # from a level of zero
    margin = np.where(np.isin(first, found.bounds[:-1]), 2.2 / np.maximum(gaps + 1, 1), 0.0)
    lower = np.minimum(least, factor) * np.maximum(1 - margin, 0.0)
    most = factor * (1 + margin) * total

    def fill(numbers: Floats) -> Matrix:
        values = np.zeros(vector.shape)
        values[present] = numbers
        return vector.result(values, present)

    return Growth(fill(factor * total), fill(most), fill(lower * begun), fill(most - lower * total))


def bound_quantiles(evaluator: Evaluator, call: Call, growth: Growth) -> tuple[Matrix, float] | None:
    """Return quantiles and the largest relative error, or `None` if there is no bound."""
    quantiles, span = evaluator.scalar(call.arguments[0]).values, call.arguments[1].span
    summed = [
        _sum(evaluator, call.arguments[1], one) for one in (growth.estimate, growth.most, growth.first, growth.edges)
    ]
    if any(one.labels != summed[0].labels for one in summed):
        return None
    found = collect_histograms(evaluator, summed[0], span)
    shape = (len(found.classic), evaluator.steps)
    values, present, error = np.zeros(shape), np.zeros(shape, np.bool_), 0.0
    for place, one in enumerate(found.classic):
        evaluator.budget.visit(4 * len(one.rows) * evaluator.steps)
        mask = found.usable[one.rows]
        present[place] = mask.any(axis=0)
        counts = [matrix.values[one.rows] for matrix in summed]
        if one.bounds[-1] != np.inf or not (mask == mask[0]).all():
            return None
        values[place], _ = bucket_quantiles(quantiles, one.bounds, counts[0], mask)
        bounds = [
            bucket_quantiles(quantiles, one.bounds, numbers, mask)[0]
            for numbers in _bound_counts(quantiles, counts[1], counts[2], counts[3])
        ]
        error = max(error, _find_error(values[place], bounds[0], bounds[1], counts, present[place]))
    check_quantiles(evaluator, quantiles, call.arguments[0].span)
    names = np.ones(len(found.classic), np.bool_)
    result = Matrix([one.labels for one in found.classic], values, present, None, names).mask(present)
    return merge_rows(result), error


def _sum(evaluator: Evaluator, node: Node, inside: Matrix) -> Matrix:
    """Return the sums around the growth of the buckets."""
    node = strip_parens(node)
    if not isinstance(node, Aggregate):
        return inside
    inner = _sum(evaluator, node.expression, inside)
    return evaluator.vector(replace(node, expression=Evaluated(value=inner, span=node.expression.span)))


def _bound_counts(quantiles: Floats, most: Floats, first: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the counts up to each bound of the histograms with the smallest and with the largest quantile.

    Of the growth in the first window, what lies below a bound is missing in one of them and what lies above it in the
    other. The count of all observations is that of the upper bound in both.
    """
    lowest = np.minimum(most + quantiles * (first[-1] - first + edges[-1]), most[-1])
    highest = np.maximum(most - (1 - quantiles) * first - edges, 0.0)
    highest[-1] = most[-1]
    return np.maximum.accumulate(lowest, axis=0), np.maximum.accumulate(highest, axis=0)


def _find_error(values: Floats, low: Floats, high: Floats, counts: list[Floats], present: Bools) -> float:
    _, most, first, edges = counts
    is_filled = present & (most[-1] > 0)
    if (most[-1] - first[-1] - edges[-1] <= 0)[is_filled].any():  # there may be no observation at all
        return np.inf
    away = np.maximum(high - values, values - low)[is_filled]
    size = np.abs(values[is_filled])
    with np.errstate(all="ignore"):
        relative = np.where(away == 0, 0.0, away / size)
    return float(np.where(np.isnan(relative), np.inf, np.maximum(relative, 0.0)).max(initial=0.0))
