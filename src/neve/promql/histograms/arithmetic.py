"""Sums, differences and counter resets of native histograms.

Before two histograms are combined, they get the lower of both schemas, the larger zero bucket, and of custom buckets
the common bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from neve.promql.histograms.native import (
    NO_BUCKETS,
    Buckets,
    Histogram,
    ResetHint,
    add_exactly,
    average,
    merge_buckets,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Combination", "IncompatibleSchemas", "add", "combine_all", "has_reset", "interpolate", "subtract"]


class IncompatibleSchemas(ValueError):
    """Raised when exponential meet custom buckets."""


@dataclass(frozen=True, slots=True)
class Combination:
    """Result of an operation on histograms."""

    histogram: Histogram
    has_collision: bool = False  # one hint says reset, the other the opposite
    is_reconciled: bool = False  # custom bounds differed


def add(left: Histogram, right: Histogram) -> Combination:
    """Return the sum. Raises `IncompatibleSchemas`."""
    return _combine(left, right, 1.0)


def subtract(left: Histogram, right: Histogram) -> Combination:
    """Return the difference. Raises `IncompatibleSchemas`."""
    return _combine(left, right, -1.0)


def _combine(left: Histogram, right: Histogram, sign: float) -> Combination:
    first, second = align([left, right])
    hint, has_collision = _combine_hints(left.hint, right.hint)
    with np.errstate(all="ignore"):
        result = replace(
            first,
            count=first.count + sign * second.count,
            sum=first.sum + sign * second.sum,
            zero_count=first.zero_count + sign * second.zero_count,
            positive=merge_buckets([first.positive, second.positive.scale(sign)]),
            negative=merge_buckets([first.negative, second.negative.scale(sign)]),
            hint=hint,
        )
    return Combination(result, has_collision, left.is_custom and left.bounds != right.bounds)


def combine_all(histograms: Sequence[Histogram], *, is_average: bool = False) -> Combination:
    """Return the sum or the mean of histograms, without rounding errors. Raises `IncompatibleSchemas`."""
    aligned = align(histograms)
    hint = histograms[0].hint
    for one in histograms[1:]:
        hint, _ = _combine_hints(hint, one.hint)
    reduce = average if is_average else add_exactly
    hints = {one.hint for one in histograms}
    positive = merge_buckets([one.positive for one in aligned])
    negative = merge_buckets([one.negative for one in aligned])
    if is_average and len(aligned) > 1:
        positive, negative = (
            _average_buckets(one, [getattr(part, name) for part in aligned])
            for one, name in ((positive, "positive"), (negative, "negative"))
        )
    result = replace(
        aligned[0],
        count=reduce([one.count for one in aligned]),
        sum=reduce([one.sum for one in aligned]),
        zero_count=reduce([one.zero_count for one in aligned]),
        positive=positive,
        negative=negative,
        hint=hint,
    )
    has_collision = {ResetHint.RESET, ResetHint.NOT_RESET} <= hints
    reconciled = result.is_custom and any(a.bounds != b.bounds for a, b in pairwise(histograms))
    return Combination(result, has_collision, reconciled)


def _average_buckets(total: Buckets, parts: list[Buckets]) -> Buckets:
    with np.errstate(all="ignore"):
        counts = total.counts / len(parts)
        overflowed = ~np.isfinite(counts)
        if overflowed.any():
            scaled = merge_buckets([part.scale(1 / len(parts)) for part in parts])
            counts = np.where(overflowed, scaled.counts, counts)
    return Buckets(total.indexes, counts)


def _combine_hints(left: ResetHint, right: ResetHint) -> tuple[ResetHint, bool]:
    if left is right:
        return left, False
    if ResetHint.GAUGE in {left, right}:
        return ResetHint.GAUGE, False
    return ResetHint.UNKNOWN, ResetHint.UNKNOWN not in {left, right}


def align(histograms: Sequence[Histogram]) -> list[Histogram]:
    """Return the histograms with one layout. Raises `IncompatibleSchemas`."""
    if len({one.is_custom for one in histograms}) > 1:
        raise IncompatibleSchemas("exponential and custom buckets can't be combined")
    if histograms[0].is_custom:
        return _align_bounds(histograms)
    aligned = _align_zero(histograms)
    schema = min(one.schema for one in aligned)
    return [coarsen(one, schema) for one in aligned]


def coarsen(histogram: Histogram, schema: int) -> Histogram:
    """Return the histogram in a lower schema."""
    levels = histogram.schema - schema
    if levels <= 0:
        return histogram
    positive, negative = histogram.positive.coarsen(levels), histogram.negative.coarsen(levels)
    return replace(histogram, schema=schema, positive=positive, negative=negative)


def _align_bounds(histograms: Sequence[Histogram]) -> list[Histogram]:
    if len({one.bounds for one in histograms}) == 1:
        return list(histograms)
    common = set(histograms[0].bounds).intersection(*(one.bounds for one in histograms[1:]))
    return [_map_bounds(one, tuple(sorted(common))) for one in histograms]


def _map_bounds(histogram: Histogram, bounds: tuple[float, ...]) -> Histogram:
    table = np.array([*histogram.bounds, math.inf])
    uppers = table[np.clip(histogram.positive.indexes, 0, len(table) - 1)]
    indexes = np.searchsorted(np.array(bounds), uppers).astype(np.int64)
    positive = merge_buckets([Buckets(indexes, histogram.positive.counts)])
    return replace(histogram, positive=positive.compact(), bounds=bounds)


def _align_zero(histograms: Sequence[Histogram]) -> list[Histogram]:
    aligned = list(histograms)
    while True:
        threshold = max(one.zero_threshold for one in aligned)
        if all(one.zero_threshold == threshold for one in aligned):
            return aligned
        aligned = [one if one.zero_threshold == threshold else widen_zero(one, threshold) for one in aligned]


def widen_zero(histogram: Histogram, threshold: float) -> Histogram:
    """Return the histogram with a larger zero bucket: at least as large, up to the edge of a filled bucket."""
    positive, negative = histogram.positive, histogram.negative
    while True:
        wider = max(_filled_edge(histogram, one, threshold) for one in (positive, negative))
        if wider == threshold:
            break
        threshold = wider
    kept, merged = [], [histogram.zero_count]
    for buckets in (positive, negative):
        inside = histogram.edges(buckets.indexes)[0] < threshold
        merged += buckets.counts[inside].tolist()
        kept.append(Buckets(buckets.indexes[~inside], buckets.counts[~inside]).compact())
    zero_count = add_exactly(merged)
    return replace(histogram, zero_threshold=threshold, zero_count=zero_count, positive=kept[0], negative=kept[1])


def _filled_edge(histogram: Histogram, buckets: Buckets, threshold: float) -> float:
    """Return the upper bound of the filled bucket that contains the threshold, else the threshold."""
    lower, upper = histogram.edges(buckets.indexes)
    cut = (lower < threshold) & (upper > threshold) & (buckets.counts != 0)
    return float(upper[cut].max()) if cut.any() else threshold


def has_reset(current: Histogram, previous: Histogram) -> bool:
    """Return whether a counter was reset between two samples."""
    if current.hint in {ResetHint.RESET, ResetHint.NOT_RESET}:
        return current.hint is ResetHint.RESET
    has_other_layout = current.schema > previous.schema or current.is_custom != previous.is_custom
    if current.count < previous.count or has_other_layout:
        return True
    if current.is_custom:
        now, before = _align_bounds([current, previous])
        return _has_shrunk(now.positive, before.positive)
    if current.zero_threshold < previous.zero_threshold:
        return True
    return _has_reset_exponential(current, previous)


def _has_reset_exponential(current: Histogram, previous: Histogram) -> bool:
    if current.zero_threshold > previous.zero_threshold:
        previous = widen_zero(previous, current.zero_threshold)
        if previous.zero_threshold != current.zero_threshold:
            return True
    if current.zero_count < previous.zero_count:
        return True
    before = coarsen(previous, current.schema)
    return _has_shrunk(current.positive, before.positive) or _has_shrunk(current.negative, before.negative)


def _has_shrunk(now: Buckets, before: Buckets) -> bool:
    return bool((now.get(before.indexes) < before.counts).any())


def interpolate(
    earlier: Histogram, earlier_ms: int, later: Histogram, later_ms: int, at_ms: int, *, is_counter: bool
) -> Combination:
    """Return the histogram between two samples at a time. A counter that was reset begins at zero."""
    if at_ms == earlier_ms:
        return Combination(earlier)
    if at_ms == later_ms:
        return Combination(later)
    fraction = (at_ms - earlier_ms) / (later_ms - earlier_ms)
    if is_counter and has_reset(later, earlier):
        return Combination(later.scale(fraction))
    growth = subtract(later, earlier)
    result = add(growth.histogram.scale(fraction), earlier)
    return Combination(result.histogram, False, growth.is_reconciled or result.is_reconciled)


def empty_like(histogram: Histogram) -> Histogram:
    """Return an empty histogram with the same layout."""
    return Histogram(histogram.schema, bounds=histogram.bounds, positive=NO_BUCKETS)
