"""Spans of OTLP as the traces of Jaeger's first API: tags with types, references, logs, processes."""

from __future__ import annotations

import base64
import json
import math
from typing import TYPE_CHECKING, Any

from neve.jaeger.parameters import KIND_NAMES, NO_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData

__all__ = ["describe_traces"]

MAX_EXACT = 2**53 - 1  # larger integers change in a browser
SERVICE_NAME = "service.name"
_STATUS_NAMES = {1: "OK", 2: "ERROR"}
_ERROR = 2

Document = dict[str, Any]


def describe_traces(data: TracesData, ids: Iterable[bytes], warnings: Iterable[str] = ()) -> list[Document]:
    """Return the traces in the order of their ids. Ids without spans are left out."""
    traces = {one: _Trace(one, list(warnings)) for one in ids}
    for group in data.resource_spans:
        for scope_spans in group.scope_spans:
            for span in scope_spans.spans:
                if span.trace_id in traces:
                    traces[span.trace_id].add(span, group.resource, scope_spans.scope)
    return [one.document for one in traces.values() if one.document["spans"]]


class _Trace:
    """Trace while spans are added. Spans with equal resources share a process."""

    def __init__(self, trace_id: bytes, warnings: list[str]) -> None:
        self.document: Document = {
            "traceID": trace_id.hex(),
            "spans": [],
            "processes": {},
            "warnings": warnings or None,
        }
        self._processes: dict[bytes, str] = {}

    def add(self, span: Span, resource: Resource, scope: InstrumentationScope) -> None:
        key = resource.SerializeToString(deterministic=True)
        process = self._processes.get(key)
        if process is None:
            process = self._processes[key] = f"p{len(self._processes) + 1}"
            self.document["processes"][process] = _describe_process(resource)
        self.document["spans"].append(_describe_span(span, scope, process))


def _describe_process(resource: Resource) -> Document:
    tags = [_to_tag(one.key, one.value) for one in resource.attributes]
    name = next((str(one["value"]) for one in tags if one["key"] == SERVICE_NAME), "")
    return {"serviceName": name or NO_SERVICE, "tags": [one for one in tags if one["key"] != SERVICE_NAME]}


def _describe_span(span: Span, scope: InstrumentationScope, process: str) -> Document:
    return {
        "traceID": span.trace_id.hex(),
        "spanID": span.span_id.hex(),
        "operationName": span.name,
        "references": list(_list_references(span)),
        "startTime": span.start_time_unix_nano // 1000,
        "duration": max(span.end_time_unix_nano - span.start_time_unix_nano, 0) // 1000,
        "tags": [*_list_tags(span.attributes), *_list_own_tags(span, scope)],
        "logs": [_describe_event(one) for one in span.events],
        "processID": process,
        "warnings": None,
    }


def _list_references(span: Span) -> Iterator[Document]:
    """Yield the parent, then the links: another span of the same trace, or one of another trace."""
    if span.parent_span_id:
        yield _refer("CHILD_OF", span.trace_id, span.parent_span_id)
    for link in span.links:
        yield _refer("FOLLOWS_FROM", link.trace_id, link.span_id)


def _refer(kind: str, trace_id: bytes, span_id: bytes) -> Document:
    return {"refType": kind, "traceID": trace_id.hex(), "spanID": span_id.hex()}


def _list_own_tags(span: Span, scope: InstrumentationScope) -> Iterator[Document]:
    """Yield what Jaeger has no fields for."""
    if scope.name:
        yield _text_tag("otel.scope.name", scope.name)
    if scope.version:
        yield _text_tag("otel.scope.version", scope.version)
    if span.kind in KIND_NAMES:
        yield _text_tag("span.kind", KIND_NAMES[span.kind])
    if span.status.code in _STATUS_NAMES:
        yield _text_tag("otel.status_code", _STATUS_NAMES[span.status.code])
    if span.status.code == _ERROR:
        yield {"key": "error", "type": "bool", "value": True}
    if span.status.message:
        yield _text_tag("otel.status_description", span.status.message)
    if span.trace_state:
        yield _text_tag("w3c.tracestate", span.trace_state)


def _describe_event(event: Span.Event) -> Document:
    fields = _list_tags(event.attributes)
    if event.name and all(one["key"] != "event" for one in fields):
        fields.insert(0, _text_tag("event", event.name))
    return {"timestamp": event.time_unix_nano // 1000, "fields": fields}


def _list_tags(pairs: Iterable[KeyValue]) -> list[Document]:
    return [_to_tag(one.key, one.value) for one in pairs]


def _text_tag(key: str, text: str) -> Document:
    return {"key": key, "type": "string", "value": text}


def _to_tag(key: str, value: AnyValue) -> Document:
    """Return a tag. Lists, maps, and numbers that JSON has no words for, are text."""
    match value.WhichOneof("value"):
        case "bool_value":
            return {"key": key, "type": "bool", "value": value.bool_value}
        case "int_value":
            number = value.int_value
            return {"key": key, "type": "int64", "value": number if abs(number) <= MAX_EXACT else str(number)}
        case "double_value":
            real = value.double_value
            return {"key": key, "type": "float64", "value": real if math.isfinite(real) else str(real)}
        case "bytes_value":
            return {"key": key, "type": "binary", "value": base64.b64encode(value.bytes_value).decode()}
        case "string_value" | None:
            return _text_tag(key, value.string_value)
    return _text_tag(key, json.dumps(_to_plain(value), ensure_ascii=False, separators=(",", ":")))


def _to_plain(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case "array_value":
            return [_to_plain(one) for one in value.array_value.values]
        case "kvlist_value":
            return {one.key: _to_plain(one.value) for one in value.kvlist_value.values}
        case None:
            return None
    tag: Mapping[str, Any] = _to_tag("", value)
    return tag["value"]
