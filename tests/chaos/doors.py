"""Connections of a sender, which outlive the receiver: each export is answered, or is to be sent again."""

from __future__ import annotations

import gzip
import http.client
import time
from enum import Enum
from typing import TYPE_CHECKING, Any

import grpc  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from neve.model.signals import Signal
from neve.otlp.json import to_json
from tests.chaos.exports import Door
from tests.parts.process import HOST

if TYPE_CHECKING:
    from tests.chaos.exports import Export
    from tests.chaos.messages import Message

TIMEOUT_SECONDS = 10.0
DEAF_SECONDS = 0.2
OK = 200
STATUSES_TO_TRY_AGAIN = (429, 502, 503, 504)
CODES_TO_TRY_AGAIN = (
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
)
RECONNECT = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 500)]
STUBS: dict[Signal, Any] = {
    Signal.TRACES: TraceServiceStub,
    Signal.LOGS: LogsServiceStub,
    Signal.METRICS: MetricsServiceStub,
}


class Answer(Enum):
    """What became of an attempt."""

    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"  # no answer: it may be durable, and is sent again
    LATER = "later"  # the receiver said that it should be sent again


class Refused(Exception):
    """Raised when the receiver refuses an export, or a part of it, for good."""


class Doors:
    """The connections of one thread."""

    def __init__(self, http_port: int, grpc_port: int) -> None:
        self._http = http.client.HTTPConnection(HOST, http_port, timeout=TIMEOUT_SECONDS)
        self._channel = grpc.insecure_channel(f"{HOST}:{grpc_port}", options=RECONNECT)
        self._stubs: dict[Signal, Any] = {signal: make(self._channel) for signal, make in STUBS.items()}

    def close(self) -> None:
        """Hang up."""
        self._http.close()
        self._channel.close()

    def send(self, export: Export, message: Message, *, listen: bool) -> Answer:
        """Send an export once; raises `Refused` when sending it again is of no use.

        Where it does not listen, it hangs up before the answer comes, but after the export was most likely kept.
        """
        if export.door is Door.GRPC:
            return self._over_grpc(export, message, listen)
        return self._over_http(export, message, listen)

    def _over_grpc(self, export: Export, message: Message, listen: bool) -> Answer:
        packing = grpc.Compression.Gzip if export.gzip else grpc.Compression.NoCompression
        call = self._stubs[export.signal].Export.future(message, timeout=TIMEOUT_SECONDS, compression=packing)
        if not listen:
            time.sleep(DEAF_SECONDS)
            call.cancel()
            return Answer.UNKNOWN
        try:
            reply = call.result()
        except grpc.RpcError as error:
            if error.code() not in CODES_TO_TRY_AGAIN:
                raise Refused(f"gRPC {error.code()}: {error.details()}") from error
            return Answer.LATER if error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED else Answer.UNKNOWN
        if reply.HasField("partial_success"):
            raise Refused(f"gRPC took only a part: {reply.partial_success}")
        return Answer.ACKNOWLEDGED

    def _over_http(self, export: Export, message: Message, listen: bool) -> Answer:
        body, headers = _body(export, message)
        try:
            self._http.request("POST", f"/v1/{export.signal}", body, headers)
            if not listen:
                time.sleep(DEAF_SECONDS)
                raise ConnectionAbortedError
            response = self._http.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException):
            self._http.close()  # the next request opens a new connection
            return Answer.UNKNOWN
        if response.status in STATUSES_TO_TRY_AGAIN:
            return Answer.LATER
        if response.status != OK or said not in (b"", b"{}"):
            raise Refused(f"HTTP {response.status}: {said!r}")
        return Answer.ACKNOWLEDGED


def _body(export: Export, message: Message) -> tuple[bytes, dict[str, str]]:
    body, headers = message.SerializeToString(), {"content-type": "application/x-protobuf"}
    if export.door is Door.HTTP_JSON:
        body, headers = to_json(export.signal, body).encode(), {"content-type": "application/json"}
    if export.gzip:
        body, headers = gzip.compress(body, 1), {**headers, "content-encoding": "gzip"}
    return body, headers
