"""Datadog's trace intake, against a server that reads what an agent reads."""

import json
from collections.abc import Iterator
from typing import Any

import msgpack  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given, settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from neve.tail.export.datadog import (
    CLIENT,
    CONSUMER,
    INTERNAL,
    SERVER,
    DatadogDestination,
    encode_document,
    extract_concepts,
    find_span_type,
    name_operation,
    name_resource,
)
from neve.tail.export.destination import DestinationUnavailable
from neve.tail.policy.evaluate.thresholds import stamp_adjusted_count
from tests.tail.export.batches import any_batch, decoded, kept_traces
from tests.tail.export.configs import network
from tests.tail.export.servers import JSON, Answer, HttpServer, http_server
from tests.telemetry import NOW, SCOPE, text

FIELDS = {
    "service": str,
    "name": str,
    "resource": str,
    "type": str,
    "trace_id": int,
    "span_id": int,
    "parent_id": int,
    "start": int,
    "duration": int,
    "error": int,
    "meta": dict,
    "metrics": dict,
}


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """An agent that takes everything until it is told otherwise."""
    with http_server() as running:
        yield running


def exporter(server: HttpServer, **fields: Any) -> DatadogDestination:
    """The destination."""
    return DatadogDestination(network("datadog", server.endpoint, **fields))


def number(key: str, value: int | float) -> KeyValue:
    """An attribute that is a number."""
    typed = AnyValue(int_value=value) if isinstance(value, int) else AnyValue(double_value=value)
    return KeyValue(key=key, value=typed)


def converted(span: Span, *resource: KeyValue, count: float = 1.0) -> dict[str, Any]:
    """One span, as the agent reads it."""
    if not span.trace_id:
        span.MergeFrom(Span(trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=NOW))
    scope = ScopeSpans(scope=SCOPE, spans=[span])
    group = ResourceSpans(resource=Resource(attributes=resource), scope_spans=[scope])
    batch = decoded(ExportTraceServiceRequest(resource_spans=[group]).SerializeToString())
    document, traces = encode_document(stamp_adjusted_count(batch, pa.array([count])))
    assert traces == 1
    [[found]] = msgpack.unpackb(document)
    assert {name: type(found[name]) for name in found} == FIELDS
    read: dict[str, Any] = found
    return read


def test_traces_arrive_as_lists_of_spans(server: HttpServer) -> None:
    """With the header that counts them, ids as unsigned numbers, and times in nanoseconds."""
    batch = stamp_adjusted_count(kept_traces(5, 4), pa.array([25.0] * 20))
    delivery = exporter(server, batch_spans=8, headers={"dd-api-key": "s3cret"}).deliver(batch, "b")
    assert (delivery.accepted, delivery.rejected, delivery.attempts) == (20, 0, 3)
    assert {(request.method, request.path) for request in server.asked} == {("PUT", "/v0.4/traces")}
    documents = [msgpack.unpackb(request.body) for request in server.asked]
    assert [int(request.headers["x-datadog-trace-count"]) for request in server.asked] == [2, 2, 1]
    assert [[len(trace) for trace in document] for document in documents] == [[4, 4], [4, 4], [4]]
    spans = [span for document in documents for trace in document for span in trace]
    assert [span["trace_id"] for span in spans] == [trace for trace in range(1, 6) for _ in range(4)]
    assert [span["span_id"] for span in spans] == list(range(1, 21))
    assert {span["parent_id"] for span in spans[::4]} == {0}
    assert {(span["meta"]["_dd.p.tid"], span["meta"]["span.kind"]) for span in spans} == {
        ("0000000000000007", "server")
    }
    first = spans[1]
    assert (first["start"], first["duration"], first["service"]) == (NOW + 1, 1000, "service-1")
    assert first["metrics"] == {
        "n": 1.0,
        "_sampling_priority_v1": 2.0,
        "_sample_rate": 0.04,
        "sampling.adjusted_count": 25.0,
    }
    assert server.asked[0].headers["content-type"] == "application/msgpack"


def test_an_http_span_has_datadogs_names() -> None:
    """The status is a number, and the rest are tags under the names that Datadog knows."""
    span = converted(
        Span(
            name="GET",
            kind=Span.SPAN_KIND_SERVER,
            attributes=[
                text("http.request.method", "GET"),
                text("http.route", "/cart/{id}"),
                number("http.response.status_code", 503),
                text("url.full", "http://shop/cart/7"),
                text("http.request.header.accept", "*/*"),
                KeyValue(key="cached", value=AnyValue(bool_value=True)),
                number("ratio", 0.5),
            ],
            status=Status(code=Status.STATUS_CODE_ERROR),
        ),
        text("service.name", "cart"),
        text("deployment.environment.name", "prod"),
        text("service.version", "1.2"),
        text("host.name", "h1"),
    )
    assert (span["service"], span["name"], span["resource"], span["type"], span["error"]) == (
        "cart",
        "http.server.request",
        "GET /cart/{id}",
        "web",
        1,
    )
    assert span["metrics"]["http.status_code"] == 503.0
    assert span["metrics"]["ratio"] == 0.5
    expected = {
        "http.method": "GET",
        "http.url": "http://shop/cart/7",
        "http.request.headers.accept": "*/*",
        "cached": "true",
        "env": "prod",
        "version": "1.2",
        "host.name": "h1",
        "otel.scope.name": "lib",
        "otel.status_code": "Error",
        "otel.trace_id": (b"t" * 16).hex(),
        "error.msg": "503 Service Unavailable",
    }
    assert expected.items() <= span["meta"].items()
    assert "" not in span["meta"]


def test_an_exception_says_what_went_wrong() -> None:
    """Its message, type and stack; the events themselves are there as JSON."""
    event = Span.Event(
        time_unix_nano=NOW,
        name="exception",
        attributes=[
            text("exception.message", "no stock"),
            text("exception.type", "OutOfStock"),
            text("exception.stacktrace", "at cart"),
            number("left", 0),
        ],
    )
    failed = converted(Span(events=[event], status=Status(code=Status.STATUS_CODE_ERROR, message="failed")))
    assert [failed["meta"][f"error.{what}"] for what in ("msg", "type", "stack")] == [
        "no stock",
        "OutOfStock",
        "at cart",
    ]
    assert failed["meta"]["otel.status_description"] == "failed"
    [told] = json.loads(failed["meta"]["events"])
    assert (told["time_unix_nano"], told["name"], told["attributes"]["left"]) == (NOW, "exception", 0)
    assert failed["meta"]["_dd.span_events.has_exception"] == "true"
    well = converted(Span(events=[event]))
    assert "error.msg" not in well["meta"]
    assert well["error"] == 0


def test_a_status_says_it_where_no_exception_does() -> None:
    """The sender's own words."""
    span = converted(Span(status=Status(code=Status.STATUS_CODE_ERROR, message="out of stock")))
    assert span["meta"]["error.msg"] == "out of stock"


def test_links_and_trace_state_are_tags() -> None:
    """As Datadog's own intake writes them."""
    link = Span.Link(trace_id=b"l" * 16, span_id=b"m" * 8, attributes=[text("why", "retry")])
    span = converted(Span(links=[link], trace_state="ot=th:8"))
    assert json.loads(span["meta"]["_dd.span_links"]) == [
        {"trace_id": (b"l" * 16).hex(), "span_id": (b"m" * 8).hex(), "attributes": {"why": "retry"}}
    ]
    assert span["meta"]["w3c.tracestate"] == "ot=th:8"


def test_a_span_without_a_service_or_an_end_is_said_all_the_same() -> None:
    """It has Datadog's name for no service, and no duration."""
    span = converted(Span(name="lost"))
    assert (span["service"], span["duration"], span["resource"]) == ("otlpresourcenoservicename", 0, "lost")


@pytest.mark.parametrize(
    ("kind", "attributes", "operation", "resource", "type_"),
    [
        (CLIENT, {"http.request.method": "POST", "http.route": "/x"}, "http.client.request", "POST", "http"),
        (SERVER, {"http.method": "_OTHER"}, "http.server.request", "HTTP", "web"),
        (CLIENT, {"db.system": "postgresql", "db.statement": "SELECT 1"}, "postgresql.query", "SELECT 1", "sql"),
        (CLIENT, {"db.system.name": "redis"}, "redis.query", "name", "redis"),
        (CLIENT, {"db.system": "neo4j"}, "neo4j.query", "name", "db"),
        (
            CONSUMER,
            {"messaging.system": "kafka", "messaging.operation": "receive", "messaging.destination.name": "orders"},
            "kafka.receive",
            "receive orders",
            "custom",
        ),
        (SERVER, {"rpc.system": "grpc", "rpc.method": "Get"}, "grpc.server.request", "Get", "web"),
        (
            CLIENT,
            {"rpc.system": "grpc", "rpc.method": "Get", "rpc.service": "C"},
            "grpc.client.request",
            "Get C",
            "http",
        ),
        (CLIENT, {"rpc.system": "aws-api", "rpc.service": "S3"}, "aws.s3.request", "name", "http"),
        (SERVER, {"faas.trigger": "timer"}, "timer.invoke", "name", "web"),
        (SERVER, {"graphql.operation.type": "query"}, "graphql.server.request", "query", "web"),
        (CLIENT, {"network.protocol.name": "amqp"}, "amqp.client.request", "name", "http"),
        (INTERNAL, {}, "Internal", "name", "custom"),
        (0, {"operation.name": "My Job", "resource.name": "r", "span.type": "worker"}, "my_job", "r", "worker"),
    ],
)
def test_names_follow_datadogs_rules(
    kind: int, attributes: dict[str, str], operation: str, resource: str, type_: str
) -> None:
    """Operation, resource and type by kind and attributes, under their older and their newer names."""
    words = extract_concepts(attributes.items())
    assert (name_operation(words, kind), name_resource(words, kind, "name"), find_span_type(words, kind)) == (
        operation,
        resource,
        type_,
    )


@pytest.mark.slow
@settings(max_examples=30)
@given(any_batch)
def test_any_span_can_be_said(batch: pa.RecordBatch) -> None:
    """Every span of every batch is in the document, with values of the types that an agent reads."""
    document, traces = encode_document(batch)
    read = msgpack.unpackb(document)
    assert len(read) == traces
    spans = [span for trace in read for span in trace]
    assert [span["span_id"].to_bytes(8, "big") for span in spans] == batch.column("span_id").to_pylist()
    assert all(isinstance(tag, str) for span in spans for tag in span["meta"].values())
    assert all(isinstance(metric, float) for span in spans for metric in span["metrics"].values())


def test_an_agent_that_is_away_loses_nothing(server: HttpServer) -> None:
    """It is asked again for a while, and then the batch waits."""
    server.script = [Answer(429), Answer(200, b'{"rate_by_service":{}}', JSON)]
    assert exporter(server).deliver(kept_traces(1, 4), "b").attempts == 2
    server.script = [Answer(503)]
    with pytest.raises(DestinationUnavailable):
        exporter(server, retry_seconds=0).deliver(kept_traces(1, 4), "b")


def test_what_an_agent_refuses_is_counted_or_divided(server: HttpServer) -> None:
    """A document that it can't read is refused; one that is too large is sent in parts."""
    server.script = [Answer(400, b"can't decode", {})]
    refused = exporter(server).deliver(kept_traces(1, 4), "b")
    assert (refused.rejected, refused.messages) == (4, ("HTTP 400: can't decode",))
    server.most_bytes = 3000
    divided = exporter(server).deliver(kept_traces(5, 4), "b")
    assert (divided.accepted, divided.rejected) == (20, 0)


def test_a_number_that_is_none_is_refused_alone(server: HttpServer) -> None:
    """A table that others write may hold anything; one bad span does not take the batch with it."""
    batch = kept_traces(2, 4)
    place = batch.schema.get_field_index("attributes")
    attributes = [[("n", "many" if row == 5 else "1")] for row in range(8)]
    batch = batch.set_column(place, batch.schema.field(place), pa.array(attributes, batch.schema.field(place).type))
    delivery = exporter(server).deliver(batch, "b")
    assert (delivery.accepted, delivery.rejected) == (7, 1)
    assert "span 0000000000000006 can't be encoded in Datadog's format" in delivery.messages[0]
