"""Metrics of rules, for Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

EVALUATIONS = Counter("neve_rules_evaluations", "Evaluations of rules, by result (done or failed)", ["result"])
CYCLE_SECONDS = Histogram(
    "neve_rules_cycle_seconds",
    "Duration of a cycle: evaluations of all due groups and their commit",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
SAMPLES = Counter("neve_rules_samples", "Samples that rules recorded")
CORRECTED = Counter("neve_rules_corrected_samples", "Recorded samples that late data changed")
ALERTS = Gauge("neve_rules_alerts", "Active alerts, by state (pending or firing)", ["state"])
LAG = Gauge("neve_rules_lag_seconds", "Seconds by which the evaluation of the slowest group is behind")
SENT = Counter(
    "neve_rules_notifications",
    "Notifications, by destination and result (sent, rejected or dropped)",
    ["destination", "result"],
)
PENDING = Gauge("neve_rules_pending_notifications", "Notifications that wait for a destination", ["destination"])
