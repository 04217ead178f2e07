"""OTLP over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.tail.export.http_client import HttpClient
from neve.tail.export.http_reply import judge
from neve.tail.export.otlp_message import otlp_message
from neve.tail.export.otlp_reply import read_http
from neve.tail.export.patience import Patience
from neve.tail.export.pieces import Sent, Unsayable, in_pieces, unsayable

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.export.config import DestinationConfig
    from neve.tail.export.port import Delivery

PATH = "/v1/traces"
PROTOBUF = {"content-type": "application/x-protobuf"}


class OtlpHttp:
    """Posts messages to `/v1/traces` below the endpoint."""

    def __init__(self, config: DestinationConfig) -> None:
        self.name = config.name
        self._most, self._packing = config.batch_spans, config.packing
        self._client = HttpClient(
            config.name,
            address(config.endpoint, PATH),
            config.plain_headers,
            timeout_seconds=config.timeout_seconds,
            ca_file=config.ca_file,
        )
        self._patience = Patience(config.name, config.retry_seconds)

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Send all spans, in requests of at most `batch_spans`."""
        return in_pieces(batch, self._most, self._send)

    def close(self) -> None:
        """End what waits, and close the connections."""
        self._patience.ended.set()
        self._client.close()

    def _send(self, piece: pa.RecordBatch) -> Sent:
        try:
            body = self._packing.pack(otlp_message(piece))
        except Unsayable as error:
            return unsayable(piece, error)
        sent, attempts = self._patience.run(lambda: self._attempt(body, piece.num_rows))
        return replace(sent, bytes_sent=attempts * len(body), attempts=attempts)

    def _attempt(self, body: bytes, spans: int) -> Sent:
        reply = self._client.send(body, {**PROTOBUF, **self._packing.headers})
        return judge(self.name, reply, spans, read_http)


def address(endpoint: str, path: str) -> str:
    """Where requests go: a path below the endpoint, which may name the path itself.

    >>> address("http://h:4318/otlp/", "/v1/traces"), address("http://h/v1/traces", "/v1/traces")
    ('http://h:4318/otlp/v1/traces', 'http://h/v1/traces')
    """
    base = endpoint.rstrip("/")
    return base if base.endswith(path) else base + path
