"""Native histograms: exponential or custom buckets, stored sparsely."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.lexical.literals import format_general

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CUSTOM_SCHEMA", "NO_BUCKETS", "Bucket", "Buckets", "Histogram", "ResetHint", "make_buckets"]

CUSTOM_SCHEMA = -53
_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_LARGEST = float(np.finfo(np.float64).max)


class ResetHint(Enum):
    """Knowledge of the storage about a counter reset before a sample."""

    UNKNOWN = "unknown"
    RESET = "reset"
    NOT_RESET = "not_reset"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """Counts by bucket index, in order of the index. Gaps are empty buckets."""

    indexes: _Integers
    counts: _Floats

    def __len__(self) -> int:
        return len(self.indexes)

    def compact(self) -> Buckets:
        """Return the buckets that are not empty."""
        filled = self.counts != 0
        return self if filled.all() else Buckets(self.indexes[filled], self.counts[filled])

    def scale(self, factor: float) -> Buckets:
        """Return the buckets with their counts multiplied."""
        return Buckets(self.indexes, self.counts * factor)

    def coarsen(self, levels: int) -> Buckets:
        """Return the buckets of a schema that is lower by `levels`."""
        return self if levels == 0 else merge_buckets([Buckets(((self.indexes - 1) >> levels) + 1, self.counts)])

    def get(self, indexes: _Integers) -> _Floats:
        """Return the counts of these buckets, 0 where there is none."""
        if not len(self):
            return np.zeros(len(indexes))
        at = np.minimum(np.searchsorted(self.indexes, indexes), len(self) - 1)
        found: _Floats = np.where(self.indexes[at] == indexes, self.counts[at], 0.0)
        return found

    def equals(self, other: Buckets) -> bool:
        """Return whether the filled buckets are the same."""
        mine, theirs = self.compact(), other.compact()
        return np.array_equal(mine.indexes, theirs.indexes) and np.array_equal(
            mine.counts, theirs.counts, equal_nan=True
        )


def make_buckets(offset: int, counts: Sequence[float]) -> Buckets:
    """Return adjacent buckets that begin at an index."""
    return Buckets(np.arange(offset, offset + len(counts), dtype=np.int64), np.array(counts, np.float64))


NO_BUCKETS = make_buckets(0, [])


def merge_buckets(parts: Sequence[Buckets]) -> Buckets:
    """Return the sum of buckets, each summed exactly."""
    indexes, places = np.unique(np.concatenate([one.indexes for one in parts]), return_inverse=True)
    counts = np.concatenate([one.counts for one in parts])
    if len(counts) == len(indexes):
        ordered = np.empty(len(indexes))
        ordered[places] = counts
        return Buckets(indexes, ordered)
    if len(parts) <= 2:
        return Buckets(indexes, np.bincount(places, counts, len(indexes)).astype(np.float64))
    grouped: list[list[float]] = [[] for _ in indexes]
    for place, count in zip(places.tolist(), counts.tolist(), strict=True):
        grouped[place].append(count)
    return Buckets(indexes, np.array([add_exactly(one) for one in grouped], np.float64))


def add_exactly(values: Sequence[float]) -> float:
    """Return the sum without rounding errors; infinities and NaN as in plain additions."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return float(np.sum(np.array(values)))


def average(values: Sequence[float]) -> float:
    """Return the mean, also where the sum is too large for a float."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return add_exactly([value / len(values) for value in values])
    except ValueError:
        return math.nan


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bucket with its bounds."""

    lower: float
    upper: float
    count: float


@np.errstate(over="ignore")
def exponential_bounds(indexes: _Integers, schema: int) -> _Floats:
    """Return the upper bounds of exponential buckets: 2 ** (index / 2 ** schema)."""
    if schema < 0:
        exponents = indexes << -schema
        bounds = np.ldexp(1.0, np.clip(exponents, -2000, 2000))
        is_last = exponents == 1024
    else:
        fractions = np.exp2((indexes & ((1 << schema) - 1)) / (1 << schema))
        bounds = np.ldexp(fractions, np.clip(indexes >> schema, -2000, 2000))
        is_last = indexes == 1024 << schema
    found: _Floats = np.where(is_last, _LARGEST, bounds)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Native histogram. `bounds` are the upper bounds of custom buckets, which have `CUSTOM_SCHEMA`."""

    schema: int = 0
    count: float = 0.0
    sum: float = 0.0
    zero_threshold: float = 0.0
    zero_count: float = 0.0
    positive: Buckets = NO_BUCKETS
    negative: Buckets = NO_BUCKETS
    bounds: tuple[float, ...] = ()
    hint: ResetHint = ResetHint.UNKNOWN

    @property
    def is_custom(self) -> bool:
        """Return whether the buckets have custom bounds."""
        return self.schema == CUSTOM_SCHEMA

    def scale(self, factor: float) -> Histogram:
        """Return the histogram with all counts multiplied."""
        return replace(
            self,
            count=self.count * factor,
            sum=self.sum * factor,
            zero_count=self.zero_count * factor,
            positive=self.positive.scale(factor),
            negative=self.negative.scale(factor),
            hint=ResetHint.GAUGE if factor < 0 else self.hint,
        )

    def divide(self, divisor: float) -> Histogram:
        """Return the histogram with all counts divided. Division by zero removes all buckets."""
        with np.errstate(all="ignore"):
            count, total, zero = (float(one) for one in np.array([self.count, self.sum, self.zero_count]) / divisor)
            if divisor == 0:
                return replace(self, count=count, sum=total, zero_count=zero, positive=NO_BUCKETS, negative=NO_BUCKETS)
            positive = Buckets(self.positive.indexes, self.positive.counts / divisor)
            negative = Buckets(self.negative.indexes, self.negative.counts / divisor)
        hint = ResetHint.GAUGE if divisor < 0 else self.hint
        return replace(self, count=count, sum=total, zero_count=zero, positive=positive, negative=negative, hint=hint)

    def compact(self) -> Histogram:
        """Return the histogram without empty buckets."""
        return replace(self, positive=self.positive.compact(), negative=self.negative.compact())

    def with_hint(self, hint: ResetHint) -> Histogram:
        """Return the histogram with another hint."""
        return replace(self, hint=hint)

    def edges(self, indexes: _Integers) -> tuple[_Floats, _Floats]:
        """Return lower and upper bounds of positive buckets."""
        if not self.is_custom:
            return exponential_bounds(indexes - 1, self.schema), exponential_bounds(indexes, self.schema)
        table = np.array([-math.inf, *self.bounds, math.inf])
        last = len(table) - 1
        return table[np.clip(indexes, 0, last)], table[np.clip(indexes + 1, 0, last)]

    def positive_buckets(self) -> list[Bucket]:
        """Return the positive buckets, from the lowest bound."""
        lower, upper = self.edges(self.positive.indexes)
        columns = (lower.tolist(), upper.tolist(), self.positive.counts.tolist())
        return [Bucket(*one) for one in zip(*columns, strict=True)]

    def negative_buckets(self) -> list[Bucket]:
        """Return the negative buckets, from the bound next to zero."""
        lower, upper = self.edges(self.negative.indexes)
        columns = ((-upper).tolist(), (-lower).tolist(), self.negative.counts.tolist())
        return [Bucket(*one) for one in zip(*columns, strict=True)]

    def zero_bucket(self) -> Bucket:
        """Return the bucket round zero."""
        return Bucket(-self.zero_threshold, self.zero_threshold, self.zero_count)

    def all_buckets(self) -> list[Bucket]:
        """Return all buckets in ascending order."""
        zero = [self.zero_bucket()] if self.zero_count > 0 and not self.is_custom else []
        return [*reversed(self.negative_buckets()), *zero, *self.positive_buckets()]

    def equals(self, other: Histogram) -> bool:
        """Return whether two histograms have the same layout and counts. Hints don't matter."""
        mine = (self.schema, self.zero_threshold, self.bounds)
        if mine != (other.schema, other.zero_threshold, other.bounds):
            return False
        totals = [self.count, self.sum, self.zero_count], [other.count, other.sum, other.zero_count]
        return (
            np.array_equal(*totals, equal_nan=True)
            and self.positive.equals(other.positive)
            and self.negative.equals(other.negative)
        )

    def __str__(self) -> str:
        parts = [f"count:{format_general(self.count)}", f"sum:{format_general(self.sum)}"]
        parts += [_format_bucket(one, "[", ")") for one in reversed(self.negative_buckets()) if one.count]
        if self.zero_count:
            parts.append(_format_bucket(self.zero_bucket(), "[", "]"))
        for one in self.positive_buckets():
            if one.count:
                parts.append(_format_bucket(one, "[" if one.lower == -math.inf else "(", "]"))
        return "{" + ", ".join(parts) + "}"


def _format_bucket(bucket: Bucket, left: str, right: str) -> str:
    lower, upper, count = (format_general(one) for one in (bucket.lower, bucket.upper, bucket.count))
    return f"{left}{lower},{upper}{right}:{count}"
