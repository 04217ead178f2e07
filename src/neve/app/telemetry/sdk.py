"""OpenTelemetry's SDK behind Neve's own telemetry: the tracer, the log handler, and the session that exports both."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import ReadWriteLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanKind, Status, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from neve import __version__
from neve.app.telemetry.config import resolve_endpoint
from neve.app.telemetry.exporters import DROPPED, LogQueue, OtlpSender, SpanQueue, close_queues
from neve.app.telemetry.tracing import SWITCH, trace_ids

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace import SpanProcessor

    from neve.app.telemetry.config import TelemetryConfig
    from neve.app.telemetry.tracing import Value


# Attributes that are fields of a log record.
RECORD_FIELDS = ("event", "level", "logger", "timestamp", "exc_info")
SEVERITIES = (
    (logging.CRITICAL, SeverityNumber.FATAL, "FATAL"),
    (logging.ERROR, SeverityNumber.ERROR, "ERROR"),
    (logging.WARNING, SeverityNumber.WARN, "WARN"),
    (logging.INFO, SeverityNumber.INFO, "INFO"),
    (logging.NOTSET, SeverityNumber.DEBUG, "DEBUG"),
)
LEAST_INT, MOST_INT = -(2**63), 2**63 - 1


class OtlpLogHandler(logging.Handler):
    """Log handler that queues log lines for export; a line that can't be converted is dropped and counted."""

    def __init__(self, level: str, resource: Resource, put: Callable[[ReadWriteLogRecord], None]) -> None:
        super().__init__(level)
        self._resource, self._put = resource, put

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line."""
        try:
            emitted = ReadWriteLogRecord(_log_record(record), self._resource, InstrumentationScope(record.name))
        except Exception:
            DROPPED.labels("logs", "not_encodable").inc()
            return
        self._put(emitted)


def _log_record(record: logging.LogRecord) -> LogRecord:
    # structlog stores its fields in the place of the message.
    fields: Mapping[str, Any] = record.msg if isinstance(record.msg, Mapping) else {"event": record.getMessage()}
    number, text = next((number, text) for least, number, text in SEVERITIES if record.levelno >= least)
    attributes = {
        key: to_otlp_value(value) for key, value in fields.items() if key not in RECORD_FIELDS and value is not None
    }
    if _is_current(attributes.get("trace_id"), attributes.get("span_id")):
        del attributes["trace_id"], attributes["span_id"]  # they are fields of the record
    return LogRecord(
        timestamp=int(record.created * 1e9),
        observed_timestamp=time.time_ns(),
        severity_number=number,
        severity_text=text,
        body=str(fields.get("event", "")),
        attributes={**attributes, **_exception_attributes(fields.get("exc_info") or record.exc_info)},
    )


def _is_current(trace_id: Any, span_id: Any) -> bool:
    return trace_id is not None and (trace_id, span_id) == trace_ids()


def _exception_attributes(error_info: Any) -> dict[str, str]:
    """Return an error as OpenTelemetry's exception attributes; structlog passes True for the current exception."""
    error = (
        error_info
        if isinstance(error_info, BaseException)
        else (error_info[1] if isinstance(error_info, tuple) else None)
    )
    if error_info is True:
        error = sys.exc_info()[1]
    if error is None:
        return {}
    return {
        "exception.type": type(error).__name__,
        "exception.message": str(error),
        "exception.stacktrace": "".join(traceback.format_exception(error)),
    }


def to_otlp_value(value: Any) -> Any:
    """Return a value as OTLP has it; a value without an OTLP type becomes text.

    >>> to_otlp_value({"a": (1, None), "b": 2**70})
    {'a': [1, None], 'b': '1180591620717411303424'}
    """
    if isinstance(value, Mapping):
        return {str(key): to_otlp_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_otlp_value(item) for item in value]
    if isinstance(value, int) and not LEAST_INT <= value <= MOST_INT:
        return str(value)
    return value if value is None or isinstance(value, str | bool | int | float | bytes) else str(value)


PREFIX = "neve."
CONTEXT = (b"traceparent", b"tracestate")
SERVER_ERROR = 500


@dataclass(frozen=True)
class LiveSpan:
    """A span of the SDK."""

    span: trace.Span

    def set(self, **attributes: Value) -> None:
        """Add attributes."""
        self.span.set_attributes(prefix_attributes(attributes))


@dataclass(frozen=True)
class LiveRequest(LiveSpan):
    """A span of a request, named by its route instead of its path, because routes are few."""

    method: str

    def end_with(self, status: int, route: str) -> None:
        """Set the status and the route of the response."""
        self.span.set_attribute("http.response.status_code", status)
        if route:
            self.span.update_name(f"{self.method} {route}")
            self.span.set_attribute("http.route", route)
        if status >= SERVER_ERROR:
            self.span.set_status(Status(StatusCode.ERROR))


class SdkTracer:
    """Tracer that queues ended, sampled spans for export."""

    def __init__(self, resource: Resource, sample_ratio: float, processor: SpanProcessor) -> None:
        sampler = ParentBased(TraceIdRatioBased(sample_ratio))
        provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        provider.add_span_processor(processor)
        self._tracer = provider.get_tracer("neve")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value]) -> Iterator[LiveSpan]:
        """Start a child span of the current one."""
        with self._tracer.start_as_current_span(name, attributes=prefix_attributes(attributes)) as started:
            yield LiveSpan(started)

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Iterator[LiveRequest]:
        """Start the span of a request, as a child of the span in its headers; invalid headers are ignored."""
        carried = {name.decode(): headers[name].decode("latin-1") for name in CONTEXT if name in headers}
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carried) if carried else None,
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.path": path},
        ) as started:
            yield LiveRequest(started, method)

    def ids(self) -> tuple[str, str] | None:
        """Return the ids of the current trace and span."""
        context = trace.get_current_span().get_span_context()
        return (format_trace_id(context.trace_id), format_span_id(context.span_id)) if context.is_valid else None


def prefix_attributes(attributes: Mapping[str, Value]) -> dict[str, str | bool | int | float]:
    """Return attributes with the prefix `neve.`, without None values.

    >>> prefix_attributes({"table": "logs", "reason": None})
    {'neve.table': 'logs'}
    """
    return {f"{PREFIX}{name}": value for name, value in attributes.items() if value is not None}


LOGGER = "neve"


class TelemetrySession:
    """Export of telemetry from construction until it is closed."""

    def __init__(self, config: TelemetryConfig, process: str, receiver_address: str | None) -> None:
        place = resolve_endpoint(config, receiver_address)
        resource = build_resource(process)
        self._config = config
        self._spans = SpanQueue(OtlpSender("traces", place), config)
        self._lines = LogQueue(OtlpSender("logs", place), config)
        self._handler = OtlpLogHandler(config.level, resource, self._lines.on_emit)
        logging.getLogger(LOGGER).addHandler(self._handler)
        SWITCH.tracer = SdkTracer(resource, config.sample_ratio, self._spans)

    def close(self) -> None:
        """Send the queued items within `telemetry.drain_seconds`; later spans are discarded."""
        SWITCH.tracer = None
        logging.getLogger(LOGGER).removeHandler(self._handler)
        close_queues((self._spans, self._lines), self._config.drain_seconds, time.monotonic)


def build_resource(process: str) -> Resource:
    """Return the resource of the telemetry: this process of Neve."""
    return Resource.create(
        {
            "service.name": "neve",
            "service.version": __version__,
            "service.instance.id": str(uuid4()),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
            "neve.process": process,
        }
    )
