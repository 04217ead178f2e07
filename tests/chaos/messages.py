"""Exports as OTLP messages: every record carries its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from tests.telemetry import SCOPE, resource

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.chaos.exports import Export

NUMBER = "chaos.number"
MICROSECOND = 1_000

Message = ExportTraceServiceRequest | ExportLogsServiceRequest | ExportMetricsServiceRequest


def message_of(export: Export, now: int) -> Message:
    """The message of an export; its records lie a microsecond apart and end now."""
    times = {number: now - (export.numbers[-1] - number) * MICROSECOND for number in export.numbers}
    return MAKERS[export.signal](times)


def _traces(times: dict[int, int]) -> ExportTraceServiceRequest:
    spans = [
        Span(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name="work",
            start_time_unix_nano=time - MICROSECOND,
            end_time_unix_nano=time,
            attributes=_numbered(number),
        )
        for number, time in times.items()
    ]
    group = ResourceSpans(resource=resource("chaos"), scope_spans=[ScopeSpans(scope=SCOPE, spans=spans)])
    return ExportTraceServiceRequest(resource_spans=[group])


def _logs(times: dict[int, int]) -> ExportLogsServiceRequest:
    records = [
        LogRecord(time_unix_nano=time, body=AnyValue(string_value=f"line {number}"), attributes=_numbered(number))
        for number, time in times.items()
    ]
    group = ResourceLogs(resource=resource("chaos"), scope_logs=[ScopeLogs(scope=SCOPE, log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group])


def _metrics(times: dict[int, int]) -> ExportMetricsServiceRequest:
    points = [
        NumberDataPoint(time_unix_nano=time, as_int=number, attributes=_numbered(number))
        for number, time in times.items()
    ]
    metric = Metric(name="chaos.points", unit="1", gauge=Gauge(data_points=points))
    group = ResourceMetrics(resource=resource("chaos"), scope_metrics=[ScopeMetrics(scope=SCOPE, metrics=[metric])])
    return ExportMetricsServiceRequest(resource_metrics=[group])


def _numbered(number: int) -> list[KeyValue]:
    return [KeyValue(key=NUMBER, value=AnyValue(int_value=number))]


MAKERS: dict[Signal, Callable[[dict[int, int]], Message]] = {
    Signal.TRACES: _traces,
    Signal.LOGS: _logs,
    Signal.METRICS: _metrics,
}
