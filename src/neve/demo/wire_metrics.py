"""Metric streams on the wire: OTLP protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb

from neve.demo.batch import group_by
from neve.demo.protobuf import resource, scope
from neve.demo.semantics import LIBRARY_VERSION, SCHEMA_URL

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.demo.fleet import Instance
    from neve.demo.metric import Metric, Point, Stream

METER = "shop.telemetry"


class Measurement(NamedTuple):
    """One point, and whose and what it is."""

    instance: Instance
    metric: Metric
    point: Point


def measurements(streams: Iterable[Stream]) -> list[Measurement]:
    """Take streams apart into single points, so that they can be cut by time."""
    return [Measurement(stream.instance, stream.metric, point) for stream in streams for point in stream.points]


def metrics_request(points: Iterable[Measurement]) -> ExportMetricsServiceRequest:
    """Return one request of all points, grouped by instance and then by metric."""
    return ExportMetricsServiceRequest(
        resource_metrics=[
            pb.ResourceMetrics(
                resource=resource(instance.resource),
                scope_metrics=[
                    pb.ScopeMetrics(
                        scope=scope(METER, LIBRARY_VERSION),
                        metrics=[
                            wire_metric(metric, [item.point for item in group])
                            for metric, group in group_by(mine, lambda item: item.metric).items()
                        ],
                        schema_url=SCHEMA_URL,
                    )
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(points, lambda item: item.instance).items()
        ]
    )


def wire_metric(metric: Metric, points: Sequence[Point]) -> pb.Metric:
    """Return a metric with its points as OTLP's message."""
    data: Any = points  # all of one kind: the metric's
    how: Any = metric.temporality
    wire = pb.Metric(name=metric.name, unit=metric.unit, description=metric.description)
    match metric.data:
        case "gauge":
            wire.gauge.CopyFrom(pb.Gauge(data_points=data))
        case "sum":
            wire.sum.CopyFrom(pb.Sum(data_points=data, aggregation_temporality=how, is_monotonic=metric.monotonic))
        case "histogram":
            wire.histogram.CopyFrom(pb.Histogram(data_points=data, aggregation_temporality=how))
        case "exponential_histogram":
            wire.exponential_histogram.CopyFrom(pb.ExponentialHistogram(data_points=data, aggregation_temporality=how))
        case "summary":
            wire.summary.CopyFrom(pb.Summary(data_points=data))
    return wire
