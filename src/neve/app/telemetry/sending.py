"""A process whose own telemetry is sent: the tracer, the log handler and the two outboxes."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource

from neve import __version__
from neve.app.telemetry.logs import OtlpHandler
from neve.app.telemetry.outbox import Outbox
from neve.app.telemetry.place import place_of
from neve.app.telemetry.post import Post
from neve.app.telemetry.tracer import SdkTracer
from neve.app.telemetry.traces import SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

    from neve.app.telemetry.config import TelemetryConfig
    from neve.app.telemetry.outbox import Item
    from neve.app.telemetry.place import Place

LOGGER = "neve"


class Sending:
    """Sends from the moment that it is made until it is closed."""

    def __init__(self, config: TelemetryConfig, process: str, receiver_address: str | None) -> None:
        place = place_of(config, receiver_address)
        resource = resource_of(process)
        self._config = config
        self._spans: Outbox[ReadableSpan] = Outbox("traces", _sender("traces", place, encode_spans), config)
        self._lines: Outbox[ReadableLogRecord] = Outbox("logs", _sender("logs", place, encode_logs), config)
        self._handler = OtlpHandler(config.level, resource, self._lines.put)
        logging.getLogger(LOGGER).addHandler(self._handler)
        SWITCH.tracer = SdkTracer(resource, config.sample_ratio, self._spans.put)

    def close(self) -> None:
        """Send what is left, for no longer than `telemetry.drain_seconds`; spans after this are nobody's."""
        SWITCH.tracer = None
        logging.getLogger(LOGGER).removeHandler(self._handler)
        end = time.monotonic() + self._config.drain_seconds
        self._spans.end()
        self._lines.end()
        for outbox in (self._spans, self._lines):
            outbox.wait(max(0.0, end - time.monotonic()))


def resource_of(process: str) -> Resource:
    """What the telemetry is of: this process of Neve."""
    return Resource.create(
        {
            "service.name": "neve",
            "service.version": __version__,
            "service.instance.id": str(uuid4()),
            "host.name": socket.gethostname(),
            "process.pid": os.getpid(),
            "neve.process": process,
        }
    )


def _sender(signal: str, place: Place, encode: Callable[[Sequence[Item]], Message]) -> Callable[[Sequence[Item]], int]:
    """Sends items in one message; how many of them were taken."""
    post = Post(signal, place)
    return lambda items: len(items) - post.send(encode(items))
