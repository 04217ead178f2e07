"""Histograms: points with explicit bounds and points with exponential buckets, each with an exemplar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from opentelemetry.proto.metrics.v1.metrics_pb2 import Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint

from neve.demo.protobuf import key_value, key_values
from neve.demo.tally import Measured, Tally, tally

if TYPE_CHECKING:
    from neve.demo.attributes import Attributes
    from neve.demo.metric import Point
    from neve.demo.timeline import Exports, Floats, Ints

SECONDS_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
MILLIS_BOUNDS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)
SCALE = 3  # of exponential buckets: each is 2 ** (1 / 8), about 9 %, wider than the one before


def explicit_points(
    measured: Measured, bounds: tuple[float, ...], exports: Exports, attributes: Attributes, *, cumulative: bool
) -> list[Point]:
    """Return histogram points; a bucket's upper bound belongs to it, as OTLP says."""
    buckets = np.searchsorted(np.array(bounds), measured.values, side="left").astype(np.int64)
    counted = tally(measured, buckets, len(bounds) + 1, exports, cumulative=cumulative)
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
        for start, time, counts, total, low, high, slowest in _rows(counted)
    ]


def exponential_points(
    measured: Measured, exports: Exports, attributes: Attributes, *, cumulative: bool
) -> list[Point]:
    """Return exponential histogram points that list only the buckets from the lowest used to the highest."""
    indexes = exponential_indexes(measured.values)
    lowest = int(indexes.min())
    width = int(indexes.max()) - lowest + 1
    counted = tally(measured, indexes - lowest, width, exports, cumulative=cumulative)
    labels = key_values(attributes)
    points: list[Point] = []
    for start, time, counts, total, low, high, slowest in _rows(counted):
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
    """Return the bucket of each value: index i holds what is above base**i and at most base**(i + 1)."""
    scaled: Floats = np.log2(values) * float(2**SCALE)
    return np.ceil(scaled).astype(np.int64) - 1


def _rows(counted: Tally) -> zip[tuple[int, int, list[int], float, float, float, int]]:
    """Return a tally's exports as rows of plain numbers, which protobuf takes fastest."""
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


def _exemplars(measured: Measured, number: int) -> list[Exemplar]:
    """Return the slowest span of an export as its example, if it has any."""
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
