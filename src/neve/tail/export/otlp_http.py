"""OTLP over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.tail.export.http_destination import HttpDestination
from neve.tail.export.http_reply import judge
from neve.tail.export.otlp_message import otlp_message
from neve.tail.export.otlp_reply import read_http

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.tail.export.pieces import Sent

PROTOBUF = {"content-type": "application/x-protobuf"}


class OtlpHttp(HttpDestination):
    """Posts messages to `/v1/traces` below the endpoint."""

    path = "/v1/traces"

    def request(self, piece: pa.RecordBatch) -> tuple[bytes, Callable[[bytes], Sent]]:
        """A message, packed; the answer may tell of spans that were refused."""
        headers = {**PROTOBUF, **self.packing.headers}

        def attempt(body: bytes) -> Sent:
            return judge(self.name, self.client.send(body, headers), piece.num_rows, read_http)

        return self.packing.pack(otlp_message(piece)), attempt
