"""Prometheus metrics of the receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


disable_created_metrics()  # type: ignore[no-untyped-call] # they would double the number of time series


class ReceiverMetrics:
    """Counters of one receiver, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "responses by signal and status", "signal", "transport", "status")
        self._refusals = self._counter("refusals", "rejected requests", "transport", "reason")
        self._records = self._counter("records", "stored records, including those that will be quarantined", "signal")
        self._rejected = self._counter(
            "rejected_records", "stored records that will be quarantined", "signal", "reason"
        )
        self._received = self._counter("received_bytes", "bytes of messages as sent", "signal")
        self._unpacked = self._counter("unpacked_bytes", "bytes of messages after decompression", "signal")
        self._unrecognized = self._counter(
            "unrecognized_messages", "JSON messages without the field of their signal, and with other fields", "signal"
        )
        self._abandoned = self._counter("abandoned", "clients that disconnected before the response", "transport")
        self._durable = Histogram(
            "neve_receiver_durable_seconds",
            "seconds from a complete request until its bytes are durable",
            buckets=SECONDS,
            registry=self.registry,
        )

    def count_response(self, signal: str, transport: str, status: str) -> None:
        """Count a response."""
        self._requests.labels(signal, transport, status).inc()

    def count_refusal(self, transport: str, reason: str) -> None:
        """Count a refusal."""
        self._refusals.labels(transport, reason).inc()

    def count_abandoned(self, transport: str) -> None:
        """Count a client that disconnected before the response."""
        self._abandoned.labels(transport).inc()

    def count_stored(self, signal: str, records: int, rejected: Mapping[str, int], seconds: float) -> None:
        """Count a message that became durable."""
        self._durable.observe(seconds)
        self._records.labels(signal).inc(records)
        for reason, count in rejected.items():
            self._rejected.labels(signal, reason).inc(count)

    def count_unrecognized(self, signal: str) -> None:
        """Count a message of which no field is known."""
        self._unrecognized.labels(signal).inc()

    def count_bytes(self, signal: str, packed: int, unpacked: int) -> None:
        """Count the bytes of a message."""
        self._received.labels(signal).inc(packed)
        self._unpacked.labels(signal).inc(unpacked)

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Register a gauge whose value is read at each scrape."""
        Gauge(f"neve_receiver_{name}", help_text, registry=self.registry).set_function(read)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(f"neve_receiver_{name}", help_text, labels, registry=self.registry)
