"""What becomes of Neve's own telemetry, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SENT = Counter("neve_telemetry_sent", "own spans and log lines that were taken", ["signal"])
DROPPED = Counter("neve_telemetry_dropped", "own spans and log lines that were not, by reason", ["signal", "reason"])
FAILURES = Counter("neve_telemetry_failures", "requests that were not answered, or with a refusal", ["signal"])
QUEUE = Gauge("neve_telemetry_queue", "own spans and log lines that wait to be sent", ["signal"])
