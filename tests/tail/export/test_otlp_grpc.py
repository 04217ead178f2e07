"""OTLP over gRPC, against a server that really listens."""

import socket
import time
from collections.abc import Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.tail.export.destination import DestinationUnavailable
from neve.tail.export.otlp import OtlpGrpcDestination
from tests.tail.export.batches import decoded, kept_traces, rows
from tests.tail.export.configs import network
from tests.tail.export.servers import HOST, Failure, GrpcServer, grpc_server

Code = grpc.StatusCode


@pytest.fixture
def server() -> Iterator[GrpcServer]:
    """A server that takes everything until it is told otherwise."""
    with grpc_server() as running:
        yield running


def exporter(endpoint: str, **fields: Any) -> OtlpGrpcDestination:
    """The destination at an address."""
    return OtlpGrpcDestination(network("otlp_grpc", endpoint, **fields))


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_spans_arrive_as_they_are(server: GrpcServer, compression: str) -> None:
    """Every row, packed or not, in calls of at most so many spans, each with a deadline and the metadata."""
    batch = kept_traces(traces=5, spans=4)
    there = exporter(server.endpoint, compression=compression, batch_spans=8, headers={"X-Api-Key": "s3cret"})
    delivery = there.deliver(batch, "b")
    there.close()
    assert rows(decoded(*(request.SerializeToString() for request in server.asked))) == rows(batch)
    assert (delivery.accepted, delivery.rejected, delivery.attempts) == (20, 0, 3)
    assert {metadata["x-api-key"] for metadata in server.metadata} == {"s3cret"}
    assert all(0 < seconds < 601 for seconds in server.deadlines)  # gRPC's own default is none, which is far more


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED, Code.ABORTED, Code.DATA_LOSS])
def test_a_busy_server_is_asked_again(server: GrpcServer, code: Any) -> None:
    """Until it takes the spans."""
    server.script = [Failure(code, "later"), Failure(code, "later", retry_seconds=0.01)]
    delivery = exporter(server.endpoint).deliver(kept_traces(1, 4), "b")
    assert (delivery.accepted, delivery.attempts) == (4, 3)


def test_the_time_that_a_server_asks_for_is_waited(server: GrpcServer) -> None:
    """`RetryInfo` in the details of the status."""
    server.script = [Failure(Code.RESOURCE_EXHAUSTED, "later", retry_seconds=1)]
    begun = time.monotonic()
    exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert time.monotonic() - begun >= 1


def test_a_server_that_stays_busy_is_away(server: GrpcServer) -> None:
    """The error says for how long it wants to be left alone."""
    server.script = [Failure(Code.UNAVAILABLE, "restarting", retry_seconds=900)]
    with pytest.raises(DestinationUnavailable, match="gRPC UNAVAILABLE: restarting") as caught:
        exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert caught.value.after_seconds == 900


def test_nobody_there_is_away() -> None:
    """A refused connection is no refused batch."""
    with socket.create_server((HOST, 0)) as closed:
        port = closed.getsockname()[1]
    there = exporter(f"http://{HOST}:{port}", retry_seconds=0.3)
    with pytest.raises(DestinationUnavailable, match="gRPC UNAVAILABLE"):
        there.deliver(kept_traces(1, 1), "b")
    there.close()


@pytest.mark.parametrize("code", [Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNIMPLEMENTED])
def test_a_wrong_key_or_address_loses_nothing(server: GrpcServer, code: Any) -> None:
    """The destination is unavailable until someone mends it, and is not asked again at once."""
    server.script = [Failure(code, "who are you")]
    with pytest.raises(DestinationUnavailable, match="rejects all requests"):
        exporter(server.endpoint).deliver(kept_traces(1, 1), "b")
    assert len(server.asked) == 1


def test_a_batch_that_is_refused_for_good_is_counted(server: GrpcServer) -> None:
    """Once, with the server's words; what comes after it is sent all the same."""
    server.script = [Failure(Code.INVALID_ARGUMENT, "a span has no name")]
    delivery = exporter(server.endpoint, batch_spans=4).deliver(kept_traces(2, 4), "b")
    assert (delivery.accepted, delivery.rejected) == (4, 4)
    assert delivery.messages == ("gRPC INVALID_ARGUMENT: a span has no name",)


def test_a_partial_success_is_not_sent_again(server: GrpcServer) -> None:
    """What the server refused is counted with its words."""
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 3
    response.partial_success.error_message = "bad names"
    server.script = [response]
    delivery = exporter(server.endpoint).deliver(kept_traces(2, 4), "b")
    assert (delivery.accepted, delivery.rejected, delivery.messages) == (5, 3, ("bad names",))
    assert len(server.asked) == 1


def test_a_message_that_is_too_large_is_divided() -> None:
    """GRPC itself says so, without a time to come back; all spans arrive, once."""
    batch = kept_traces(16, 4)
    with grpc_server(max_receive_message_length=1500) as server:
        there = exporter(server.endpoint, compression="none")
        delivery = there.deliver(batch, "b")
        there.close()
    assert (delivery.accepted, delivery.rejected) == (64, 0)
    assert rows(decoded(*(request.SerializeToString() for request in server.asked))) == rows(batch)


def test_a_span_that_is_too_large_is_refused_alone() -> None:
    """With what the server said of it."""
    with grpc_server(max_receive_message_length=20) as server:
        there = exporter(server.endpoint, compression="none")
        delivery = there.deliver(kept_traces(1, 2), "b")
        there.close()
    assert (delivery.accepted, delivery.rejected) == (0, 2)
    assert "RESOURCE_EXHAUSTED" in delivery.messages[0]
