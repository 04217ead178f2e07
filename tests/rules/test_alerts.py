"""The state machine of alerts: Prometheus' rules, by examples and by properties."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.errors import EvaluationFailed
from neve.promql.labels import Labels
from neve.rules.alerts import (
    RESOLVED_RETENTION_MS,
    Alert,
    Alerts,
    AlertState,
    Observation,
    advance,
    collect_notifications,
)
from neve.rules.rule_file import Rule

MINUTE = 60_000
LABELS: Labels = (("alertname", "A"), ("n", "1"))
SAMPLE = Observation(LABELS, (), 1.0)


def rule(hold_ms: int = 0, keep_ms: int = 0) -> Rule:
    """Return an alerting rule."""
    return Rule("A", True, "x", hold_ms, keep_ms)


def states(presence: str, one: Rule) -> str:
    """Return the states of an alert minute by minute: - none, p pending, f firing, r resolved."""
    alerts: Alerts = {}
    letters = []
    for minute, char in enumerate(presence):
        alerts = advance(alerts, [SAMPLE] if char == "x" else [], one, minute * MINUTE)
        letters.append(_letter(alerts.get(LABELS)))
    return "".join(letters)


def _letter(alert: Alert | None) -> str:
    if alert is None:
        return "-"
    return {AlertState.PENDING: "p", AlertState.FIRING: "f", AlertState.INACTIVE: "r"}[alert.state]


@pytest.mark.parametrize(
    ("presence", "hold", "keep", "expected"),
    [
        ("xx.", 0, 0, "ffr"),
        (".xxxx.x", 2, 0, "-ppffrp"),
        ("x.x", 2, 0, "p-p"),
        ("xxx...x", 0, 2, "fffffrf"),
        ("xx.x..", 0, 2, "ffffff"),
        ("xx.x...", 0, 2, "ffffffr"),
        ("xxx" + "." * 18, 0, 0, "fff" + "r" * 16 + "--"),
    ],
)
def test_states(presence: str, hold: int, keep: int, expected: str) -> None:
    """An alert is pending for `for`, fires, is kept for `keep_firing_for`, and stays resolved for 15 minutes."""
    assert states(presence, rule(hold * MINUTE, keep * MINUTE)) == expected


def test_longer_hold() -> None:
    """A firing alert is pending again if `for` becomes longer than it is active."""
    alerts = advance({}, [SAMPLE], rule(), 0)
    alerts = advance(alerts, [SAMPLE], rule(5 * MINUTE), MINUTE)
    assert alerts[LABELS].state is AlertState.PENDING
    assert alerts[LABELS].fired_at_ms is None


def test_failures_change_nothing() -> None:
    """Two samples with the same labels, or too many alerts, are errors."""
    with pytest.raises(EvaluationFailed, match="same labelset"):
        advance({}, [SAMPLE, SAMPLE], rule(), 0)
    other = replace(SAMPLE, labels=(("n", "2"),))
    with pytest.raises(EvaluationFailed, match="exceeded limit of 1 with 2 alerts"):
        advance({}, [SAMPLE, other], rule(), 0, limit=1)


def test_notifications() -> None:
    """Alerts are sent when they fire, again after the delay, and at once when they are resolved."""
    one = rule()
    sent = []
    alerts: Alerts = {}
    for step in range(12):
        time_ms = step * 20_000
        alerts = advance(alerts, [SAMPLE] if step < 8 else [], one, time_ms)
        alerts, due = collect_notifications(alerts, one, time_ms, resend_ms=MINUTE, interval_ms=20_000)
        sent += [(step, note.is_resolved, note.starts_at_ms, note.ends_at_ms) for note in due]
    assert sent == [
        (0, False, 0, 240_000),
        (4, False, 0, 320_000),
        (8, True, 0, 160_000),
    ]


PRESENCE = st.lists(st.sets(st.integers(0, 2)), max_size=40)
STEPS = st.integers(1, 20)


@given(PRESENCE, st.integers(0, 5), st.integers(0, 5), STEPS)
def test_invariants(presence: list[set[int]], hold: int, keep: int, step_minutes: int) -> None:
    """States follow from the history: active since, firing after `for`, resolved after `keep_firing_for`."""
    one = rule(hold * MINUTE, keep * MINUTE)
    alerts: Alerts = {}
    before: Alerts = {}
    for step, present in enumerate(presence):
        time_ms = step * step_minutes * MINUTE
        observed = [Observation((("n", str(number)),), (), float(number)) for number in sorted(present)]
        before, alerts = alerts, advance(alerts, observed, one, time_ms)
        for number in present:
            alert = alerts[("n", str(number)),]
            assert alert.is_active
            assert alert.keep_firing_since_ms is None
            assert (alert.state is AlertState.FIRING) == (time_ms - alert.active_at_ms >= one.hold_ms)
            was = before.get(alert.labels)
            assert alert.active_at_ms == (was.active_at_ms if was and was.is_active else time_ms)
        for labels, alert in alerts.items():
            if int(labels[0][1]) in present:
                continue
            was = before[labels]
            assert was.state is not AlertState.PENDING
            if alert.state is AlertState.FIRING:
                assert alert.keep_firing_since_ms is not None
                assert time_ms - alert.keep_firing_since_ms < one.keep_firing_ms
            else:
                assert alert.resolved_at_ms is not None
                assert time_ms - alert.resolved_at_ms <= RESOLVED_RETENTION_MS


@given(PRESENCE, st.integers(0, 5), st.integers(0, 5), STEPS, st.integers(1, 5))
def test_every_change_is_sent(presence: list[set[int]], hold: int, keep: int, step: int, resend: int) -> None:
    """Each alert that fires or is resolved is sent in that very evaluation, and pending ones never are."""
    one = rule(hold * MINUTE, keep * MINUTE)
    alerts: Alerts = {}
    for number, present in enumerate(presence):
        time_ms = number * step * MINUTE
        before = alerts
        after = advance(alerts, [Observation((("n", str(n)),), (), 1.0) for n in sorted(present)], one, time_ms)
        alerts, due = collect_notifications(after, one, time_ms, resend_ms=resend * MINUTE, interval_ms=step * MINUTE)
        sent = {note.labels: note for note in due}
        for labels, alert in alerts.items():
            was = before.get(labels)
            if alert.state is AlertState.PENDING:
                assert labels not in sent
            elif was is None or was.state is not alert.state:
                assert sent[labels].is_resolved == (alert.state is AlertState.INACTIVE)
                assert alert.last_sent_at_ms == time_ms
        assert all(note.ends_at_ms > time_ms for note in due if not note.is_resolved)


@given(PRESENCE, st.integers(0, 3), st.integers(0, 3), st.integers(0, 40))
def test_a_failed_evaluation_is_a_pause(presence: list[set[int]], hold: int, keep: int, place: int) -> None:
    """An evaluation that fails resolves nothing: no alert ends at its time."""
    one = rule(hold * MINUTE, keep * MINUTE)
    alerts: Alerts = {}
    for step, present in enumerate(presence):
        if step == place:
            continue
        alerts = advance(alerts, [Observation((("n", str(n)),), (), 1.0) for n in sorted(present)], one, step * MINUTE)
        assert all(alert.resolved_at_ms != place * MINUTE for alert in alerts.values())
