"""Datadog's trace intake: the agent's `/v0.4/traces`, which the collector's `datadog` receiver has, too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve import __version__
from neve.tail.export.datadog_spans import datadog_document
from neve.tail.export.http_client import HttpClient, HttpReply
from neve.tail.export.http_reply import judge
from neve.tail.export.otlp_http import address
from neve.tail.export.patience import Patience
from neve.tail.export.pieces import Sent, Unsayable, in_pieces, unsayable

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.tail.export.config import DestinationConfig
    from neve.tail.export.port import Delivery

PATH = "/v0.4/traces"
HEADERS = {"content-type": "application/msgpack", "datadog-meta-tracer-version": f"neve-{__version__}"}


class Datadog:
    """Puts traces to an agent."""

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
            document, traces = datadog_document(piece)
        except Unsayable as error:
            return unsayable(piece, error)
        body = self._packing.pack(document)
        headers = {**HEADERS, **self._packing.headers, "x-datadog-trace-count": str(traces)}
        sent, attempts = self._patience.run(lambda: self._attempt(body, headers, piece.num_rows))
        return replace(sent, bytes_sent=attempts * len(body), attempts=attempts)

    def _attempt(self, body: bytes, headers: dict[str, str], spans: int) -> Sent:
        return judge(self.name, self._client.send(body, headers, "PUT"), spans, _taken)


def _taken(_reply: HttpReply, _spans: int) -> Sent:
    """An agent takes a document as a whole; what it answers are rates for those who sample at the head."""
    return Sent()
