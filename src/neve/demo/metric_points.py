"""Metric streams and their OTLP points: export times, bucket counts, explicit and exponential histograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    NumberDataPoint,
    SummaryDataPoint,
)

from neve.demo.otlp_encoding import key_value, key_values
from neve.demo.spans import SECOND, Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.fleet import Instance
    from neve.demo.spans import Attributes, Span


PERIOD = 15 * SECOND

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Exports:
    """The exports of one process: the instant of each, and the instant of its predecessor."""

    process: Interval
    times: Ints
    previous: Ints

    def slots(self, instants: Ints) -> Ints:
        """Return for each instant the number of the export that first reports it."""
        return np.searchsorted(self.times, instants, side="left").astype(np.int64)

    def starts(self, *, cumulative: bool) -> Ints:
        """Return the start of the interval of each export: the start of the process, or the previous export."""
        return np.full_like(self.times, self.process.start) if cumulative else self.previous


@dataclass(frozen=True, slots=True)
class Timeline:
    """Exports every 15 seconds from the start of the run until every event was reported."""

    start: int
    end: int

    def exports(self, process: Interval) -> Exports:
        """Return a process's exports; a process that ends early exports its remaining counts as it stops."""
        first = (process.start - self.start) // PERIOD + 1
        stop = min(process.end, self.end + 1)
        times = np.arange(self.start + first * PERIOD, stop, PERIOD, dtype=np.int64)
        if process.end <= self.end:
            times = np.append(times, np.int64(process.end))
        previous = np.concatenate((np.array([process.start], dtype=np.int64), times[:-1]))
        return Exports(process, times, previous[: len(times)])


def plan_timeline(run: Interval, latest: int) -> Timeline:
    """Return a timeline whose last export comes after the latest event."""
    periods = -(-(max(run.end, latest) - run.start) // PERIOD)
    return Timeline(run.start, run.start + periods * PERIOD)


Point: TypeAlias = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint
Data: TypeAlias = Literal["gauge", "sum", "histogram", "exponential_histogram", "summary"]

DELTA, CUMULATIVE = 1, 2  # OTLP numbers of temporalities
DELTA_LANGUAGES = ("nodejs", "python", "ruby")  # services in these languages export deltas, not totals


class Metric(NamedTuple):
    """A metric; `temporality` is zero for gauges and summaries, which have none."""

    name: str
    unit: str
    description: str
    data: Data
    temporality: int = 0
    monotonic: bool = False


class Stream(NamedTuple):
    """Points of one metric from one instance."""

    instance: Instance
    metric: Metric
    points: Sequence[Point]


def temporality(language: str) -> int:
    """Return the temporality of counts in a language."""
    return DELTA if language in DELTA_LANGUAGES else CUMULATIVE


def number_points(starts: Ints | None, times: Ints, values: Ints | Floats, attributes: Attributes) -> list[Point]:
    """Return points of integers or of floats, by the type of the array; gauges have no start."""
    labels = key_values(attributes)
    since = times * 0 if starts is None else starts
    field = "as_int" if values.dtype.kind == "i" else "as_double"
    return [
        NumberDataPoint(start_time_unix_nano=start, time_unix_nano=time, attributes=labels, **{field: value})
        for start, time, value in zip(since.tolist(), times.tolist(), values.tolist(), strict=True)
    ]


@dataclass(frozen=True, slots=True)
class SpanDurations:
    """Durations, in the unit of the metric, of the finished spans of one process."""

    spans: Sequence[Span]
    ends: Ints
    values: Floats

    def within(self, exports: Exports) -> SpanDurations:
        """Return the durations of spans that ended while the process ran."""
        start, end = exports.process
        keep = np.flatnonzero((self.ends > start) & (self.ends <= end))
        return SpanDurations([self.spans[i] for i in keep.tolist()], self.ends[keep], self.values[keep])


@dataclass(frozen=True, slots=True)
class Tally:
    """Measurements by export: start, time, counts by bucket, sum, min, max, and the number of the slowest span."""

    starts: Ints
    times: Ints
    counts: Ints
    sums: Floats
    lows: Floats
    highs: Floats
    slowest: Ints


def measure(spans: Sequence[Span], nanos_per_unit: float) -> SpanDurations:
    """Return the durations of spans."""
    ends = np.array([span.end for span in spans], dtype=np.int64)
    starts = np.array([span.start for span in spans], dtype=np.int64)
    return SpanDurations(spans, ends, (ends - starts) / nanos_per_unit)


def count_buckets(measured: SpanDurations, buckets: Ints, width: int, exports: Exports, *, cumulative: bool) -> Tally:
    """Count measurements, already numbered by bucket, into the exports that report them.

    Cumulative exports include the counts of earlier ones and begin with the first measurement. Delta exports without a
    measurement are omitted.
    """
    size = len(exports.times)
    slots = exports.slots(measured.ends)
    counts = np.bincount(slots * width + buckets, minlength=size * width).reshape(size, width).astype(np.int64)
    sums = sum_by_slot(slots, measured.values, size)
    lows, highs = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(lows, slots, measured.values)
    np.maximum.at(highs, slots, measured.values)
    if cumulative:
        counts, sums = counts.cumsum(axis=0), sums.cumsum()
        lows, highs = np.minimum.accumulate(lows), np.maximum.accumulate(highs)
    nonzero = np.flatnonzero(counts.sum(axis=1))
    starts = exports.starts(cumulative=cumulative)
    slowest = _slowest(slots, measured.values, size)
    return Tally(
        starts[nonzero],
        exports.times[nonzero],
        counts[nonzero],
        sums[nonzero],
        lows[nonzero],
        highs[nonzero],
        slowest[nonzero],
    )


def sum_by_slot(slots: Ints, values: Floats, size: int) -> Floats:
    """Return the sum of the values of each slot."""
    return np.bincount(slots, weights=values, minlength=size).astype(np.float64)


def count_open(spans: Sequence[Span], times: Ints) -> Ints:
    """Return the number of open spans at each instant."""
    begun = np.sort(np.array([span.start for span in spans], dtype=np.int64))
    done = np.sort(np.array([span.end for span in spans], dtype=np.int64))
    return (np.searchsorted(begun, times, "right") - np.searchsorted(done, times, "right")).astype(np.int64)


def _slowest(slots: Ints, values: Floats, size: int) -> Ints:
    """Return for each export the number of its largest measurement, or -1 without one."""
    order = np.lexsort((values, slots))
    slowest = np.full(size, -1, dtype=np.int64)
    slowest[slots[order]] = order
    return slowest


SECONDS_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
MILLIS_BOUNDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)
SCALE = 3  # of exponential buckets: each is 2 ** (1 / 8), about 9 %, wider than the one before


def explicit_points(
    measured: SpanDurations, bounds: tuple[float, ...], exports: Exports, attributes: Attributes, *, cumulative: bool
) -> list[Point]:
    """Return histogram points; a bucket includes its upper bound, as in OTLP."""
    buckets = np.searchsorted(np.array(bounds), measured.values, side="left").astype(np.int64)
    counted = count_buckets(measured, buckets, len(bounds) + 1, exports, cumulative=cumulative)
    labels = key_values(attributes)
    return [
        HistogramDataPoint(
            start_time_unix_nano=start,
            time_unix_nano=time,
            count=sum(counts),
            sum=total,
            min=low,
            max=high,
            bucket_counts=counts,
            explicit_bounds=bounds,
            attributes=labels,
            exemplars=_exemplars(measured, slowest),
        )
        for start, time, counts, total, low, high, slowest in _tally_rows(counted)
    ]


def exponential_points(
    measured: SpanDurations, exports: Exports, attributes: Attributes, *, cumulative: bool
) -> list[Point]:
    """Return exponential histogram points that list only the buckets from the lowest used to the highest."""
    indexes = exponential_indexes(measured.values)
    lowest = int(indexes.min())
    width = int(indexes.max()) - lowest + 1
    counted = count_buckets(measured, indexes - lowest, width, exports, cumulative=cumulative)
    labels = key_values(attributes)
    points: list[Point] = []
    for start, time, counts, total, low, high, slowest in _tally_rows(counted):
        used = np.flatnonzero(counts)
        first, last = int(used[0]), int(used[-1])
        points.append(
            ExponentialHistogramDataPoint(
                start_time_unix_nano=start,
                time_unix_nano=time,
                count=sum(counts),
                sum=total,
                min=low,
                max=high,
                scale=SCALE,
                positive=ExponentialHistogramDataPoint.Buckets(
                    offset=lowest + first, bucket_counts=counts[first : last + 1]
                ),
                attributes=labels,
                exemplars=_exemplars(measured, slowest),
            )
        )
    return points


def exponential_indexes(values: Floats) -> Ints:
    """Return the bucket of each value: index i holds values above base**i and at most base**(i + 1)."""
    scaled: Floats = np.log2(values) * float(2**SCALE)
    return np.ceil(scaled).astype(np.int64) - 1


def _tally_rows(counted: Tally) -> zip[tuple[int, int, list[int], float, float, float, int]]:
    """Return a tally's exports as rows of plain numbers, which protobuf accepts fastest."""
    return zip(
        counted.starts.tolist(),
        counted.times.tolist(),
        counted.counts.tolist(),
        counted.sums.tolist(),
        counted.lows.tolist(),
        counted.highs.tolist(),
        counted.slowest.tolist(),
        strict=True,
    )


def _exemplars(measured: SpanDurations, number: int) -> list[Exemplar]:
    """Return the slowest span of an export as its exemplar, if there is one."""
    if number < 0:
        return []
    span = measured.spans[number]
    return [
        Exemplar(
            time_unix_nano=span.end,
            as_double=float(measured.values[number]),
            trace_id=span.trace_id,
            span_id=span.span_id,
            filtered_attributes=[key_value("app.operation", span.operation)],
        )
    ]
