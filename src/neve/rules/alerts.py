"""State machine of alerts, as Prometheus has it: a pure function of the state, the samples and the time.

    inactive ──sample──► pending ──sample for `for`──► firing ──no sample for `keep_firing_for`──► resolved
                            └──no sample──► (removed)                           (kept for 15 minutes, then removed)

A time of `None` means never.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.errors import EvaluationFailed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neve.promql.labels import Labels
    from neve.rules.rule_file import Rule

__all__ = ["Alert", "AlertState", "Alerts", "Notification", "Observation", "advance", "collect_notifications"]

RESOLVED_RETENTION_MS = 15 * 60_000  # resolved alerts are sent again for so long, in case a receiver missed them
VALID_INTERVALS = 4  # a firing alert ends by itself if it is not sent again within so many intervals


class AlertState(StrEnum):
    """State of an alert. A resolved alert is inactive."""

    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True)
class Observation:
    """Sample of an alert's expression, with the expanded labels and annotations."""

    labels: Labels
    annotations: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Alert:
    """Alert of one label set. Times are in milliseconds since 1970."""

    labels: Labels
    annotations: Labels
    value: float
    state: AlertState
    active_at_ms: int
    fired_at_ms: int | None = None
    resolved_at_ms: int | None = None
    last_sent_at_ms: int | None = None
    keep_firing_since_ms: int | None = None

    @property
    def is_active(self) -> bool:
        """Return whether the alert is pending or firing."""
        return self.state is not AlertState.INACTIVE


Alerts = dict["Labels", Alert]


@dataclass(frozen=True, slots=True)
class Notification:
    """Alert to send. `ends_at_ms` is its resolution, or for a firing alert the time up to which it is valid.

    `is_repeated` is false when the alert fires and when it is resolved, and true when it is sent again.
    """

    labels: Labels
    annotations: Labels
    starts_at_ms: int
    ends_at_ms: int
    is_resolved: bool
    expression: str = ""
    is_repeated: bool = False


def advance(
    alerts: Mapping[Labels, Alert], observed: Iterable[Observation], rule: Rule, time_ms: int, limit: int = 0
) -> Alerts:
    """Return the alerts of a rule after an evaluation.

    Raises `EvaluationFailed` if two samples have the same labels or there are more alerts than `limit`. Then the caller
    keeps its state: a failed evaluation resolves nothing.
    """
    current = _index(observed)
    after: Alerts = {}
    for labels, alert in alerts.items():
        if labels in current:
            continue
        ended = _end(alert, rule, time_ms)
        if ended is not None:
            after[labels] = ended
    for labels, sample in current.items():
        after[labels] = _observe(alerts.get(labels), sample, time_ms)
    after = {labels: _hold(alert, rule, time_ms) if alert.is_active else alert for labels, alert in after.items()}
    active = sum(alert.is_active for alert in after.values())
    if 0 < limit < active:
        raise EvaluationFailed(f"exceeded limit of {limit} with {active} alerts")
    return after


def _index(observed: Iterable[Observation]) -> dict[Labels, Observation]:
    found: dict[Labels, Observation] = {}
    for sample in observed:
        if sample.labels in found:
            raise EvaluationFailed("vector contains metrics with the same labelset after applying alert labels")
        found[sample.labels] = sample
    return found


def _observe(alert: Alert | None, sample: Observation, time_ms: int) -> Alert:
    """Return an alert whose expression has a sample: a new one, or the active one with the new value."""
    if alert is None or not alert.is_active:
        return Alert(sample.labels, sample.annotations, sample.value, AlertState.PENDING, time_ms)
    return Alert(  # not `replace`, which takes most of the time of a replay
        alert.labels,
        sample.annotations,
        sample.value,
        alert.state,
        alert.active_at_ms,
        alert.fired_at_ms,
        alert.resolved_at_ms,
        alert.last_sent_at_ms,
    )


def _end(alert: Alert, rule: Rule, time_ms: int) -> Alert | None:
    """Return an alert whose expression has no sample: kept firing, resolved, or `None` if it is removed."""
    if alert.state is AlertState.PENDING:
        return None
    if alert.state is AlertState.INACTIVE:
        is_old = alert.resolved_at_ms is None or time_ms - alert.resolved_at_ms > RESOLVED_RETENTION_MS
        return None if is_old else alert
    if rule.keep_firing_ms:
        since = time_ms if alert.keep_firing_since_ms is None else alert.keep_firing_since_ms
        alert = replace(alert, keep_firing_since_ms=since)
        if time_ms - since < rule.keep_firing_ms:
            return alert
    return replace(alert, state=AlertState.INACTIVE, resolved_at_ms=time_ms)


def _hold(alert: Alert, rule: Rule, time_ms: int) -> Alert:
    """Return an active alert that fires if it was active for `for`, or waits again if `for` became longer."""
    is_held = time_ms - alert.active_at_ms >= rule.hold_ms
    if alert.state is AlertState.PENDING and is_held:
        return replace(alert, state=AlertState.FIRING, fired_at_ms=time_ms)
    if alert.state is AlertState.FIRING and not is_held:
        return replace(
            alert, state=AlertState.PENDING, fired_at_ms=None, last_sent_at_ms=None, keep_firing_since_ms=None
        )
    return alert


def collect_notifications(
    alerts: Mapping[Labels, Alert], rule: Rule, time_ms: int, *, resend_ms: int, interval_ms: int
) -> tuple[Alerts, list[Notification]]:
    """Return the alerts with their new times of sending, and what to send now.

    Firing and resolved alerts are sent at once, and again after `resend_ms`.
    """
    after: Alerts = {}
    due: list[Notification] = []
    for labels, alert in alerts.items():
        if not _is_due(alert, time_ms, resend_ms):
            after[labels] = alert
            continue
        after[labels] = replace(alert, last_sent_at_ms=time_ms)
        valid_until = time_ms + VALID_INTERVALS * max(interval_ms, resend_ms)
        ends = valid_until if alert.resolved_at_ms is None else alert.resolved_at_ms
        starts = alert.active_at_ms if alert.fired_at_ms is None else alert.fired_at_ms
        is_resolved = alert.resolved_at_ms is not None
        is_repeated = alert.last_sent_at_ms is not None and not _is_newly_resolved(alert, alert.last_sent_at_ms)
        due.append(
            Notification(alert.labels, alert.annotations, starts, ends, is_resolved, rule.expression, is_repeated)
        )
    return after, due


def _is_due(alert: Alert, time_ms: int, resend_ms: int) -> bool:
    if alert.state is AlertState.PENDING:
        return False
    sent = alert.last_sent_at_ms
    if sent is None or _is_newly_resolved(alert, sent):
        return True
    return sent + resend_ms < time_ms


def _is_newly_resolved(alert: Alert, sent_at_ms: int) -> bool:
    return alert.resolved_at_ms is not None and alert.resolved_at_ms > sent_at_ms
