"""Small messages for tests, made by hand."""

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from neve.otlp import Decoded, Intake, decode

NOW = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
INTAKE = Intake(organization_id="acme", received_unix_nano=NOW)
SCOPE = InstrumentationScope(name="lib", version="1")


def text(key: str, value: str) -> KeyValue:
    """A string attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=value))


def resource(service: str) -> Resource:
    """A resource that names its service."""
    return Resource(attributes=[text("service.name", service)])


def traces(count: int = 3, *, service: str = "cart", first: int = 0) -> bytes:
    """A message of spans, a minute apart, numbered from `first`."""
    spans = [
        Span(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name=f"op-{number}",
            kind=Span.SPAN_KIND_SERVER,
            start_time_unix_nano=NOW - number * 60 * SECOND,
            end_time_unix_nano=NOW - number * 60 * SECOND + 5_000_000,
            attributes=[text("n", str(number))],
        )
        for number in range(first, first + count)
    ]
    group = ResourceSpans(resource=resource(service), scope_spans=[ScopeSpans(scope=SCOPE, spans=spans)])
    return ExportTraceServiceRequest(resource_spans=[group]).SerializeToString()


def logs(count: int = 3, *, service: str = "cart", first: int = 0) -> bytes:
    """A message of log records, a second apart, numbered from `first`."""
    records = [
        LogRecord(time_unix_nano=NOW - number * SECOND, severity_number=9, body=AnyValue(string_value=f"line {number}"))  # type: ignore[arg-type]
        for number in range(first, first + count)
    ]
    group = ResourceLogs(resource=resource(service), scope_logs=[ScopeLogs(scope=SCOPE, log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group]).SerializeToString()


def metrics(count: int = 3, *, service: str = "cart", first: int = 0) -> bytes:
    """A message of one gauge with points a second apart, numbered from `first`."""
    points = [
        NumberDataPoint(time_unix_nano=NOW - number * SECOND, as_int=number) for number in range(first, first + count)
    ]
    metric = Metric(name="queue.depth", unit="1", gauge=Gauge(data_points=points))
    group = ResourceMetrics(resource=resource(service), scope_metrics=[ScopeMetrics(scope=SCOPE, metrics=[metric])])
    return ExportMetricsServiceRequest(resource_metrics=[group]).SerializeToString()


MAKERS = {Signal.TRACES: traces, Signal.LOGS: logs, Signal.METRICS: metrics}


def decoded(signal: Signal, *messages: bytes, organization_id: str = "acme") -> Decoded:
    """Messages as the receiver of an organization decodes them."""
    return decode(signal, list(messages), Intake(organization_id, NOW))
