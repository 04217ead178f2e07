"""OTLP over HTTP, against a server that really listens."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pyarrow as pa
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.http_client import parse_retry_after
from neve.model.tables import SPANS
from neve.tail.export.destination import DestinationUnavailable
from neve.tail.export.otlp import OtlpHttpDestination
from tests.tail.export.batches import decoded, kept_traces, rows
from tests.tail.export.configs import network
from tests.tail.export.servers import HOST, JSON, Answer, HttpServer, http_server


@pytest.fixture
def server() -> Iterator[HttpServer]:
    """A server that takes everything until it is told otherwise."""
    with http_server() as running:
        yield running


def exporter(endpoint: str, **fields: Any) -> OtlpHttpDestination:
    """The destination at an address."""
    return OtlpHttpDestination(network("otlp_http", endpoint, **fields))


def partial(rejected: int, message: str) -> bytes:
    """The answer of a server that took all but some."""
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = message
    return response.SerializeToString()


@pytest.mark.parametrize("compression", ["auto", "gzip", "zstd", "none"])
def test_spans_arrive_as_they_are(server: HttpServer, compression: str) -> None:
    """Every row, however it is packed, in requests of at most so many spans, on one connection."""
    batch = kept_traces(traces=5, spans=4)
    there = exporter(server.endpoint, compression=compression, batch_spans=8, headers={"x-api-key": "s3cret", "n": 7})
    delivery = there.deliver(batch, "b")
    there.close()
    assert rows(decoded(*(request.body for request in server.asked))) == rows(batch)
    assert (delivery.accepted, delivery.rejected, delivery.messages) == (20, 0, ())
    assert delivery.attempts == len(server.asked) == 3
    assert delivery.bytes_sent == sum(request.packed_size for request in server.asked)
    assert {(request.method, request.path) for request in server.asked} == {("POST", "/v1/traces")}
    assert {request.headers["x-api-key"] for request in server.asked} == {"s3cret"}
    assert {request.headers["n"] for request in server.asked} == {"7"}
    assert len({request.client for request in server.asked}) == 1


def test_resources_are_not_repeated(server: HttpServer) -> None:
    """A batch comes sorted by trace; in the message the spans of a service stand together."""
    exporter(server.endpoint).deliver(kept_traces(traces=50, spans=4), "b")
    assert server.asked[0].body.count(b"service.name") == 4


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(server: HttpServer, status: int) -> None:
    """Until it takes the spans, which are then there once."""
    server.script = [Answer(status), Answer(status)]
    delivery = exporter(server.endpoint).deliver(kept_traces(1, 4), "b")
    assert (delivery.accepted, delivery.attempts) == (4, 3)
    assert len(server.taken) == 1


def test_the_time_that_a_server_asks_for_is_waited(server: HttpServer) -> None:
    """`Retry-After` in seconds."""
    server.script = [Answer(503, headers={"retry-after": "1"})]
    begun = time.monotonic()
    exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert time.monotonic() - begun >= 1


def test_a_retry_after_may_be_a_date() -> None:
    """As HTTP has it; one that is over means now, and one that is nonsense means nothing."""
    now = datetime.now(UTC).replace(microsecond=0)
    assert parse_retry_after(format_datetime(now + timedelta(seconds=90), usegmt=True), now) == 90
    assert parse_retry_after(format_datetime(now - timedelta(seconds=90)), now) == 0
    assert [parse_retry_after(value) for value in ("", "soon", "-5", "1.5")] == [None] * 4


def test_a_server_that_stays_busy_is_away(server: HttpServer) -> None:
    """The error says for how long it wants to be left alone and what it said; nothing was counted as refused."""
    server.script = [Answer(429, b'{"message": "over quota"}', {**JSON, "retry-after": "600"})] * 9
    with pytest.raises(DestinationUnavailable, match="HTTP 429: over quota") as caught:
        exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert caught.value.after_seconds == 600


def test_nobody_there_is_away() -> None:
    """A refused connection is no refused batch."""
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(DestinationUnavailable, match=f"no connection to http://{HOST}:{port}/v1/traces"):
        exporter(f"http://{HOST}:{port}", retry_seconds=0.3).deliver(kept_traces(1, 1), "b")


def test_a_server_that_comes_back_gets_all(server: HttpServer) -> None:
    """The same destination goes on where it was, on a new connection."""
    there = exporter(f"http://{HOST}:{server.port}", retry_seconds=0)
    there.deliver(kept_traces(1, 1), "a")
    server.script = [Answer(503)]
    with pytest.raises(DestinationUnavailable):
        there.deliver(kept_traces(1, 2), "b")
    assert there.deliver(kept_traces(1, 2), "b").accepted == 2


def test_a_server_that_says_nothing_is_away() -> None:
    """After `timeout_seconds` for each attempt."""
    with socket.create_server((HOST, 0)) as silent:
        there = exporter(f"http://{HOST}:{silent.getsockname()[1]}", timeout_seconds=0.2, retry_seconds=0)
        with pytest.raises(DestinationUnavailable, match="ReadTimeoutError"):
            there.deliver(kept_traces(1, 1), "b")


@pytest.mark.parametrize("status", [301, 401, 403, 404])
def test_a_wrong_key_or_address_loses_nothing(server: HttpServer, status: int) -> None:
    """Everything would be refused: the destination is unavailable until it is repaired, without a retry at once."""
    server.script = [Answer(status, b"who are you")]
    with pytest.raises(DestinationUnavailable, match=f"rejects all requests: HTTP {status}: who are you") as caught:
        exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert "endpoint and headers" in str(caught.value)
    assert len(server.asked) == 1


def test_a_batch_that_is_refused_for_good_is_counted(server: HttpServer) -> None:
    """Once, with the server's words; what comes after it is sent all the same."""
    server.script = [Answer(400, Status(code=3, message="a span has no name").SerializeToString())]
    delivery = exporter(server.endpoint, batch_spans=4).deliver(kept_traces(2, 4), "b")
    assert (delivery.accepted, delivery.rejected) == (4, 4)
    assert delivery.messages == ("HTTP 400: a span has no name",)
    assert delivery.attempts == 2


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (partial(3, "bad names"), {"content-type": "application/x-protobuf"}),
        (json.dumps({"partialSuccess": {"rejectedSpans": "3", "errorMessage": "bad names"}}).encode(), JSON),
    ],
    ids=["protobuf", "json"],
)
def test_a_partial_success_is_not_sent_again(server: HttpServer, body: bytes, headers: dict[str, str]) -> None:
    """What the server refused is counted with its words."""
    server.script = [Answer(200, body, headers)]
    delivery = exporter(server.endpoint).deliver(kept_traces(2, 4), "b")
    assert (delivery.accepted, delivery.rejected, delivery.messages) == (5, 3, ("bad names",))
    assert len(server.asked) == 1


def test_a_warning_refuses_nothing(server: HttpServer) -> None:
    """A message without refused spans is passed on."""
    server.script = [Answer(200, partial(0, "slow down"))]
    delivery = exporter(server.endpoint).deliver(kept_traces(1, 4), "b")
    assert (delivery.accepted, delivery.rejected, delivery.messages) == (4, 0, ("slow down",))


@pytest.mark.parametrize("body", [b"\xff\xff", b"<html>ok</html>", b"x" * 200_000])
def test_an_answer_that_nobody_understands_is_no_refusal(server: HttpServer, body: bytes) -> None:
    """The status says that the spans were taken."""
    server.script = [Answer(200, body)]
    there = exporter(server.endpoint)
    assert there.deliver(kept_traces(1, 4), "b").accepted == 4
    assert there.deliver(kept_traces(1, 4), "b").accepted == 4


def test_a_message_that_is_too_large_is_divided(server: HttpServer) -> None:
    """Down to what the server takes; all spans arrive, once."""
    batch = kept_traces(8, 4)
    server.most_bytes = 1500
    delivery = exporter(server.endpoint).deliver(batch, "b")
    assert (delivery.accepted, delivery.rejected) == (32, 0)
    assert rows(decoded(*(request.body for request in server.taken))) == rows(batch)


def test_what_otlp_cannot_say_is_refused_alone(server: HttpServer) -> None:
    """A table that others write may hold anything; one bad span does not take the batch with it."""
    batch = kept_traces(2, 4)
    place = SPANS.schema.get_field_index("flags")
    flags = pa.array([0, 0, -7, 0, 0, 0, 0, 0], pa.int64())
    batch = batch.set_column(place, SPANS.schema.field(place), flags)
    delivery = exporter(server.endpoint).deliver(batch, "b")
    assert (delivery.accepted, delivery.rejected) == (7, 1)
    assert "span 0000000000000003 can't be encoded in OTLP" in delivery.messages[0]


def test_an_empty_batch_asks_nobody(server: HttpServer) -> None:
    """Nothing is nothing."""
    assert exporter(server.endpoint).deliver(kept_traces(1, 1).slice(1), "b").attempts == 0
    assert server.asked == []


def test_closing_ends_a_delivery_that_waits(server: HttpServer) -> None:
    """A process that stops does not wait for a server that is away."""
    server.script = [Answer(503, headers={"retry-after": "1800"})] * 1000
    there = exporter(server.endpoint, retry_seconds=3600)
    threading.Timer(0.3, there.close).start()
    with pytest.raises(DestinationUnavailable):
        there.deliver(kept_traces(1, 1), "b")
    assert len(server.asked) <= 2  # at most one attempt after the pause that was ended
