"""Messages with something in every field that can go wrong, and ways to spoil them."""

import random

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    ArrayValue,
    InstrumentationScope,
    KeyValue,
    KeyValueList,
)
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    Exemplar,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal

NOW = 1_760_000_000_000_000_000

NESTED = AnyValue(
    kvlist_value=KeyValueList(
        values=[
            KeyValue(
                key="hosts", value=AnyValue(array_value=ArrayValue(values=[AnyValue(string_value="a"), AnyValue()]))
            ),
            KeyValue(key="retries", value=AnyValue(int_value=-3)),
        ]
    )
)
ATTRIBUTES = [
    KeyValue(key="text", value=AnyValue(string_value="größe")),
    KeyValue(key="nested", value=NESTED),
    KeyValue(key="number", value=AnyValue(double_value=0.5)),
    KeyValue(key="bytes", value=AnyValue(bytes_value=b"\xff\x00")),
]
RESOURCE = Resource(attributes=ATTRIBUTES)
SCOPE = InstrumentationScope(name="lib", version="1", attributes=ATTRIBUTES)


def damaged(seeded: random.Random, wire: bytes) -> bytes:
    """Bytes of which some were flipped, cut off, taken out, put in or doubled."""
    spoilt = bytearray(wire)
    for _ in range(seeded.randint(1, 4)):
        at = seeded.randrange(len(spoilt) + 1)
        match seeded.randrange(6):
            case 0 | 1 if at < len(spoilt):
                spoilt[at] ^= 1 << seeded.randrange(8)
            case 2 if at < len(spoilt):
                spoilt[at] = seeded.randrange(256)
            case 3 if seeded.random() < 0.3:
                del spoilt[at:]
            case 4:
                spoilt[at:at] = seeded.randbytes(seeded.randint(1, 6))
            case 5:
                spoilt[at:at] = spoilt[at : at + seeded.randint(1, 40)]
    return bytes(spoilt)


def whole() -> dict[Signal, bytes]:
    """A message of each signal that is accepted as it is."""
    return {
        Signal.TRACES: _traces().SerializeToString(),
        Signal.LOGS: _logs().SerializeToString(),
        Signal.METRICS: _metrics().SerializeToString(),
    }


def _traces() -> ExportTraceServiceRequest:
    spans = [
        Span(
            trace_id=b"t" * 16,
            span_id=b"s" * 8,
            name="op",
            start_time_unix_nano=NOW - number,
            end_time_unix_nano=NOW,
            attributes=ATTRIBUTES,
            events=[Span.Event(time_unix_nano=NOW, name="event", attributes=ATTRIBUTES)],
            links=[Span.Link(trace_id=b"l" * 16, span_id=b"k" * 8, attributes=ATTRIBUTES)],
        )
        for number in range(3)
    ]
    group = ResourceSpans(resource=RESOURCE, scope_spans=[ScopeSpans(scope=SCOPE, spans=spans, schema_url="url")])
    return ExportTraceServiceRequest(resource_spans=[group, group])


def _logs() -> ExportLogsServiceRequest:
    records = [
        LogRecord(time_unix_nano=NOW - number, severity_text="INFO", body=NESTED, attributes=ATTRIBUTES)
        for number in range(3)
    ]
    group = ResourceLogs(resource=RESOURCE, scope_logs=[ScopeLogs(scope=SCOPE, log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group, group])


def _metrics() -> ExportMetricsServiceRequest:
    exemplar = Exemplar(time_unix_nano=NOW, as_double=1.5, filtered_attributes=ATTRIBUTES)
    numbers = [
        NumberDataPoint(time_unix_nano=NOW - place, as_int=place, attributes=ATTRIBUTES, exemplars=[exemplar])
        for place in range(3)
    ]
    histogram = HistogramDataPoint(
        time_unix_nano=NOW, count=3, sum=1.0, bucket_counts=[1, 2], explicit_bounds=[0.5], attributes=ATTRIBUTES
    )
    exponential = ExponentialHistogramDataPoint(
        time_unix_nano=NOW,
        count=3,
        positive=ExponentialHistogramDataPoint.Buckets(offset=1, bucket_counts=[3]),
        attributes=ATTRIBUTES,
    )
    summary = SummaryDataPoint(
        time_unix_nano=NOW,
        count=1,
        quantile_values=[SummaryDataPoint.ValueAtQuantile(quantile=0.5, value=2.0)],
        attributes=ATTRIBUTES,
    )
    metrics = [
        Metric(name="gauge", metadata=ATTRIBUTES, gauge=Gauge(data_points=numbers)),
        Metric(name="sum", sum=Sum(data_points=numbers, is_monotonic=True)),
        Metric(name="histogram", histogram=Histogram(data_points=[histogram])),
        Metric(name="exponential", exponential_histogram=ExponentialHistogram(data_points=[exponential])),
        Metric(name="summary", summary=Summary(data_points=[summary])),
    ]
    group = ResourceMetrics(resource=RESOURCE, scope_metrics=[ScopeMetrics(scope=SCOPE, metrics=metrics)])
    return ExportMetricsServiceRequest(resource_metrics=[group])
