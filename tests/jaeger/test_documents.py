"""Traces of Jaeger's API: every span, reference, tag and event of the message, and no other."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from neve.jaeger.documents import describe_traces
from tests.traceql.plain_traces import BASE, MS, PlainSpan, random_spans, span_id, to_otlp, trace_id

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


def describe(spans: tuple[PlainSpan, ...]) -> list[dict[str, Any]]:
    """Return the documents of all traces, as a client reads them."""
    data = TracesData.FromString(to_otlp(spans).SerializeToString())
    ids = [trace_id(one) for one in sorted({one.trace for one in spans})]
    found: list[dict[str, Any]] = json.loads(json.dumps(describe_traces(data, ids), allow_nan=False))
    return found


def plain_tag(value: Any) -> Any:
    """Return the value of a tag."""
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else value


def plain_span(one: PlainSpan) -> dict[str, Any]:
    """Return what a document says about a span, from the span that was sent."""
    tags = {key: plain_tag(value) for key, value in one.attributes.items()}
    tags |= {"otel.scope.name": one.scope_name} if one.scope_name else {}
    tags |= {"span.kind": KINDS[one.kind]} if one.kind else {}
    tags |= {"otel.status_code": ("", "OK", "ERROR")[one.status]} if one.status else {}
    tags |= {"error": True} if one.status == 2 else {}
    tags |= {"otel.status_description": one.message} if one.message else {}
    parents = [("CHILD_OF", one.trace, one.parent)] if one.parent is not None else []
    links = [("FOLLOWS_FROM", trace, span) for trace, span, _ in one.links]
    return {
        "span": (one.number, one.name, one.start * 1000, one.duration * 1000),
        "tags": tags,
        "references": [(kind, trace_id(trace).hex(), span_id(span).hex()) for kind, trace, span in parents + links],
        "logs": [
            (one.start + after, {"event": name} | {key: plain_tag(value) for key, value in pairs.items()})
            for after, name, pairs in one.events
        ],
        "process": (one.service, {key: plain_tag(value) for key, value in one.resource.items()}),
    }


def shown_span(span: dict[str, Any], processes: dict[str, Any]) -> dict[str, Any]:
    """Return what a document says about a span, in the same form."""
    process = processes[span["processID"]]
    start = span["startTime"] - BASE // 1000
    return {
        "span": (int(span["spanID"], 16), span["operationName"], start, span["duration"]),
        "tags": {one["key"]: one["value"] for one in span["tags"]},
        "references": [(one["refType"], one["traceID"], one["spanID"]) for one in span["references"]],
        "logs": [
            ((log["timestamp"] - BASE // 1000) * 1000 // MS, {one["key"]: one["value"] for one in log["fields"]})
            for log in span["logs"]
        ],
        "process": (process["serviceName"], {one["key"]: one["value"] for one in process["tags"]}),
    }


@given(seed=st.integers(0, 5000))
def test_documents_say_what_was_sent(seed: int) -> None:
    """Each trace has its spans in their order, with all tags, references, events and resources."""
    spans = random_spans(seed)
    for trace in describe(spans):
        sent = [plain_span(one) for one in spans if trace_id(one.trace).hex() == trace["traceID"]]
        assert [shown_span(one, trace["processes"]) for one in trace["spans"]] == sent


def test_values_that_json_lacks() -> None:
    """Large integers, infinite numbers, bytes, maps and empty values have a form that every client reads."""
    values = {
        "large": AnyValue(int_value=2**63 - 1),
        "exact": AnyValue(int_value=2**53 - 1),
        "none": AnyValue(),
        "bytes": AnyValue(bytes_value=b"\x00\xff"),
        "infinite": AnyValue(double_value=math.inf),
        "half": AnyValue(double_value=0.5),
    }
    pairs = [KeyValue(key=key, value=value) for key, value in values.items()]
    span = Span(trace_id=trace_id(1), span_id=span_id(1), attributes=pairs)
    span.attributes.add(key="map").value.kvlist_value.values.extend(pairs[:2])
    data = TracesData(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span])])])
    [trace] = describe_traces(data, [trace_id(1), trace_id(2)], ["cut"])
    tags = {one["key"]: (one["type"], one["value"]) for one in trace["spans"][0]["tags"]}
    assert tags == {
        "large": ("int64", "9223372036854775807"),
        "exact": ("int64", 2**53 - 1),
        "none": ("string", ""),
        "bytes": ("binary", "AP8="),
        "infinite": ("float64", "inf"),
        "half": ("float64", 0.5),
        "map": ("string", '{"large":"9223372036854775807","exact":9007199254740991}'),
    }
    assert trace["processes"]["p1"]["serviceName"] == "OTLPResourceNoServiceName"
    assert trace["warnings"] == ["cut"]
