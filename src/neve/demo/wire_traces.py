"""Spans on the wire: OTLP protobuf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Status
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from neve.demo.batch import group_by
from neve.demo.protobuf import key_values, resource, scope
from neve.demo.semantics import LIBRARY_VERSION, SCHEMA_URL
from neve.demo.span import SAMPLED, Event, Link, Span

if TYPE_CHECKING:
    from collections.abc import Iterable


def traces_request(spans: Iterable[Span]) -> ExportTraceServiceRequest:
    """Return one request of all spans, grouped by instance and then by instrumentation library."""
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=resource(instance.resource),
                scope_spans=[
                    ScopeSpans(
                        scope=scope(library, LIBRARY_VERSION),
                        spans=[wire_span(span) for span in group],
                        schema_url=SCHEMA_URL,
                    )
                    for library, group in group_by(mine, lambda span: span.library).items()
                ],
                schema_url=SCHEMA_URL,
            )
            for instance, mine in group_by(spans, lambda span: span.instance).items()
        ]
    )


def wire_span(span: Span) -> WireSpan:
    """Return a span as OTLP's message."""
    return WireSpan(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id,
        trace_state=span.trace_state,
        flags=span.flags,
        name=span.name,
        kind=_enum(span.kind),
        start_time_unix_nano=span.start,
        end_time_unix_nano=span.end,
        attributes=key_values(span.attributes),
        events=[_event(event) for event in span.events],
        links=[_link(link) for link in span.links],
        status=_status(span),
    )


def _status(span: Span) -> Status | None:
    """Return the status if one was set; a failure's message is the status's."""
    if not span.status:
        return None
    return Status(code=_enum(span.status), message=span.failure.message if span.failure else "")


def _enum(number: int) -> Any:
    """Return a number where the stubs want an enumeration's own type; on the wire it is the number."""
    return number


def _event(event: Event) -> WireSpan.Event:
    """Return an event as OTLP's message."""
    return WireSpan.Event(time_unix_nano=event.time, name=event.name, attributes=key_values(event.attributes))


def _link(link: Link) -> WireSpan.Link:
    """Return a link as OTLP's message."""
    return WireSpan.Link(
        trace_id=link.trace_id, span_id=link.span_id, attributes=key_values(link.attributes), flags=SAMPLED
    )
