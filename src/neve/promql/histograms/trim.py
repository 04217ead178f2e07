"""Trim native histograms: `</` keeps observations below a value, `>/` those above it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from neve.promql.histograms.native import Bucket, Buckets, Histogram
from neve.promql.histograms.quantiles import fraction_below

__all__ = ["trim"]


@dataclass(frozen=True, slots=True)
class _Trim:
    value: float
    is_upper: bool
    is_custom: bool

    def cut(self, bucket: Bucket, *, is_positive: bool) -> tuple[float, float]:
        """Return the observations of a bucket that are kept, and their estimated middle."""
        is_inside = bucket.upper <= self.value if self.is_upper else bucket.lower >= self.value
        if is_inside:
            return bucket.count, _middle(bucket.lower, bucket.upper, is_positive, self.is_custom)
        is_outside = bucket.lower >= self.value if self.is_upper else bucket.upper <= self.value
        if is_outside or bucket.count == 0:
            return 0.0, 0.0
        if bucket.lower == -math.inf:
            return self._cut_lowest(bucket)
        if bucket.upper == math.inf:
            return (0.0, 0.0) if self.is_upper else (bucket.count, self.value)
        below = bucket.count * fraction_below(bucket, self.value, is_linear=self.is_custom)
        if self.is_upper:
            return below, _middle(bucket.lower, self.value, is_positive, self.is_custom)
        return bucket.count - below, _middle(self.value, bucket.upper, is_positive, self.is_custom)

    def _cut_lowest(self, bucket: Bucket) -> tuple[float, float]:
        """Cut a bucket without a lower bound: it begins at 0 if its upper bound is positive."""
        if self.is_upper and bucket.upper <= 0:
            return bucket.count, self.value
        if bucket.upper == math.inf or self.value < 0 or (self.is_upper and self.value == 0):
            return 0.0, 0.0
        part = self.value / bucket.upper
        if self.is_upper:
            return bucket.count * part, self.value / 2
        return bucket.count * (1 - part), (self.value + bucket.upper) / 2

    def cut_zero(self, bucket: Bucket, has_negative: bool, has_positive: bool) -> tuple[float, float]:
        """Cut the zero bucket, which is uniform and ends at 0 on a side without buckets."""
        lower = 0.0 if has_positive and not has_negative else bucket.lower
        upper = 0.0 if has_negative and not has_positive else bucket.upper
        if self.value <= lower or self.value >= upper:
            is_kept = (self.value >= upper) if self.is_upper else (self.value <= lower)
            return (bucket.count, (lower + upper) / 2) if is_kept else (0.0, 0.0)
        if self.is_upper:
            return bucket.count * (self.value - lower) / (upper - lower), (lower + self.value) / 2
        return bucket.count * (upper - self.value) / (upper - lower), (self.value + upper) / 2


def _middle(lower: float, upper: float, is_positive: bool, is_linear: bool) -> float:
    if math.isinf(lower):
        if math.isinf(upper):
            return 0.0
        return upper / 2 if upper > 0 else upper
    if math.isinf(upper):
        return lower
    if is_linear:
        return (lower + upper) / 2
    mean = math.sqrt(abs(lower * upper))
    return mean if is_positive else -mean


def trim(histogram: Histogram, value: float, *, is_upper: bool) -> Histogram:
    """Return the histogram with only the observations below (`is_upper`) or above a value. Sums are estimated."""
    rule = _Trim(value, is_upper, histogram.is_custom)
    parts: list[tuple[float, float]] = []
    sides = []
    for buckets, listed, is_positive in (
        (histogram.positive, histogram.positive_buckets(), True),
        (histogram.negative, histogram.negative_buckets(), False),
    ):
        found = [rule.cut(one, is_positive=is_positive) for one in listed]
        parts += found
        sides.append(Buckets(buckets.indexes, np.array([count for count, _ in found], np.float64)))
    zero_count = histogram.zero_count
    if zero_count > 0:
        has_negative, has_positive = bool(histogram.negative.counts.any()), bool(histogram.positive.counts.any())
        zero_count, middle = rule.cut_zero(histogram.zero_bucket(), has_negative, has_positive)
        parts.append((zero_count, middle))
    positive, negative = sides
    is_same = np.array_equal(positive.counts, histogram.positive.counts) and np.array_equal(
        negative.counts, histogram.negative.counts
    )
    if is_same and zero_count == histogram.zero_count:
        return histogram
    count = sum(count for count, _ in parts)
    total = sum(middle * count for count, middle in parts)
    trimmed = replace(histogram, count=count, sum=total, zero_count=zero_count, positive=positive, negative=negative)
    return trimmed.compact()
