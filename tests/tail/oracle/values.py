"""Traces written down in plain Python: one message for each, so that the collector gets it whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

Value: TypeAlias = "bool | int | float | str | bytes | list[Value] | dict[str, Value] | None"
Attributes: TypeAlias = dict[str, Value]

START = 1_760_000_000_000_000_000
MILLISECOND = 1_000_000
FIELDS = {
    bool: "bool_value",
    int: "int_value",
    float: "double_value",
    str: "string_value",
    bytes: "bytes_value",
}


@dataclass(frozen=True)
class Event:
    """An event of a span."""

    name: str
    attributes: Attributes = field(default_factory=dict)
    offset: int = 0  # nanoseconds after START


@dataclass(frozen=True)
class Call:
    """A span; `end` None stands for a span without an end, and `start` None for one without a start."""

    attributes: Attributes = field(default_factory=dict)
    name: str = "GET /"
    kind: int = 2
    status: int = 0
    message: str = ""
    flags: int = 0
    trace_state: str = ""
    start: int | None = 0  # nanoseconds after START
    end: int | None = MILLISECOND  # nanoseconds after START
    root: bool = True
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Source:
    """A resource and the spans that it sent, by scope."""

    calls: tuple[Call, ...]
    attributes: Attributes = field(default_factory=dict)
    scope: str = "shop"


def message(trace_id: bytes, *sources: Source) -> ExportTraceServiceRequest:
    """Return one trace; neighbouring sources with equal attributes are scopes of one resource."""
    groups: list[ResourceSpans] = []
    number = 0
    for place, source in enumerate(sources):
        if place == 0 or source.attributes != sources[place - 1].attributes:
            groups.append(ResourceSpans(resource=Resource(attributes=pairs(source.attributes))))
        spans = [_span(trace_id, number + each, call) for each, call in enumerate(source.calls, 1)]
        number += len(spans)
        scope = InstrumentationScope(name=source.scope, version="1.2")
        groups[-1].scope_spans.append(ScopeSpans(scope=scope, spans=spans))
    return ExportTraceServiceRequest(resource_spans=groups)


def pairs(attributes: Attributes) -> list[KeyValue]:
    """Return attributes as they stand in a message."""
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def any_value(value: Value) -> AnyValue:
    """Return a value of the type that it has in Python; None is a value that is not set."""
    if isinstance(value, list):
        return AnyValue(array_value=ArrayValue(values=[any_value(each) for each in value]))
    if isinstance(value, dict):
        return AnyValue(kvlist_value=KeyValueList(values=pairs(value)))
    made = AnyValue()
    if value is not None:
        setattr(made, FIELDS[type(value)], value)
    return made


def _span(trace_id: bytes, number: int, call: Call) -> Span:
    """Return a span; the first of a trace, and any that says so, is a root."""
    return Span(
        trace_id=trace_id,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"" if call.root else (1).to_bytes(8, "big"),
        name=call.name,
        kind=call.kind,  # type: ignore[arg-type]
        status=Status(code=call.status, message=call.message),  # type: ignore[arg-type]
        flags=call.flags,
        trace_state=call.trace_state,
        start_time_unix_nano=0 if call.start is None else START + call.start,
        end_time_unix_nano=0 if call.end is None else START + call.end,
        attributes=pairs(call.attributes),
        events=[_event(event) for event in call.events],
    )


def _event(event: Event) -> Span.Event:
    """Return an event as it stands in a message."""
    return Span.Event(
        name=event.name, attributes=pairs(event.attributes), time_unix_nano=START + MILLISECOND + event.offset
    )
