"""OpenTelemetry's OTLP/HTTP exporters and batch processors for Neve's own telemetry, within bounds and counted.

OpenTelemetry batches, encodes, compresses and sends. What Neve adds is around it: callers never wait, a full queue
drops new items and counts them, a batch that the receiver may take later is kept and sent again, and the end of a
process is bounded. An unavailable receiver is logged once, and once when it is back: a line for each attempt would
itself have to be sent.
"""

from __future__ import annotations

import logging
import ssl
import threading
from typing import TYPE_CHECKING, Any, Protocol

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor, LogRecordExporter
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from prometheus_client import Counter, Gauge

from neve.app.telemetry.config import OWN_HEADER
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import ReadableSpan

    from neve.app.telemetry.config import Endpoint, TelemetryConfig


SENT = Counter("neve_telemetry_sent", "Own spans and log lines that were accepted", ["signal"])
DROPPED = Counter(
    "neve_telemetry_dropped", "Own spans and log lines that were dropped, by reason", ["signal", "reason"]
)
FAILURES = Counter("neve_telemetry_failures", "Export requests that failed or were rejected", ["signal"])
QUEUE = Gauge("neve_telemetry_queue", "Own spans and log lines in the queue", ["signal"])

BATCH = 512  # maximum number of items in a message
TIMEOUT_SECONDS = 5.0  # for a message and OpenTelemetry's own retries
LONGEST_PAUSE_SECONDS = 30.0
MAX_REPLY_BYTES = 64 * 1024
RETRYABLE_STATUSES = (429, 502, 503, 504)  # retryable by the OTLP specification
EXPORTERS: dict[str, Any] = {"traces": OTLPSpanExporter, "logs": OTLPLogExporter}
RESPONSES: dict[str, Any] = {"traces": ExportTraceServiceResponse, "logs": ExportLogsServiceResponse}
REJECTED = {"traces": "rejected_spans", "logs": "rejected_log_records"}

log = get_logger("neve.telemetry")
# The state of the receiver is logged here, once. OpenTelemetry would log every attempt.
logging.getLogger("opentelemetry.exporter.otlp").setLevel(logging.CRITICAL)


class ReceiverUnavailable(Exception):
    """Raised when a message was not accepted, and a retry may succeed."""


class MessageRejected(Exception):
    """Raised when a message was not accepted, and a retry would fail again."""


class Sender(Protocol):
    """Client that sends a message."""

    def send(self, items: Sequence[Any]) -> int:
        """Send items and return how many were accepted; raises `ReceiverUnavailable` or `MessageRejected`."""

    def close(self) -> None:
        """Abort a request that is under way."""


class OtlpSender:
    """OpenTelemetry's exporter of a signal, with the receiver's response, which the exporter does not report."""

    def __init__(self, signal: str, place: Endpoint) -> None:
        self._signal, self._url = signal, place.url(signal)
        self._session = _Session()
        self._exporter = EXPORTERS[signal](
            endpoint=self._url,
            headers={**place.headers, OWN_HEADER: "1"},
            timeout=TIMEOUT_SECONDS,
            compression=Compression.Gzip,
            certificate_file=place.ca_file or ssl.get_default_verify_paths().cafile,  # the certificates of the system
            client_certificate_file=place.client_certificate or None,
            client_key_file=place.client_key or None,
            session=self._session,
        )

    def send(self, items: Sequence[Any]) -> int:
        """Send a message."""
        self._session.is_used = False
        self._exporter.export(items)
        status = self._session.status
        if not self._session.is_used:
            raise MessageRejected("the message can't be encoded")
        if status is None:
            raise ReceiverUnavailable(f"{self._url} does not respond: {self._session.error}")
        if status in RETRYABLE_STATUSES:
            raise ReceiverUnavailable(f"{self._url} answers with {status}")
        if not 200 <= status < 300:
            raise MessageRejected(f"{self._url} refuses with {status}")
        rejected = RESPONSES[self._signal].FromString(self._session.reply).partial_success
        return len(items) - int(getattr(rejected, REJECTED[self._signal]))

    def close(self) -> None:
        """Abort the exporter's retries and close its connection."""
        self._exporter.shutdown()


class _Session(requests.Session):
    """Connection of an exporter, which keeps the last response. The exporter follows no redirects."""

    def __init__(self) -> None:
        super().__init__()
        self.trust_env = False  # no proxies, and no passwords of a .netrc
        self.is_used = False
        self.status: int | None = None
        self.reply = b""
        self.error = ""

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Send a request, and read a bounded part of the response."""
        self.is_used, self.status, self.reply, self.error = True, None, b"", ""
        try:
            response = super().send(request, **{**options, "stream": True})
            self.reply = response.raw.read(MAX_REPLY_BYTES, decode_content=True)
        except Exception as error:
            self.error = type(error).__name__
            raise
        self.status = response.status_code
        response.close()
        return response


class BoundedExporter(SpanExporter, LogRecordExporter):
    """Exporter that keeps a batch until it is finished (sent or dropped), and counts the items that wait."""

    def __init__(self, signal: str, sender: Sender, config: TelemetryConfig) -> None:
        self._signal, self._sender = signal, sender
        self._most, self._every = config.max_queue, config.interval_seconds
        self._waiting = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._given_up = False
        self._trouble = ""
        QUEUE.labels(signal).set_function(lambda: self._waiting)

    def admit(self) -> bool:
        """Return whether there is room for one more item, which then waits; never blocks."""
        with self._lock:
            if self._closing.is_set() or self._waiting >= self._most:
                DROPPED.labels(self._signal, "stopped" if self._closing.is_set() else "full").inc()
                return False
            self._waiting += 1
            return True

    def export(self, batch: Sequence[Any]) -> Any:
        """Send a batch, until it is accepted or rejected, or the process ends."""
        pause = self._every
        while not self._given_up and not self._try(batch):
            if self._closing.is_set():
                self._given_up = True  # the others would not be taken either
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def end(self) -> None:
        """Admit no more items, and try no batch again."""
        self._closing.set()

    def give_up(self) -> None:
        """Drop the items that still wait, and count them."""
        with self._lock:
            self._given_up, left, self._waiting = True, self._waiting, 0
        if left:
            DROPPED.labels(self._signal, "stopped").inc(left)

    def shutdown(self) -> None:
        """Abort a request that is under way."""
        self._sender.close()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: the batch processor has the queue."""
        return True

    def _try(self, batch: Sequence[Any]) -> bool:
        """Send a batch, and return whether it is finished."""
        taken, trouble = 0, ""
        try:
            taken = self._sender.send(batch)
        except ReceiverUnavailable as error:
            FAILURES.labels(self._signal).inc()
            self._log_change(str(error))
            return False
        except Exception as error:  # rejected, or a bug: the next message may succeed
            FAILURES.labels(self._signal).inc()
            trouble = str(error) or type(error).__name__
        self._log_change(trouble)
        with self._lock:
            if self._given_up:  # they are counted as dropped already
                return True
            self._waiting -= len(batch)
        SENT.labels(self._signal).inc(taken)
        DROPPED.labels(self._signal, "refused").inc(len(batch) - taken)
        return True

    def _log_change(self, trouble: str) -> None:
        """Log changes of the state, and nothing else, until the exporter is closed."""
        if self._given_up:  # the thread of a request may outlive its exporter
            return
        before, self._trouble = self._trouble, trouble
        if trouble and not before:
            log.warning("own telemetry is not accepted", signal=self._signal, error=trouble)
        elif before and not trouble:
            log.info("own telemetry is accepted again", signal=self._signal)


class SpanQueue(BatchSpanProcessor):
    """Queue of spans."""

    def __init__(self, sender: Sender, config: TelemetryConfig) -> None:
        self.exporter = BoundedExporter("traces", sender, config)
        super().__init__(self.exporter, config.max_queue, 1000 * config.interval_seconds, min(BATCH, config.max_queue))

    def on_end(self, span: ReadableSpan) -> None:
        """Queue a sampled span."""
        if span.context and span.context.trace_flags.sampled and self.exporter.admit():
            super().on_end(span)


class LogQueue(BatchLogRecordProcessor):
    """Queue of log lines."""

    def __init__(self, sender: Sender, config: TelemetryConfig) -> None:
        self.exporter = BoundedExporter("logs", sender, config)
        batch = min(BATCH, config.max_queue)
        super().__init__(self.exporter, 1000 * config.interval_seconds, batch, max_queue_size=config.max_queue)

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Queue a line."""
        if self.exporter.admit():
            super().on_emit(log_record)


def close_queues(queues: Sequence[SpanQueue | LogQueue], seconds: float, clock: Callable[[], float]) -> None:
    """Send what waits within a time; then the rest is dropped. OpenTelemetry's own shutdown may take 30 seconds."""
    end = clock() + seconds
    threads = [threading.Thread(target=queue.shutdown, daemon=True) for queue in queues]
    for queue, thread in zip(queues, threads, strict=True):
        queue.exporter.end()
        thread.start()
    for queue, thread in zip(queues, threads, strict=True):
        thread.join(max(0.0, end - clock()))
        queue.exporter.give_up()
