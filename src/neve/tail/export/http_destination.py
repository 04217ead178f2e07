"""Base of destinations over HTTP: client, retries, and the meaning of a response for the spans that were sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]

from neve.http_client import HttpClient, HttpReply, NoReply, RetryableError, ServerUntrusted
from neve.tail.export.destination import (
    DestinationUnavailable,
    RetryPolicy,
    SendResult,
    SpanEncodingError,
    reject_unencodable,
    send_in_pieces,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from neve.tail.config import DestinationConfig
    from neve.tail.export.destination import Delivery


MAX_REPLY_BYTES = 64 * 1024  # 64 kB, the rest is not read


# The standard defines 429, 502, 503 and 504 as retryable. 408 and the other 5xx also concern the server and not the
# spans, so they are retried for a while, and then the server counts as unavailable.
TIMED_OUT, TOO_MANY, TOO_LARGE = 408, 429, 413
# Errors of the address or the key, not of the spans: everything would be rejected, and lost, until they are fixed.
MISCONFIGURED = (401, 402, 403, 404, 405, 407, 421, 501)
MAX_MESSAGE_CHARS = 500  # characters of a server's message

ReadReply = Callable[["HttpReply", int], SendResult]


def interpret_reply(destination: str, reply: HttpReply, spans: int, read: ReadReply) -> SendResult:
    """Return the result of a request.

    `read` parses the response of a server that accepted the spans.

    Raises `RetryableError` for errors that may be temporary, and `DestinationUnavailable` for errors that remain until
    a setting is changed.
    """
    status = reply.status
    if 200 <= status < 300:
        return read(reply, spans)
    message = f"HTTP {status}: {extract_message(reply)}"
    if status in MISCONFIGURED or 300 <= status < 400:
        raise DestinationUnavailable(
            f"the destination {destination} rejects all requests: {message}",
            hint="check its endpoint and headers; kept spans are delivered when they are right",
        )
    if status in (TIMED_OUT, TOO_MANY) or status >= 500:
        raise RetryableError(message, after=reply.retry_after)
    return SendResult(rejected=spans, message=message, divide=status == TOO_LARGE)


def extract_message(reply: HttpReply) -> str:
    """Return the message of a rejection: from a `Status` in protobuf or JSON, otherwise the text of the body."""
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    found = ""
    if kind == "application/x-protobuf":
        found = _parse_status_message(reply.body)
    elif kind == "application/json":
        found = _parse_json_message(reply.body)
    text = found or reply.body.decode(errors="replace")
    return " ".join(text.split())[:MAX_MESSAGE_CHARS] or "no reason was given"


def _parse_status_message(body: bytes) -> str:
    try:
        message: str = Status.FromString(body).message
    except DecodeError:
        return ""
    return message


def _parse_json_message(body: bytes) -> str:
    try:
        document = json.loads(body)
    except ValueError:
        return ""
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, str) else ""


class HttpDestination:
    """Base of destinations that send spans to a path below the endpoint.

    Subclasses encode requests and read responses.
    """

    path = ""

    def __init__(self, config: DestinationConfig) -> None:
        self.name = config.name
        self.packing = config.packing
        self._most = config.batch_spans
        self._url = build_url(config.endpoint, self.path)
        self._client = HttpClient(
            timeout_seconds=config.timeout_seconds,
            max_reply_bytes=MAX_REPLY_BYTES,
            headers=config.plain_headers,
            ca_file=config.ca_file,
            client_certificate=config.client_certificate,
            client_key=config.client_key,
        )
        self._retries = RetryPolicy(config.name, config.retry_seconds)

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Send all spans, in requests of at most `batch_spans`."""
        return send_in_pieces(batch, self._most, self._send)

    def close(self) -> None:
        """Abort waiting attempts, and close the connections."""
        self._retries.stop.set()
        self._client.close()

    def send(self, body: bytes, headers: Mapping[str, str], method: str = "POST") -> HttpReply:
        """Send one request and return the response.

        Raises `RetryableError` if there is no response, and `DestinationUnavailable` if the server is not trusted.
        """
        try:
            return self._client.request(method, self._url, body, headers)
        except ServerUntrusted as error:
            raise DestinationUnavailable(
                f"the destination {self.name} at {error}",
                hint="set ca_file to the trusted certificates",
            ) from error
        except NoReply as error:
            raise RetryableError(str(error)) from error

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], SendResult]]:
        """Encode spans into a body, and return how to send it.

        Raises `SpanEncodingError` if the format can't.
        """
        raise NotImplementedError

    def _send(self, piece: pa.RecordBatch) -> SendResult:
        try:
            body, attempt = self.request(piece)
        except SpanEncodingError as error:
            return reject_unencodable(piece, error)
        sent, attempts = self._retries.run(lambda: attempt(body))
        return replace(sent, bytes_sent=attempts * len(body), attempts=attempts)


def build_url(endpoint: str, path: str) -> str:
    """Return the URL of requests: a path below the endpoint, unless the endpoint already ends with the path.

    >>> build_url("http://h:4318/otlp/", "/v1/traces"), build_url("http://h/v1/traces", "/v1/traces")
    ('http://h:4318/otlp/v1/traces', 'http://h/v1/traces')
    """
    base = endpoint.rstrip("/")
    return base if base.endswith(path) else base + path
