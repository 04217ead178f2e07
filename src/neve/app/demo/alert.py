"""The alert of the demo: the rule file of its folder, replayed over the hour of its telemetry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.rules.evaluation import open_rule_series
from neve.query.service import run_query
from neve.rules.evaluation import EvaluationOptions
from neve.rules.rule_file import load_rules
from neve.rules.simulation import simulate

if TYPE_CHECKING:
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.lake.lake import Lake

__all__ = ["ALERT", "RULES", "AlertTiming", "time_alert"]

ALERT = "HighErrors"
RULES = """\
groups:
  - name: shop
    interval: 10s
    rules:
      - record: service:errors:ratio
        expr: |
          sum by (service_name) (rate(shop_requests_total{outcome="error"}[1m]))
            / sum by (service_name) (rate(shop_requests_total[1m]))
      - alert: HighErrors
        expr: service:errors:ratio > 0.1
        for: 10s
        labels: {severity: page}
        annotations:
          summary: '{{ $labels.service_name }} fails {{ $value | humanizePercentage }} of requests'
"""
HOUR_MS = 3_600_000
_FIRST_FAILURE = (
    "SELECT min(end_time_unix_nano) AS at FROM spans "
    "WHERE service_name = '{service}' AND status_code = 2 AND start_time_unix_nano >= {start}"
)


@dataclass(frozen=True)
class AlertTiming:
    """The first failed request of the incident, and the alert that it raised, in milliseconds since 1970."""

    service: str
    failed_at_ms: int
    fired_at_ms: int
    ended_at_ms: int | None

    @property
    def seconds(self) -> float:
        """Return the seconds from the failure to the alert."""
        return (self.fired_at_ms - self.failed_at_ms) / 1000


def time_alert(settings: Settings, lake: Lake, rules: Path, service: str, incident_nanos: int) -> AlertTiming | None:
    """Replay the rules over the hour of the telemetry, and return when the incident raised the alert."""
    start = incident_nanos // 1_000_000 // HOUR_MS * HOUR_MS
    with open_rule_series(settings, lake, settings.organization) as source:
        replay = simulate(load_rules([rules]), source, start, start + HOUR_MS, EvaluationOptions())
    sql = _FIRST_FAILURE.format(service=service, start=incident_nanos)
    failed = run_query(lake, settings.query, sql, settings.organization).read_all().to_pylist()[0]["at"]
    for period in (one for rule in replay.rules for one in rule.periods):
        is_ours = dict(period.labels).get("service_name") == service
        if failed and is_ours and period.fired_at_ms is not None and period.fired_at_ms * 1_000_000 >= failed:
            return AlertTiming(service, failed // 1_000_000, period.fired_at_ms, period.ended_at_ms)
    return None
