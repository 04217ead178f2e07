"""Quantiles and fractions of native histograms."""

from __future__ import annotations

import math

from neve.promql.histograms.native import Bucket, Histogram

__all__ = [
    "NAN_FRACTION",
    "NAN_RESULT",
    "NAN_SKEW",
    "fraction_below",
    "histogram_fraction",
    "histogram_quantile",
    "variance",
]

NAN_RESULT = "input to histogram_quantile has NaN observations, result is NaN"
NAN_SKEW = "input to histogram_quantile has NaN observations, result is skewed higher"
NAN_FRACTION = "input to histogram_fraction has NaN observations, which are excluded from all fractions"


def fraction_below(bucket: Bucket, value: float, *, is_linear: bool) -> float:
    """Return which part of a bucket's observations is below a value: uniform, or uniform on a logarithmic scale."""
    if is_linear:
        return (value - bucket.lower) / (bucket.upper - bucket.lower)
    low, high, at = (math.log2(abs(one)) for one in (bucket.lower, bucket.upper, value))
    return (at - low) / (high - low) if value > 0 else 1 - (at - high) / (low - high)


def histogram_quantile(quantile: float, histogram: Histogram) -> tuple[float, str]:
    """Return the quantile, and the text of an annotation or ""."""
    if quantile < 0 or quantile > 1:
        return math.copysign(math.inf, quantile), ""
    if histogram.count == 0 or math.isnan(quantile):
        return math.nan, ""
    buckets = histogram.all_buckets()
    has_nan = math.isnan(histogram.sum)
    is_forward = has_nan or quantile < 0.5
    rank = (quantile if is_forward else 1 - quantile) * histogram.count
    order = buckets if is_forward else buckets[::-1]
    bucket, count = _find_bucket(order, rank)
    if not histogram.is_custom:
        bucket = _natural_bounds(histogram, bucket)
    if histogram.is_custom and math.isinf(bucket.lower):
        if bucket.upper <= 0:
            return bucket.upper, ""
        bucket = Bucket(0.0, bucket.upper, bucket.count)
    elif histogram.is_custom and math.isinf(bucket.upper):
        return bucket.lower, ""
    count = min(count, histogram.count)
    if count < rank:
        return (math.nan, NAN_RESULT) if has_nan else (bucket.upper, "")
    rank = rank - (count - bucket.count) if is_forward else count - rank
    is_skewed = has_nan and sum(one.count for one in buckets) < histogram.count
    return _interpolate(histogram, bucket, rank), NAN_SKEW if is_skewed else ""


def _find_bucket(buckets: list[Bucket], rank: float) -> tuple[Bucket, float]:
    bucket, count = Bucket(0.0, 0.0, 0.0), 0.0
    for one in buckets:
        bucket = one
        if one.count == 0:
            continue
        count += one.count
        if count >= rank:
            break
    return bucket, count


def _natural_bounds(histogram: Histogram, bucket: Bucket) -> Bucket:
    """Return the bucket round zero with 0 as bound on a side without buckets."""
    if not bucket.lower <= 0 <= bucket.upper:
        return bucket
    if not len(histogram.negative) and len(histogram.positive):
        return Bucket(0.0, bucket.upper, bucket.count)
    if not len(histogram.positive) and len(histogram.negative):
        return Bucket(bucket.lower, 0.0, bucket.count)
    return bucket


def _interpolate(histogram: Histogram, bucket: Bucket, rank: float) -> float:
    fraction = rank / bucket.count if bucket.count else math.nan
    if histogram.is_custom or bucket.lower <= 0 <= bucket.upper:
        return bucket.lower + (bucket.upper - bucket.lower) * fraction
    low, high = math.log2(abs(bucket.lower)), math.log2(abs(bucket.upper))
    if bucket.lower > 0:
        return float(2.0 ** (low + (high - low) * fraction))
    return -float(2.0 ** (high + (low - high) * (1 - fraction)))


def histogram_fraction(lower: float, upper: float, histogram: Histogram) -> tuple[float, str]:
    """Return the fraction of observations between two values, and the text of an annotation or ""."""
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan, ""
    if lower >= upper:
        return 0.0, ""
    buckets = histogram.all_buckets()
    low, high = (_rank(histogram, buckets, one) for one in (lower, upper))
    count, note = histogram.count, ""
    if math.isnan(histogram.sum):
        count = sum(one.count for one in buckets)
        note = NAN_FRACTION if count < histogram.count else ""
    low, high = (count if one is None or one > count else one for one in (low, high))
    return (high - low) / histogram.count, note


def _rank(histogram: Histogram, buckets: list[Bucket], value: float) -> float | None:
    """Return the number of observations below a value, or `None` if it is above all buckets."""
    rank = 0.0
    for one in buckets:
        is_zero = one.lower <= 0 <= one.upper
        bucket = _natural_bounds(histogram, one)
        if bucket.lower >= value:
            return rank
        if bucket.upper > value:
            is_linear = histogram.is_custom or is_zero
            if is_linear and bucket.lower == -math.inf:
                return bucket.count
            if is_linear and bucket.upper == math.inf:
                return rank
            return rank + bucket.count * fraction_below(bucket, value, is_linear=is_linear)
        rank += bucket.count
    return None


def variance(histogram: Histogram) -> float:
    """Return the estimated variance: observations lie at the middle of their buckets."""
    if histogram.count == 0:
        return math.nan
    mean, parts = histogram.sum / histogram.count, []
    for bucket in histogram.all_buckets():
        if bucket.count == 0:
            continue
        if histogram.is_custom:
            middle = (bucket.upper + bucket.lower) / 2
        elif bucket.lower <= 0 <= bucket.upper:
            middle = 0.0
        else:
            middle = math.copysign(math.sqrt(bucket.upper * bucket.lower), bucket.upper)
        parts.append(bucket.count * (middle - mean) ** 2)
    try:
        return math.fsum(parts) / histogram.count
    except (OverflowError, ValueError):
        return sum(parts) / histogram.count
