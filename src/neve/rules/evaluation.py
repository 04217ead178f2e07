"""Evaluate rules at a time: samples to store, new alert states, notifications. Pure: queries come from a port."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from neve.errors import EvaluationFailed, QueryError
from neve.promql.histograms.native import Histogram
from neve.promql.labels import Labels, make_labels
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.series import STALE
from neve.rules.alert_template import AlertTemplates
from neve.rules.alerts import Alert, Alerts, AlertState, Notification, Observation, advance, collect_notifications

if TYPE_CHECKING:
    from neve.rules.rule_file import Group, Rule

__all__ = ["Evaluation", "EvaluationOptions", "QueryAt", "RecordedSample", "RuleResult", "RuleState", "Vector"]

Vector = Sequence[tuple[Labels, float | Histogram]]
QueryAt = Callable[[str, int], Vector]  # expression and time in milliseconds
ALERTS, ALERTS_FOR_STATE = "ALERTS", "ALERTS_FOR_STATE"
DEFAULT_INTERVAL_MS = 60_000
DEFAULT_RESEND_MS = 60_000
CACHED_LABELS = 10_000  # label sets of alerts, which are the same at each step of a replay


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """Settings that all rules share."""

    interval_ms: int = DEFAULT_INTERVAL_MS
    resend_ms: int = DEFAULT_RESEND_MS
    external_labels: Mapping[str, str] = field(default_factory=dict)
    external_url: str = ""


@dataclass(frozen=True, slots=True)
class RecordedSample:
    """Sample that a rule made. A stale mark ends a series that the rule no longer has."""

    labels: Labels
    time_ms: int
    value: float | Histogram


@dataclass(frozen=True, slots=True)
class RuleState:
    """State of a rule between evaluations. `series` are those of the last one."""

    alerts: Mapping[Labels, Alert] = field(default_factory=dict)
    series: frozenset[Labels] = frozenset()
    evaluated_at_ms: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Result of one evaluation of a rule."""

    state: RuleState
    samples: tuple[RecordedSample, ...] = ()
    notifications: tuple[Notification, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluation of a group at a time. Its rules are evaluated one after the other."""

    group: Group
    time_ms: int
    query: QueryAt
    options: EvaluationOptions

    def evaluate(self, rule: Rule, state: RuleState) -> RuleResult:
        """Return the result of a rule.

        A failed query changes nothing but the error: no series ends, no alert is resolved.
        """
        asked_at = self.time_ms - self.group.query_offset_ms
        try:
            vector = self.query(rule.expression, asked_at)
            if rule.is_alert:
                alerts, due = self._evaluate_alerts(rule, state, vector)
                samples = [one for alert in alerts.values() if alert.is_active for one in _alert_samples(rule, alert)]
            else:
                alerts, due = {}, []
                samples = _record(rule, vector, self.group.limit)
        except QueryError as error:
            return RuleResult(replace(state, evaluated_at_ms=self.time_ms, error=error.message))
        stored = [RecordedSample(labels, asked_at, value) for labels, value in samples]
        series = frozenset(labels for labels, _ in samples)
        stored += [RecordedSample(labels, asked_at, STALE) for labels in sorted(state.series - series)]
        return RuleResult(RuleState(alerts, series, self.time_ms), tuple(stored), tuple(due))

    def _evaluate_alerts(self, rule: Rule, state: RuleState, vector: Vector) -> tuple[Alerts, list[Notification]]:
        options = self.options
        templates = AlertTemplates(
            lambda text: self.query(text, self.time_ms), self.time_ms, options.external_labels, options.external_url
        )
        observed = [_observe(rule, labels, value, templates) for labels, value in vector]
        alerts = advance(state.alerts, observed, rule, self.time_ms, self.group.limit)
        interval = self.group.interval_ms or options.interval_ms
        return collect_notifications(alerts, rule, self.time_ms, resend_ms=options.resend_ms, interval_ms=interval)


def _observe(rule: Rule, labels: Labels, value: float | Histogram, templates: AlertTemplates) -> Observation:
    own = {name: templates.expand(text, labels, value) for name, text in rule.labels}
    annotations = tuple((name, templates.expand(text, labels, value)) for name, text in rule.annotations)
    number = 0.0 if isinstance(value, Histogram) else value
    return Observation(_name_alert(labels, tuple(own.items()), rule.name), annotations, number)


@lru_cache(maxsize=CACHED_LABELS)
def _name_alert(labels: Labels, own: Labels, name: str) -> Labels:
    """Return the labels of an alert: those of its sample, of its rule, and its name."""
    named = {**dict(labels), **dict(own), "alertname": name}
    named.pop(METRIC_NAME, None)
    return make_labels(named)


def _alert_samples(rule: Rule, alert: Alert) -> list[tuple[Labels, float | Histogram]]:
    """Return the series of an active alert: `ALERTS` with its state, and the time since when it is active."""
    state, since = _name_alert_series(rule.labels, alert.labels, rule.name, alert.state)
    return [(state, 1.0), (since, float(alert.active_at_ms // 1000))]


@lru_cache(maxsize=CACHED_LABELS)
def _name_alert_series(own: Labels, labels: Labels, name: str, state: AlertState) -> tuple[Labels, Labels]:
    known = {**dict(own), **dict(labels), "alertname": name}
    return (
        make_labels({**known, METRIC_NAME: ALERTS, "alertstate": state.value}),
        make_labels({**known, METRIC_NAME: ALERTS_FOR_STATE}),
    )


def _record(rule: Rule, vector: Vector, limit: int) -> list[tuple[Labels, float | Histogram]]:
    found: dict[Labels, float | Histogram] = {}
    for labels, value in vector:
        named = make_labels({**dict(labels), METRIC_NAME: rule.name, **dict(rule.labels)})
        if named in found:
            raise EvaluationFailed("vector contains metrics with the same labelset after applying rule labels")
        found[named] = value
    if 0 < limit < len(found):
        raise EvaluationFailed(f"exceeded limit of {limit} with {len(found)} series")
    return list(found.items())
