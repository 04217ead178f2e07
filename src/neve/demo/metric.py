"""A metric stream: what is measured, by whom, and its points, already in OTLP's own classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogramDataPoint,
    HistogramDataPoint,
    NumberDataPoint,
    SummaryDataPoint,
)

from neve.demo.protobuf import key_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.demo.attributes import Attributes
    from neve.demo.fleet import Instance
    from neve.demo.timeline import Floats, Ints

Point: TypeAlias = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint
Data: TypeAlias = Literal["gauge", "sum", "histogram", "exponential_histogram", "summary"]

DELTA, CUMULATIVE = 1, 2  # OTLP's numbers of temporalities
DELTA_LANGUAGES = ("nodejs", "python", "ruby")  # whose services are set up to export changes, not totals


class Metric(NamedTuple):
    """What is measured; `temporality` is zero for gauges and summaries, which have none."""

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
    """Return how the services of a language export counts."""
    return DELTA if language in DELTA_LANGUAGES else CUMULATIVE


def int_points(starts: Ints | None, times: Ints, values: Ints, attributes: Attributes) -> list[Point]:
    """Return number points of whole numbers; gauges have no start."""
    labels = key_values(attributes)
    since = times * 0 if starts is None else starts
    return [
        NumberDataPoint(start_time_unix_nano=start, time_unix_nano=time, as_int=value, attributes=labels)
        for start, time, value in zip(since.tolist(), times.tolist(), values.tolist(), strict=True)
    ]


def double_points(starts: Ints | None, times: Ints, values: Floats, attributes: Attributes) -> list[Point]:
    """Return number points of fractions; gauges have no start."""
    labels = key_values(attributes)
    since = times * 0 if starts is None else starts
    return [
        NumberDataPoint(start_time_unix_nano=start, time_unix_nano=time, as_double=value, attributes=labels)
        for start, time, value in zip(since.tolist(), times.tolist(), values.tolist(), strict=True)
    ]
