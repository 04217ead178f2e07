"""Datadog's trace intake: the agent's `/v0.4/traces`, which the collector's `datadog` receiver has, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve import __version__
from neve.tail.export.datadog_spans import datadog_document
from neve.tail.export.http_destination import HttpDestination
from neve.tail.export.http_reply import judge
from neve.tail.export.pieces import Sent

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.tail.export.http_client import HttpReply

HEADERS = {"content-type": "application/msgpack", "datadog-meta-tracer-version": f"neve-{__version__}"}


class Datadog(HttpDestination):
    """Puts traces to an agent."""

    path = "/v0.4/traces"

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], Sent]]:
        """A document of traces."""
        document, traces = datadog_document(piece)
        headers = {**HEADERS, **self.packing.headers, "x-datadog-trace-count": str(traces)}

        def attempt(body: bytes) -> Sent:
            return judge(self.name, self.client.send(body, headers, "PUT"), piece.num_rows, _taken)

        return self.packing.pack(document), attempt


def _taken(_reply: HttpReply, _spans: int) -> Sent:
    """An agent takes a document as a whole; what it answers are rates for those who sample at the head."""
    return Sent()
