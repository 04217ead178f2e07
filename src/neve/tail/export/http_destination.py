"""What destinations over HTTP have in common: a client, patience, and requests of a bounded size."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neve.tail.export.http_client import HttpClient
from neve.tail.export.patience import Patience
from neve.tail.export.pieces import Sent, Unsayable, in_pieces, unsayable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.tail.export.config import DestinationConfig
    from neve.tail.export.port import Delivery


class HttpDestination:
    """Sends spans to a path below the endpoint; what a request says and what its answer means is for its heirs."""

    path = ""

    def __init__(self, config: DestinationConfig) -> None:
        self.name = config.name
        self.packing = config.packing
        self._most = config.batch_spans
        self.client = HttpClient(
            config.name,
            address(config.endpoint, self.path),
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
        self.client.close()

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], Sent]]:
        """The body for some spans, and how it is sent; raises `Unsayable` where the format has no words for them."""
        raise NotImplementedError

    def _send(self, piece: pa.RecordBatch) -> Sent:
        try:
            body, attempt = self.request(piece)
        except Unsayable as error:
            return unsayable(piece, error)
        sent, attempts = self._patience.run(lambda: attempt(body))
        return replace(sent, bytes_sent=attempts * len(body), attempts=attempts)


def address(endpoint: str, path: str) -> str:
    """Where requests go: a path below the endpoint, which may name the path itself.

    >>> address("http://h:4318/otlp/", "/v1/traces"), address("http://h/v1/traces", "/v1/traces")
    ('http://h:4318/otlp/v1/traces', 'http://h/v1/traces')
    """
    base = endpoint.rstrip("/")
    return base if base.endswith(path) else base + path
