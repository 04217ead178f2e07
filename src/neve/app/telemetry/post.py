"""Messages of Neve's own telemetry, sent as OTLP over HTTP."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import urllib3
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from urllib3.exceptions import HTTPError

from neve.app.telemetry.outbox import Away, Refused
from neve.app.telemetry.place import OWN_HEADER

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from neve.app.telemetry.place import Place

TIMEOUT_SECONDS = 5.0
COME_BACK = (429, 502, 503, 504)  # what OTLP says may be sent again
ANSWERS: dict[str, Any] = {"traces": ExportTraceServiceResponse, "logs": ExportLogsServiceResponse}
REJECTED = {"traces": "rejected_spans", "logs": "rejected_log_records"}


class Post:
    """Sends messages of one signal to a place. Redirects are not followed: they would take a key elsewhere."""

    def __init__(self, signal: str, place: Place) -> None:
        self._signal = signal
        self._url = place.url(signal)
        self._headers = {
            **place.headers,
            "content-type": "application/x-protobuf",
            "content-encoding": "gzip",
            OWN_HEADER: "1",
        }
        self._pool = urllib3.PoolManager(num_pools=1, retries=False, timeout=TIMEOUT_SECONDS)

    def send(self, message: Message) -> int:
        """Send a message; how many of its records were rejected. Raises `Away` or `Refused` where none was taken."""
        body = gzip.compress(message.SerializeToString(), compresslevel=1)
        try:
            answer = self._pool.request("POST", self._url, body=body, headers=self._headers, redirect=False)
        except (HTTPError, OSError) as error:
            raise Away(f"{self._url} does not answer: {type(error).__name__}") from error
        if answer.status in COME_BACK:
            raise Away(f"{self._url} answers with {answer.status}")
        if not 200 <= answer.status < 300:
            raise Refused(f"{self._url} refuses with {answer.status}")
        return self._rejected(answer.data)

    def _rejected(self, body: bytes) -> int:
        said = ANSWERS[self._signal].FromString(body).partial_success
        return int(getattr(said, REJECTED[self._signal]))
