"""OTLP destinations over HTTP and gRPC: encode spans as a message, and read partial successes from the response."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import grpc  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from neve.http_client import RetryableError
from neve.logger import get_logger
from neve.model.signals import Signal
from neve.otlp import encode
from neve.tail.config import Compression
from neve.tail.export.destination import (
    DestinationUnavailable,
    RetryPolicy,
    SendResult,
    SpanEncodingError,
    reject_unencodable,
    send_in_pieces,
)
from neve.tail.export.http_destination import MAX_MESSAGE_CHARS, HttpDestination, interpret_reply

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.http_client import HttpReply
    from neve.tail.config import DestinationConfig
    from neve.tail.export.destination import Delivery


INSTANCE_ID = "service.instance.id"


def encode_message(batch: pa.RecordBatch) -> bytes:
    """Encode all rows as one message.

    Raises `SpanEncodingError`.
    """
    try:
        return encode(Signal.TRACES, _group_by_service(batch))
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise SpanEncodingError(f"can't be encoded in OTLP: {str(error).splitlines()[0]}") from error


def _group_by_service(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Sort spans by service and scope, so that neighbours share their resource and scope in the message.

    A batch is sorted by trace. There, every second row belongs to another service and would repeat its resource.
    """
    keys = pa.table(
        {
            "service": batch.column("service_name"),
            "instance": pc.map_lookup(batch.column("resource_attrs"), INSTANCE_ID, "first"),
            "scope": batch.column("scope_name"),
        }
    )
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in keys.column_names])
    return batch.take(order)


log = get_logger(__name__)


def read_http_response(reply: HttpReply, _spans: int) -> SendResult:
    """Read the partial success of an HTTP response.

    An unreadable body counts as success, as the status was a success.
    """
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            return _to_send_result(*_parse_json(reply.body))
        return read_response(ExportTraceServiceResponse.FromString(reply.body))
    except (DecodeError, ValueError, AttributeError):
        log.warning("can't read the response of a destination", content_type=kind, size=len(reply.body))
        return SendResult()


def read_response(response: ExportTraceServiceResponse) -> SendResult:
    """Read the partial success of a response."""
    return _to_send_result(response.partial_success.rejected_spans, response.partial_success.error_message)


def _parse_json(body: bytes) -> tuple[int, str]:
    partial = (json.loads(body or b"{}").get("partialSuccess")) or {}
    return int(partial.get("rejectedSpans") or 0), str(partial.get("errorMessage") or "")


def _to_send_result(rejected: int, message: str) -> SendResult:
    """Convert a partial success.

    A message without rejected spans is a warning, which the standard defines for servers that accepted all spans.
    """
    return SendResult(rejected, message[:MAX_MESSAGE_CHARS] or ("no reason was given" if rejected else ""))


PROTOBUF_HEADERS = {"content-type": "application/x-protobuf"}


class OtlpHttpDestination(HttpDestination):
    """Destination that posts messages to `/v1/traces` below the endpoint."""

    path = "/v1/traces"

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], SendResult]]:
        """Encode and compress a message, whose response may report rejected spans."""
        headers = {**PROTOBUF_HEADERS, **self.packing.headers}

        def attempt(body: bytes) -> SendResult:
            return interpret_reply(self.name, self.send(body, headers), piece.num_rows, read_http_response)

        return self.packing.pack(encode_message(piece)), attempt


METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
DETAILS_KEY = "grpc-status-details-bin"
CHANNEL_OPTIONS = (
    ("grpc.enable_retries", 0),  # retries are ours, so that they end at the configured time
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 5000),
)
REJECTED_CODES = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.ALREADY_EXISTS,
)
# Errors of the address or the key, not of the spans.
MISCONFIGURED_CODES = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.NOT_FOUND,
)
SIZE_MESSAGE = re.compile(r"larger than|exceed|too large|max.*size", re.IGNORECASE)


class OtlpGrpcDestination:
    """Destination that calls the trace service of the endpoint."""

    def __init__(self, config: DestinationConfig) -> None:
        self.name = config.name
        self._most, self._timeout = config.batch_spans, config.timeout_seconds
        self._metadata = tuple((key.lower(), value) for key, value in config.plain_headers.items())
        self._channel = _open_channel(config)
        # No serializer, as the message is already encoded.
        self._export = self._channel.unary_unary(METHOD, response_deserializer=ExportTraceServiceResponse.FromString)
        self._retries = RetryPolicy(config.name, config.retry_seconds)

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Send all spans, in calls of at most `batch_spans`."""
        return send_in_pieces(batch, self._most, self._send)

    def close(self) -> None:
        """Abort waiting attempts, and close the channel."""
        self._retries.stop.set()
        self._channel.close()

    def _send(self, piece: pa.RecordBatch) -> SendResult:
        try:
            message = encode_message(piece)
        except SpanEncodingError as error:
            return reject_unencodable(piece, error)
        sent, attempts = self._retries.run(lambda: self._attempt(message, piece.num_rows))
        return replace(sent, bytes_sent=attempts * len(message), attempts=attempts)

    def _attempt(self, message: bytes, spans: int) -> SendResult:
        try:
            return read_response(self._export(message, timeout=self._timeout, metadata=self._metadata))
        except grpc.RpcError as error:
            return interpret_call_error(self.name, error.code(), error.details() or "", parse_retry_delay(error), spans)


def interpret_call_error(destination: str, code: Any, details: str, delay: float | None, spans: int) -> SendResult:
    """Return the result for the spans of a failed call.

    Raises `RetryableError` and `DestinationUnavailable` as `interpret_reply` does.

    A server with exhausted resources and a retry delay is busy. Without a delay, the standard means "never". If the
    message mentions a size, the request was too large. Otherwise the call is retried anyway, as servers are not that
    exact and a retry loses nothing.
    """
    message = f"gRPC {code.name}: {' '.join(details.split())[:MAX_MESSAGE_CHARS] or 'no reason was given'}"
    if code in MISCONFIGURED_CODES:
        raise DestinationUnavailable(
            f"the destination {destination} rejects all requests: {message}",
            hint="check its endpoint and headers; kept spans are delivered when they are right",
        )
    too_large = (
        code is grpc.StatusCode.RESOURCE_EXHAUSTED and delay is None and SIZE_MESSAGE.search(details) is not None
    )
    if code in REJECTED_CODES or too_large:
        return SendResult(rejected=spans, message=message, divide=too_large)
    raise RetryableError(message, after=delay)


def parse_retry_delay(error: Any) -> float | None:
    """Return the delay in seconds of a `RetryInfo` in the details of a status."""
    packed = next((value for key, value in error.trailing_metadata() or () if key == DETAILS_KEY), b"")
    try:
        for detail in Status.FromString(packed).details:
            info = RetryInfo()
            if detail.Unpack(info):
                return float(info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
    except DecodeError:
        return None
    return None


def _open_channel(config: DestinationConfig) -> Any:
    parts = urlsplit(config.endpoint)
    compression = grpc.Compression.Gzip if config.packing is Compression.GZIP else grpc.Compression.NoCompression
    target = parts.netloc if parts.port else f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"
    if parts.scheme == "http":
        return grpc.insecure_channel(target, options=CHANNEL_OPTIONS, compression=compression)
    trusted, key, chain = (
        Path(path).read_bytes() if path else None
        for path in (config.ca_file, config.client_key, config.client_certificate)
    )
    credentials = grpc.ssl_channel_credentials(trusted, key, chain)
    return grpc.secure_channel(target, credentials, options=CHANNEL_OPTIONS, compression=compression)
