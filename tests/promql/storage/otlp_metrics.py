"""A lake with metrics of all types, of two organizations."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2 as pb
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from neve.lake.commit.append import append_once
from neve.lake.lake import Lake
from neve.lake.write.table_writer import Target, write_files
from neve.model.signals import Signal
from neve.otlp import Intake, decode
from tests.query.lakes import ACME, NOW, OTHER, make_lake, put

START_MS = NOW // 1_000_000 // 60_000 * 60_000 - 20 * 60_000  # whole minutes, before the intake
COUNT = 21
GAP_MS = 60_000
CUMULATIVE, DELTA = pb.AGGREGATION_TEMPORALITY_CUMULATIVE, pb.AGGREGATION_TEMPORALITY_DELTA


def attributes(pairs: dict[str, str]) -> list[KeyValue]:
    """Return attributes of texts."""
    return [KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in pairs.items()]


def nanos(index: int) -> int:
    """Return the time of a point."""
    return (START_MS + index * GAP_MS) * 1_000_000


def numbers(values: Sequence[float], **pairs: str) -> list[pb.NumberDataPoint]:
    """Return points, one for each minute."""
    return [
        pb.NumberDataPoint(
            attributes=attributes(pairs),
            time_unix_nano=nanos(index),
            start_time_unix_nano=nanos(index - 1),
            as_double=value,
        )
        for index, value in enumerate(values)
    ]


def all_metrics() -> list[pb.Metric]:
    """Return a metric of each type."""
    counter = [
        *numbers([60.0 * i for i in range(COUNT)], path="a"),
        *numbers([120.0 * i for i in range(COUNT)], path="b"),
    ]
    classic = [
        pb.HistogramDataPoint(
            time_unix_nano=nanos(i),
            count=10 * i,
            sum=5.0 * i,
            bucket_counts=[4 * i, 4 * i, 2 * i],
            explicit_bounds=[0.1, 1],
        )
        for i in range(COUNT)
    ]
    native = [
        pb.ExponentialHistogramDataPoint(
            time_unix_nano=nanos(i),
            count=4 * i,
            sum=6.0 * i,
            scale=0,
            positive=pb.ExponentialHistogramDataPoint.Buckets(offset=0, bucket_counts=[4 * i]),
        )
        for i in range(COUNT)
    ]
    summary = pb.SummaryDataPoint(
        time_unix_nano=nanos(COUNT - 1),
        count=3,
        sum=9.0,
        quantile_values=[pb.SummaryDataPoint.ValueAtQuantile(quantile=0.5, value=2.5)],
    )
    gone = pb.NumberDataPoint(time_unix_nano=nanos(COUNT - 1), flags=pb.DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK)
    return [
        pb.Metric(
            name="http.requests",
            unit="{request}",
            sum=pb.Sum(is_monotonic=True, aggregation_temporality=CUMULATIVE, data_points=counter),
        ),
        pb.Metric(
            name="jobs",
            sum=pb.Sum(is_monotonic=True, aggregation_temporality=DELTA, data_points=numbers([3.0] * COUNT)),
        ),
        pb.Metric(name="memory", unit="By", gauge=pb.Gauge(data_points=numbers([float(i) for i in range(COUNT)]))),
        pb.Metric(name="ended", gauge=pb.Gauge(data_points=[*numbers([1.0]), gone])),
        pb.Metric(
            name="latency", unit="s", histogram=pb.Histogram(aggregation_temporality=CUMULATIVE, data_points=classic)
        ),
        pb.Metric(
            name="size",
            unit="By",
            exponential_histogram=pb.ExponentialHistogram(aggregation_temporality=CUMULATIVE, data_points=native),
        ),
        pb.Metric(name="old", summary=pb.Summary(data_points=[summary])),
    ]


def message(metrics: list[pb.Metric], service: str) -> ExportMetricsServiceRequest:
    """Return the metrics of a service."""
    resource = Resource(attributes=attributes({"service.name": service, "service.instance.id": "i1"}))
    return ExportMetricsServiceRequest(
        resource_metrics=[pb.ResourceMetrics(resource=resource, scope_metrics=[pb.ScopeMetrics(metrics=metrics)])]
    )


def put_parts(lake: Lake, part: int, parts: int, *, keeps_ids: bool = True) -> None:
    """Commit every n-th row of the metrics, with the ids of their series or as older releases wrote them."""
    wire = message(all_metrics(), "cart").SerializeToString()
    rows = pa.Table.from_batches([decode(Signal.METRICS, [wire], Intake(ACME, NOW)).batch])
    rows = rows.take(pa.array(range(part, rows.num_rows, parts)))
    if not keeps_ids:
        place = rows.schema.get_field_index("series_id")
        rows = rows.set_column(place, rows.schema.field(place), pa.nulls(rows.num_rows, pa.int64()))
    table = lake.table("metrics")
    append_once(table, write_files(Target.of(table), rows), batch_id=f"part {part}", operation="test")


def make_metric_lake(folder: Path, *, keeps_ids: bool = True, parts: int = 1) -> Lake:
    """Return a lake with the metrics of one organization, or the first part of them, and one of another."""
    lake = make_lake(folder)
    put_parts(lake, 0, parts, keeps_ids=keeps_ids)
    secret = pb.Metric(name="secret", gauge=pb.Gauge(data_points=numbers([1.0] * COUNT)))
    put(lake, OTHER, Signal.METRICS, message([secret], "vault"), batch="-secret")
    return lake
