"""Samples of series from the points of metrics."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.lexical.literals import format_float
from neve.promql.histograms.arithmetic import combine_all
from neve.promql.histograms.native import Histogram, make_buckets
from neve.promql.labels import Labels, set_label
from neve.promql.series import STALE, Bools, Floats, Integers, Samples, SeriesSet
from neve.promql.storage.point_rows import NO_VALUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["Column", "Points", "build_set", "expand", "list_parts", "split_set"]

_MAX_SCALE, _MIN_SCALE = 8, -4
_DEFAULT_ZERO = 1e-128  # Prometheus' zero bucket where OpenTelemetry has none


@dataclass(frozen=True, slots=True)
class Points:
    """Points of one series of OpenTelemetry, in order of time. `columns` are those of the table."""

    times_ms: Integers
    starts_ms: Integers
    flags: Integers
    is_delta: bool
    columns: dict[str, Any]  # lists, or masked arrays of numbers
    since_ms: int = 0  # the time since which points were read

    @property
    def is_begun(self) -> bool:
        """Return whether the series begins after the time since which points were read: it grows from zero then."""
        if not len(self.times_ms):
            return False
        first = int(self.starts_ms[0])
        return 0 < first < int(self.times_ms[0]) and first >= self.since_ms


@dataclass(frozen=True, slots=True)
class Column:
    """Samples of one series: floats, or `Histogram` objects."""

    labels: Labels
    times_ms: Integers
    values: Any
    starts_ms: Integers

    @property
    def is_histogram(self) -> bool:
        """Return whether the values are histograms."""
        return bool(self.values.dtype == object)

    def clip(self, start_ms: int, end_ms: int) -> Column:
        """Return the samples of a closed time range."""
        kept = (self.times_ms >= start_ms) & (self.times_ms <= end_ms)
        if kept.all():
            return self
        return Column(self.labels, self.times_ms[kept], self.values[kept], self.starts_ms[kept])


def expand(points: Points, kind: str, part: str, labels: Labels) -> Iterator[Column]:
    """Yield the series of one part of a metric: the metric itself, its buckets, its count or its sum."""
    if part in {"_count", "_sum"}:
        yield _floats(points, points.columns[part[1:]], labels)
    elif kind == "histogram":
        yield from _buckets(points, labels)
    elif kind == "exponential_histogram":
        yield _histograms(points, labels)
    elif kind == "summary":
        yield from _quantiles(points, labels)
    else:
        yield _floats(points, points.columns["value"], labels)


def list_parts(kind: str, part: str, late: Sequence[float] | None, labels: Labels) -> list[Labels]:
    """Return the label sets of one part of a metric, for the bounds or quantiles of its points.

    >>> list_parts("histogram", "_bucket", [0.5], ())
    [(('le', '0.5'),), (('le', '+Inf'),)]
    """
    if kind == "histogram" and part == "_bucket":
        return [set_label(labels, "le", format_float(bound)) for bound in (*(late or ()), math.inf)]
    if kind == "summary" and not part:
        return [set_label(labels, "quantile", format_float(one)) for one in late or ()]
    return [labels]


def _numbers(values: Any) -> tuple[Floats, Bools]:
    """Return numbers, and which of them are missing."""
    if isinstance(values, np.ma.MaskedArray):
        return values.data, np.ma.getmaskarray(values)
    missing = np.array([value is None for value in values], np.bool_)
    return np.array([math.nan if value is None else value for value in values], np.float64), missing


def _floats(points: Points, values: Any, labels: Labels) -> Column:
    """Return floats. Points without a value are stale marks if they say so, else they are left out.

    Deltas become a running sum. A series that began before the points that were read has a level well above zero, as it
    would have in Prometheus: rates extrapolate a counter to its zero, so a low level would make them too low.
    """
    numbers, missing = _numbers(values)
    is_stale = (points.flags & NO_VALUE) != 0
    kept = is_stale | ~missing
    if points.is_delta:
        deltas = np.where(is_stale | missing, 0.0, numbers)
        numbers = np.cumsum(deltas) + (0.0 if points.is_begun else 2 * np.abs(deltas).sum())
    numbers = np.where(is_stale, STALE, numbers)
    column = Column(labels, points.times_ms[kept], numbers[kept], points.starts_ms[kept])
    return _with_origin(column) if points.is_delta and points.is_begun else column


def _with_origin(column: Column) -> Column:
    """Return a running sum with a zero at the start of its first point, so that the first delta counts as growth."""
    if not len(column.times_ms) or not 0 < column.starts_ms[0] < column.times_ms[0]:  # the first point has no value
        return column
    origin = column.starts_ms[:1]
    return Column(
        column.labels,
        np.concatenate((origin, column.times_ms)),
        np.concatenate((np.zeros(1), column.values)),
        np.concatenate((origin, column.starts_ms)),
    )


def _buckets(points: Points, labels: Labels) -> Iterator[Column]:
    """Yield a series for each bound of a histogram, with all observations up to it."""
    layouts: dict[tuple[float, ...], list[tuple[int, list[float], bool]]] = {}
    pairs = zip(
        points.columns["explicit_bounds"], points.columns["bucket_counts"], points.columns["count"], strict=True
    )
    for index, (bounds, counts, count) in enumerate(pairs):
        limits = (*(bounds or ()), math.inf)
        is_missing = not counts and count is None
        listed = counts or [0 if is_missing else count, *(0 for _ in bounds or ())]
        if len(listed) == len(limits):
            layouts.setdefault(limits, []).append((index, listed, is_missing))
    by_bound: dict[float, list[tuple[Integers, Floats, Bools]]] = {}
    for limits, found in layouts.items():
        places = np.array([index for index, _, _ in found], np.int64)
        missing = np.array([is_missing for _, _, is_missing in found], np.bool_)
        running = np.cumsum(np.array([listed for _, listed, _ in found], np.float64), axis=1)
        for column, limit in enumerate(limits):
            by_bound.setdefault(limit, []).append((places, running[:, column], missing))
    for limit, parts in by_bound.items():
        places, values, missing = (np.concatenate([part[field] for part in parts]) for field in range(3))
        order = np.argsort(places, kind="stable")
        places = places[order]
        some = Points(
            points.times_ms[places],
            points.starts_ms[places],
            points.flags[places],
            points.is_delta,
            {},
            points.since_ms,
        )
        numbers = np.ma.MaskedArray(values[order], missing[order])
        yield _floats(some, numbers, set_label(labels, "le", format_float(limit)))


def _quantiles(points: Points, labels: Labels) -> Iterator[Column]:
    by_quantile: dict[float, list[tuple[int, float]]] = {}
    for index, values in enumerate(points.columns["quantile_values"]):
        for one in values or ():
            by_quantile.setdefault(one["quantile"], []).append((index, one["value"]))
    for quantile, found in by_quantile.items():
        places = np.array([index for index, _ in found], np.int64)
        some = Points(points.times_ms[places], points.starts_ms[places], points.flags[places], False, {})
        yield _floats(some, [value for _, value in found], set_label(labels, "quantile", format_float(quantile)))


def _histograms(points: Points, labels: Labels) -> Column:
    found: list[tuple[int, Histogram]] = []
    for index in range(len(points.times_ms)):
        one = _histogram({name: values[index] for name, values in points.columns.items()}, int(points.flags[index]))
        if one is not None:
            found.append((index, one))
    if points.is_delta:
        found = _accumulate(found, is_begun=points.is_begun)
    places = np.array([index for index, _ in found], np.int64)
    values = np.empty(len(found), object)
    values[:] = [one for _, one in found]
    return Column(labels, points.times_ms[places], values, points.starts_ms[places])


def _accumulate(found: list[tuple[int, Histogram]], *, is_begun: bool) -> list[tuple[int, Histogram]]:
    """Return the running sum of histograms, from a level as in `_floats`."""
    deltas = [one for _, one in found if not math.isnan(one.sum)]
    total = None if is_begun or not deltas else combine_all([*deltas, *deltas]).histogram
    result = []
    for index, one in found:
        if math.isnan(one.sum):
            result.append((index, one))
            continue
        total = one if total is None else combine_all([total, one]).histogram
        result.append((index, total))
    return result


def _histogram(row: dict[str, Any], flags: int) -> Histogram | None:
    """Return an exponential histogram as a native one, or `None` if its scale is below Prometheus' lowest."""
    if flags & NO_VALUE:
        return Histogram(sum=STALE)
    scale = row["scale"] or 0
    if scale < _MIN_SCALE or row["count"] is None:
        return None
    levels = max(scale - _MAX_SCALE, 0)
    sides = []
    for side in (row["positive"], row["negative"]):
        counts = (side or {}).get("bucket_counts") or []
        offset = (side or {}).get("offset") or 0
        sides.append(make_buckets(offset + 1, counts).compact().coarsen(levels))
    return Histogram(
        scale - levels,
        float(row["count"]),
        math.nan if row["sum"] is None else float(row["sum"]),
        row["zero_threshold"] or _DEFAULT_ZERO,
        float(row["zero_count"] or 0),
        sides[0],
        sides[1],
    )


def split_set(series: SeriesSet) -> Iterator[Column]:
    """Yield the series of a set without histograms."""
    floats = series.floats
    for labels, (low, high) in zip(series.labels, itertools.pairwise(floats.bounds.tolist()), strict=True):
        yield Column(labels, floats.times[low:high], floats.values[low:high], np.zeros(high - low, np.int64))


def build_set(columns: Sequence[Column]) -> SeriesSet:
    """Return series in order of their labels.

    Columns with the same labels are one series. Of two samples at one time the later column's counts.
    """
    grouped: dict[Labels, list[Column]] = {}
    for one in columns:
        if len(one.times_ms):
            grouped.setdefault(one.labels, []).append(one)
    ordered = sorted(grouped)
    floats = [_merge([one for one in grouped[labels] if not one.is_histogram], np.float64) for labels in ordered]
    histograms = [_merge([one for one in grouped[labels] if one.is_histogram], object) for labels in ordered]
    has_histograms = any(len(times) for times, _, _ in histograms)
    return SeriesSet(
        ordered, _concatenate(floats, np.float64), _concatenate(histograms, object) if has_histograms else None
    )


_Arrays = tuple[Integers, Any, Integers]


def _merge(columns: list[Column], kind: Any) -> _Arrays:
    if not columns:
        return np.empty(0, np.int64), np.empty(0, kind), np.empty(0, np.int64)
    times = np.concatenate([one.times_ms for one in columns])
    values = np.concatenate([one.values for one in columns])
    starts = np.concatenate([one.starts_ms for one in columns])
    if len(times) > 1 and not (np.diff(times) > 0).all():
        order = np.argsort(times, kind="stable")
        last = np.append(np.diff(times[order]) > 0, True)
        order = order[last]
        times, values, starts = times[order], values[order], starts[order]
    return times, values, starts


def _concatenate(arrays: list[_Arrays], kind: Any) -> Samples:
    bounds = np.concatenate(([0], np.cumsum([len(times) for times, _, _ in arrays]))).astype(np.int64)
    if not arrays:
        return Samples(bounds, np.empty(0, np.int64), np.empty(0, kind))
    times, values, starts = (np.concatenate([one[place] for one in arrays]) for place in range(3))
    return Samples(bounds, times, values, starts)
