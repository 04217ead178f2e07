"""Quantiles and fractions of classic histograms, whose buckets count all observations up to a bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Repair", "bucket_fractions", "bucket_quantiles"]

_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_TOLERANCE = 1e-12  # smaller differences between buckets are rounding errors
_SMALLEST = float(np.finfo(np.float64).smallest_normal)


@dataclass(slots=True)
class Repair:
    """Steps at which a bucket had less than the bucket below it, and was raised."""

    steps: list[int] = field(default_factory=list)
    bounds: tuple[float, float] = (math.inf, -math.inf)
    difference: float = 0.0


def _patterns(mask: _Bools) -> list[tuple[_Bools, npt.NDArray[np.int64]]]:
    """Return each set of buckets that is present at some steps, and those steps."""
    if mask.all():
        return [(np.ones(len(mask), np.bool_), np.arange(mask.shape[1]))]
    found = []
    unique, places = np.unique(mask, axis=1, return_inverse=True)
    for index in range(unique.shape[1]):
        pattern = unique[:, index]
        if pattern.any():
            found.append((pattern, np.flatnonzero(places == index)))
    return found


def _coalesce(bounds: Sequence[float], counts: _Floats) -> tuple[_Floats, _Floats]:
    """Return the buckets with those of the same bound added."""
    edges = np.array(bounds)
    starts = np.flatnonzero(np.diff(edges, prepend=np.nan) != 0)
    if len(starts) == len(edges):
        return edges, counts.copy()
    return edges[starts], np.add.reduceat(counts, starts, axis=0)


def _raise_buckets(edges: _Floats, counts: _Floats, steps: npt.NDArray[np.int64], repair: Repair) -> None:
    """Make counts grow with the bounds, in place. Tiny differences and steps of -1 are not reported."""
    highest = counts[0].copy()
    repaired = np.zeros(counts.shape[1], np.bool_)
    for index in range(1, len(edges)):
        now = counts[index]
        total = np.abs(highest) + np.abs(now)
        is_tiny = (np.abs(highest - now) < _TOLERANCE * total) & (highest != 0) & (now != 0) & (total >= _SMALLEST)
        has_dip = (now < highest) & ~is_tiny
        reported = has_dip & (steps >= 0)
        if reported.any():
            repaired |= reported
            repair.bounds = min(repair.bounds[0], float(edges[index])), max(repair.bounds[1], float(edges[index]))
            repair.difference = max(repair.difference, float((highest - now)[reported].max()))
        counts[index] = np.where(is_tiny | has_dip, highest, now)
        highest = counts[index]
    repair.steps += steps[repaired].tolist()


def bucket_quantiles(
    quantiles: _Floats, bounds: Sequence[float], counts: _Floats, mask: _Bools
) -> tuple[_Floats, Repair | None]:
    """Return the quantile at each step. Rows are buckets in order of their bounds, columns are steps."""
    result = np.full(counts.shape[1], np.nan)
    repair = Repair()
    for pattern, steps in _patterns(mask):
        chosen = np.flatnonzero(pattern)
        limits = [bounds[index] for index in chosen.tolist()]
        if limits[-1] != math.inf:
            continue
        edges, filled = _coalesce(limits, counts[np.ix_(chosen, steps)])
        is_valid = (quantiles[steps] >= 0) & (quantiles[steps] <= 1)
        _raise_buckets(edges, filled, np.where(is_valid, steps, -1), repair)
        if len(edges) > 1:
            result[steps] = _interpolate(quantiles[steps], edges, filled)
    result = np.where(quantiles < 0, -np.inf, np.where(quantiles > 1, np.inf, result))
    return np.where(np.isnan(quantiles), np.nan, result), repair if repair.steps else None


def _interpolate(quantiles: _Floats, edges: _Floats, counts: _Floats) -> _Floats:
    total = counts[-1]
    ranks = quantiles * total
    reached = counts[:-1] >= ranks[None, :]
    index = np.where(reached.any(axis=0), reached.argmax(axis=0), len(edges) - 1)
    columns = np.arange(counts.shape[1])
    before = np.maximum(index - 1, 0)
    low = np.where(index > 0, edges[before], 0.0)
    below = np.where(index > 0, counts[before, columns], 0.0)
    inside = counts[index, columns] - below
    with np.errstate(all="ignore"):
        values = low + (edges[index] - low) * ((ranks - below) / inside)
    values = np.where((index == 0) & (edges[0] <= 0), edges[0], values)
    values = np.where(index == len(edges) - 1, edges[-2], values)
    return np.where(total == 0, np.nan, values)


def bucket_fractions(
    limits: tuple[_Floats, _Floats], bounds: Sequence[float], counts: _Floats, mask: _Bools
) -> _Floats:
    """Return the fraction of observations between two limits at each step."""
    result = np.full(counts.shape[1], np.nan)
    for pattern, steps in _patterns(mask):
        chosen = np.flatnonzero(pattern)
        edges, filled = _coalesce([bounds[index] for index in chosen.tolist()], counts[np.ix_(chosen, steps)])
        if edges[-1] != math.inf:
            continue
        for place, step in enumerate(steps.tolist()):
            lower, upper = float(limits[0][step]), float(limits[1][step])
            result[step] = _fraction(lower, upper, edges.tolist(), filled[:, place].tolist())
    return result


def _fraction(lower: float, upper: float, edges: list[float], counts: list[float]) -> float:
    total = counts[-1]
    if total == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan
    if lower >= upper:
        return 0.0
    find: Callable[[float], float] = lambda value: min(_rank(value, edges, counts), total)  # noqa: E731  # used twice
    return (find(upper) - find(lower)) / total


def _rank(value: float, edges: list[float], counts: list[float]) -> float:
    """Return the number of observations below a value, interpolated in its bucket."""
    rank, low = 0.0, 0.0 if edges[0] > 0 else -math.inf
    for high, count in zip(edges, counts, strict=True):
        if low >= value:
            return rank
        if high > value:
            if low == -math.inf:
                return count
            return rank if high == math.inf else rank + (count - rank) * (value - low) / (high - low)
        rank, low = count, high
    return counts[-1]
