"""OTLP over gRPC."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.tail.export.http_reply import MOST_SAID
from neve.tail.export.otlp_message import otlp_message
from neve.tail.export.otlp_reply import read
from neve.tail.export.packing import Packing
from neve.tail.export.patience import Busy, Patience
from neve.tail.export.pieces import Sent, Unsayable, in_pieces, unsayable
from neve.tail.export.port import DestinationAway

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.export.config import DestinationConfig
    from neve.tail.export.port import Delivery

METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
DETAILS = "grpc-status-details-bin"
OPTIONS = (
    ("grpc.enable_retries", 0),  # the patience is ours, so that it ends when the configuration says so
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
)
REFUSED = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
)
# About the address or the key, not about the spans.
MISCONFIGURED = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
)
SIZE = re.compile(r"larger than|exceed|too large|max.*size", re.IGNORECASE)


class OtlpGrpc:
    """Calls the trace service of the endpoint."""

    def __init__(self, config: DestinationConfig) -> None:
        self.name = config.name
        self._most, self._timeout = config.batch_spans, config.timeout_seconds
        self._metadata = tuple((key.lower(), value) for key, value in config.plain_headers.items())
        self._channel = _channel(config)
        # Without a serializer: the message is written already.
        self._export = self._channel.unary_unary(METHOD, response_deserializer=ExportTraceServiceResponse.FromString)
        self._patience = Patience(config.name, config.retry_seconds)

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Send all spans, in calls of at most `batch_spans`."""
        return in_pieces(batch, self._most, self._send)

    def close(self) -> None:
        """End what waits, and close the channel."""
        self._patience.ended.set()
        self._channel.close()

    def _send(self, piece: pa.RecordBatch) -> Sent:
        try:
            message = otlp_message(piece)
        except Unsayable as error:
            return unsayable(piece, error)
        sent, attempts = self._patience.run(lambda: self._attempt(message, piece.num_rows))
        return replace(sent, bytes_sent=attempts * len(message), attempts=attempts)

    def _attempt(self, message: bytes, spans: int) -> Sent:
        try:
            return read(self._export(message, timeout=self._timeout, metadata=self._metadata))
        except grpc.RpcError as error:
            return judge_call(self.name, error.code(), error.details() or "", retry_delay(error), spans)


def judge_call(destination: str, code: Any, details: str, delay: float | None, spans: int) -> Sent:
    """What became of the spans of a call that failed; raises `Busy` or `DestinationAway` as `http_reply.judge` does.

    A server that is short of something and says when to come back is busy. One that does not say so means, by the
    standard, "never": where it speaks of a size the message was too large, and otherwise it is asked again all the
    same, for servers are not that exact, and nothing is lost by asking.
    """
    message = f"gRPC {code.name}: {' '.join(details.split())[:MOST_SAID] or 'no reason was given'}"
    if code in MISCONFIGURED:
        raise DestinationAway(
            f"the destination {destination} refuses whatever it is sent: {message}",
            hint="look at its endpoint and headers; what was kept for it waits until they are right",
        )
    too_large = code is grpc.StatusCode.RESOURCE_EXHAUSTED and delay is None and SIZE.search(details) is not None
    if code in REFUSED or too_large:
        return Sent(rejected=spans, message=message, divide=too_large)
    raise Busy(message, after=delay)


def retry_delay(error: Any) -> float | None:
    """The seconds that a `RetryInfo` in the details of a status asks for."""
    packed = next((value for key, value in error.trailing_metadata() or () if key == DETAILS), b"")
    try:
        for detail in Status.FromString(packed).details:
            info = RetryInfo()
            if detail.Unpack(info):
                return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        return None
    return None


def _channel(config: DestinationConfig) -> Any:
    parts = urlsplit(config.endpoint)
    compression = grpc.Compression.Gzip if config.packing is Packing.GZIP else grpc.Compression.NoCompression
    target = parts.netloc if parts.port else f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"
    if parts.scheme == "http":
        return grpc.insecure_channel(target, options=OPTIONS, compression=compression)
    trusted = Path(config.ca_file).read_bytes() if config.ca_file else None
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(trusted), options=OPTIONS, compression=compression)
