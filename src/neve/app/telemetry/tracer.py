"""The tracer of OpenTelemetry's SDK behind the spans of Neve's own work."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import SpanKind, Status, StatusCode, format_span_id, format_trace_id
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

    from neve.app.telemetry.traces import Value

PREFIX = "neve."
CONTEXT = (b"traceparent", b"tracestate")
SERVER_ERROR = 500


@dataclass(frozen=True)
class LiveSpan:
    """A span of the SDK."""

    span: trace.Span

    def set(self, **attributes: Value) -> None:
        """Say more about it."""
        self.span.set_attributes(named(attributes))


@dataclass(frozen=True)
class LiveRequest(LiveSpan):
    """A span of a request; it is named by its route, of which there are few, and not by its path."""

    method: str

    def end_with(self, status: int, route: str) -> None:
        """Say how it was answered, and which of the paths it was."""
        self.span.set_attribute("http.response.status_code", status)
        if route:
            self.span.update_name(f"{self.method} {route}")
            self.span.set_attribute("http.route", route)
        if status >= SERVER_ERROR:
            self.span.set_status(Status(StatusCode.ERROR))


class SdkTracer:
    """Makes spans, and hands those that ended and were sampled to whoever sends them."""

    def __init__(self, resource: Resource, sample_ratio: float, put: Callable[[ReadableSpan], None]) -> None:
        sampler = ParentBased(TraceIdRatioBased(sample_ratio))
        provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        provider.add_span_processor(_HandOver(put))
        self._tracer = provider.get_tracer("neve")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, Value]) -> Iterator[LiveSpan]:
        """A span below the current one."""
        with self._tracer.start_as_current_span(name, attributes=named(attributes)) as started:
            yield LiveSpan(started)

    @contextmanager
    def request(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> Iterator[LiveRequest]:
        """A span of a request, below the one that its headers name; what they say wrongly is as if not said."""
        carried = {name.decode(): headers[name].decode("latin-1") for name in CONTEXT if name in headers}
        with self._tracer.start_as_current_span(
            method,
            context=self._propagator.extract(carried) if carried else None,
            kind=SpanKind.SERVER,
            attributes={"http.request.method": method, "url.path": path},
        ) as started:
            yield LiveRequest(started, method)

    def ids(self) -> tuple[str, str] | None:
        """The ids of the current trace and span."""
        context = trace.get_current_span().get_span_context()
        return (format_trace_id(context.trace_id), format_span_id(context.span_id)) if context.is_valid else None


class _HandOver(SpanProcessor):
    """Gives spans that ended to a function."""

    def __init__(self, put: Callable[[ReadableSpan], None]) -> None:
        self._put = put

    def on_end(self, span: ReadableSpan) -> None:
        context = span.context
        if context is not None and context.trace_flags.sampled:
            self._put(span)


def named(attributes: Mapping[str, Value]) -> dict[str, str | bool | int | float]:
    """Attributes as they are sent.

    >>> named({"table": "logs", "reason": None})
    {'neve.table': 'logs'}
    """
    return {f"{PREFIX}{name}": value for name, value in attributes.items() if value is not None}
