"""Messages of both sides: every record has a number, and a mark that nobody else may ever see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from neve.model.signals import Signal
from tests.siege.plan import HONEST, HOSTILE
from tests.telemetry import SCOPE, resource

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBER = "siege.number"
MICROSECOND = 1_000
# No statement holds them, so that an answer that does has read a row.
MARKS = {HONEST: "mark-of-honest-7c1e55d0", HOSTILE: "mark-of-hostile-3f90ab42"}
NUMBERS = {
    Signal.LOGS: f"SELECT attributes['{NUMBER}']::BIGINT AS n FROM {{logs}} WHERE organization_id = '{HONEST}'",
    Signal.TRACES: f"SELECT attributes['{NUMBER}']::BIGINT AS n FROM {{spans}} WHERE organization_id = '{HONEST}'",
}


def logs(side: str, numbers: Iterable[int], now: int) -> ExportLogsServiceRequest:
    """Log records that end now, a microsecond apart."""
    records = [
        LogRecord(
            time_unix_nano=now - place * MICROSECOND,
            body=AnyValue(string_value=f"{MARKS[side]} line {number}"),
            attributes=_numbered(number),
        )
        for place, number in enumerate(numbers)
    ]
    group = ResourceLogs(resource=resource(MARKS[side]), scope_logs=[ScopeLogs(scope=SCOPE, log_records=records)])
    return ExportLogsServiceRequest(resource_logs=[group])


def traces(side: str, numbers: Iterable[int], now: int) -> ExportTraceServiceRequest:
    """Spans that end now, each of a trace of its own."""
    spans = [
        Span(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name=MARKS[side],
            start_time_unix_nano=now - (place + 1) * MICROSECOND,
            end_time_unix_nano=now,
            attributes=_numbered(number),
        )
        for place, number in enumerate(numbers)
    ]
    group = ResourceSpans(resource=resource(MARKS[side]), scope_spans=[ScopeSpans(scope=SCOPE, spans=spans)])
    return ExportTraceServiceRequest(resource_spans=[group])


def _numbered(number: int) -> list[KeyValue]:
    return [KeyValue(key=NUMBER, value=AnyValue(int_value=number))]
