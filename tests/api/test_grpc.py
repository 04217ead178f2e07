"""OTLP over gRPC: a stock client against a real server."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.raw.frame import Kind, Packing
from tests.api.running import Running, until
from tests.receive.doubles import deep_traces, span, traces_of
from tests.telemetry import logs, metrics, traces

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SERVICES: list[tuple[Any, Any, Callable[..., bytes], Kind]] = [
    (TraceServiceStub, ExportTraceServiceRequest, traces, Kind.TRACES),
    (LogsServiceStub, ExportLogsServiceRequest, logs, Kind.LOGS),
    (MetricsServiceStub, ExportMetricsServiceRequest, metrics, Kind.METRICS),
]


def refusal(running: Running, body: bytes, **options: Any) -> grpc.RpcError:
    """Send bytes and get the error that comes back."""
    with running.channel(**options) as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(EXPORT)(body, timeout=600)
    return caught.value


def status_of(error: grpc.RpcError) -> Status:
    """The details of an error."""
    [details] = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    return Status.FromString(details)


@pytest.mark.parametrize(("stub", "kind", "make", "frame_kind"), SERVICES, ids=["traces", "logs", "metrics"])
@pytest.mark.parametrize(
    ("compression", "packing"),
    [
        (grpc.Compression.NoCompression, Packing.NONE),
        (grpc.Compression.Gzip, Packing.GZIP),
        (grpc.Compression.Deflate, Packing.DEFLATE),
    ],
    ids=["none", "gzip", "deflate"],
)
def test_every_signal_is_taken_in_every_packing(
    open_receiver: Running,
    stub: Any,
    kind: Any,
    make: Callable[..., bytes],
    frame_kind: Kind,
    compression: grpc.Compression,
    packing: Packing,
) -> None:
    """The answer says nothing of a partial success, and the zone holds the message packed as it came."""
    before = len(open_receiver.frames())
    with open_receiver.channel(compression=compression) as channel:
        response = stub(channel).Export(kind.FromString(make(50, service="grpc")), timeout=600)
    assert not response.HasField("partial_success")
    [frame] = open_receiver.frames()[before:]
    assert (frame.kind, frame.packing, frame.organization_id) == (frame_kind, packing, "acme")
    assert packing is not Packing.NONE or kind.FromString(frame.payload) == kind.FromString(make(50, service="grpc"))


def test_partial_success_is_told(open_receiver: Running) -> None:
    """How many and why."""
    request = ExportTraceServiceRequest.FromString(traces_of(span(), span(trace_id=b"x")))
    with open_receiver.traces() as stub:
        response = stub.Export(request, timeout=600)
    assert response.partial_success.rejected_spans == 1
    assert "1 of 2 spans" in response.partial_success.error_message


@pytest.mark.parametrize("body", [b"\xff\xff", traces()[:-1], b"\x1f\x8bbroken", b"\x78\x9cbroken"])
def test_malformed_bytes_are_an_invalid_argument(open_receiver: Running, body: bytes) -> None:
    """With a status and no time to come back: sending them again would not help."""
    error = refusal(open_receiver, body)
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert (status_of(error).code, list(status_of(error).details)) == (3, [])


def test_deep_values_and_empty_messages_are_taken(open_receiver: Running) -> None:
    """One is quarantined later, of the other there is nothing to keep."""
    with open_receiver.channel() as channel:
        call = channel.unary_unary(EXPORT)
        assert call(deep_traces(10_000), timeout=600) == b""
        assert call(b"", timeout=600) == b""


def test_unknown_methods_are_unimplemented(open_receiver: Running) -> None:
    """As gRPC says it."""
    with open_receiver.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/opentelemetry.proto.collector.profiles.v1.ProfilesService/Export")(b"", timeout=600)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_over_size_is_refused_for_good(start: Callable[..., Running]) -> None:
    """Plain ones by gRPC itself, packed ones when they unfold; neither with a time to come back."""
    receiver = start(max_message_bytes=10_000)
    assert refusal(receiver, traces(2000)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    error = refusal(receiver, bytes(1024 * 1024), compression=grpc.Compression.Gzip)
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert not status_of(error).details
    with receiver.traces() as stub:
        stub.Export(ExportTraceServiceRequest.FromString(traces()), timeout=600)


def holds(receiver: Running, size: int) -> bool:
    """Whether messages of so many bytes are being worked on."""
    return receiver.counted("neve_receiver_inflight_bytes") == size


@pytest.mark.slow
def test_a_slow_disk_becomes_pressure(start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of callers who gave up still wait for the disk and count; more come with a time to come back."""
    receiver = start(max_inflight_bytes=1024 * 1024, max_message_bytes=512 * 1024, retry_after_seconds=7)
    body, mended = traces(6000), threading.Event()
    monkeypatch.setattr("os.fdatasync", lambda _file: mended.wait(600))
    with receiver.channel() as channel:
        call = channel.unary_unary(EXPORT)
        for number in (1, 2):
            given_up = call.future(body)
            until(partial(holds, receiver, number * len(body)))
            assert given_up.cancel()
        assert receiver.counted("neve_receiver_inflight_bytes") == 2 * len(body)
        error = refusal(receiver, body)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        [detail] = status_of(error).details
        info = RetryInfo()
        assert detail.Unpack(info)
        assert info.retry_delay.seconds == 7
        assert receiver.post("/v1/traces", body).status == 429
        mended.set()
        assert call(body, timeout=600) == b""
    until(lambda: receiver.counted("neve_receiver_inflight_bytes") == 0)
    until(lambda: receiver.counted("neve_receiver_abandoned_total", transport="grpc") == 2)


def test_large_metadata_is_refused(start: Callable[..., Running]) -> None:
    """Before anyone reads it."""
    receiver = start(max_header_bytes=2048)
    with receiver.channel() as channel:
        call = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as caught:
            call(traces(), metadata=[("x-flood", "y" * 10_000)], timeout=600)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call(traces(), timeout=600) == b""


def test_a_client_that_sends_nothing_is_given_up(start: Callable[..., Running]) -> None:
    """A call without a message ends when its time is over."""
    receiver = start(body_seconds=0.3)
    hold = threading.Event()

    def nothing() -> Any:
        hold.wait(600)
        yield b""

    with receiver.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.stream_unary(EXPORT)(nothing(), timeout=600)
    hold.set()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_calls_reserve_room_before_they_are_read(start: Callable[..., Running]) -> None:
    """Calls that send half a message each hold the budget as if it were whole, and no more than half of the budget."""
    receiver = start(max_inflight_bytes=4 * 1024 * 1024, max_message_bytes=1024 * 1024, max_grpc_bytes=1024 * 1024)
    go, sent = threading.Event(), threading.Semaphore(0)

    def later() -> Any:
        sent.release()
        go.wait(600)
        yield traces(3)

    with receiver.channel() as channel:
        call = channel.stream_unary(EXPORT)
        waiting = [call.future(later(), timeout=600) for _ in range(6)]
        for _ in waiting:
            sent.acquire()
        held: set[float] = set()
        while 2 * 1024 * 1024 not in held:
            held.add(receiver.counted("neve_receiver_inflight_bytes"))
        go.set()
        assert [future.result() for future in waiting] == [b""] * 6
    assert max(held) == 2 * 1024 * 1024
    assert receiver.counted("neve_receiver_inflight_bytes") == 0


def test_connections_are_bounded(start: Callable[..., Running]) -> None:
    """The one too many is not served; those that are open are."""
    receiver = start(max_connections=2)
    with ExitStack() as stack:
        calls = []
        for number in range(3):
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
            channel = stack.enter_context(receiver.channel(options=options))
            call = channel.unary_unary(EXPORT)
            if number == 2:
                with pytest.raises(grpc.RpcError) as caught:
                    call(traces(), timeout=3)
                assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            else:
                assert call(traces(), timeout=600) == b""
                calls.append(call)
        assert [call(traces(), timeout=600) for call in calls] == [b"", b""]
