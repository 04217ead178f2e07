"""Reports about rules for the command line: the status of groups, and why an alert fires or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.app.query.service import build_query_service
from neve.promql.labels import format_labels, make_labels
from neve.query.request import Request
from neve.query.service import no_limits
from neve.rules.notify.delivery_queue import SPACE as CURSORS
from neve.rules.notify.outgoing_alert import format_rfc3339
from neve.rules.notify.silences import Silences
from neve.rules.status import AlertStatus, RuleStatuses
from neve.text import format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.state.documents import Documents

__all__ = ["explain_alert", "read_status"]

_NOTIFICATIONS = (
    "SELECT evaluated_at, notification, labels, cycle FROM recorded "
    "WHERE rule_name = ? AND notification IS NOT NULL ORDER BY evaluated_at DESC LIMIT 20"
)


def read_status(documents: Documents, organization: str | None, now_ms: int) -> dict[str, Any]:
    """Return the groups of one organization or of all, with their lag, errors and alerts, and the destinations."""
    statuses = RuleStatuses(documents)
    groups = statuses.all() if organization is None else statuses.of(organization)
    return {
        "groups": [_describe_group(one.document, one.errors, now_ms) for one in groups],
        "alerts": [
            {
                "organization": one.group["organization"],
                "alert": one.rule["name"],
                "labels": one.labels,
                "state": one.state,
                "value": one.document["value"],
                "active_at": _time(one.document["active_at_ms"]),
                "fired_at": _time(one.document["fired_at_ms"]),
            }
            for group in groups
            for one in group.alerts
            if one.state != "inactive"
        ],
        "destinations": [
            {"destination": name, "cycle": document["cycle"]} for name, document in documents.entries(CURSORS)
        ],
    }


def _describe_group(group: Mapping[str, Any], errors: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    states = [alert["state"] for rule in group["rules"] for alert in rule["alerts"]]
    return {
        "organization": group["organization"],
        "group": group["name"],
        "file": group["file"],
        "rules": len(group["rules"]),
        "evaluated_at": _time(group["time_ms"]),
        "lag_seconds": max(0, now_ms - group["time_ms"] - group["interval_ms"]) / 1000,
        "seconds": group["seconds"],
        "cycle": group["cycle"],
        "pending": states.count("pending"),
        "firing": states.count("firing"),
        "errors": dict(errors),
    }


def explain_alert(
    settings: Settings, lake: Lake, documents: Documents, organization: str, name: str, now_ms: int
) -> list[dict[str, Any]]:
    """Return for each rule of an alert's name its decision: state, value, times, snapshots, and notifications."""
    found = []
    sent = _list_notifications(settings, lake, organization, name)
    silences = [one for one in Silences(documents).of(organization, now_ms) if one.state(now_ms) == "active"]
    for group in RuleStatuses(documents).of(organization):
        for rule in group.document["rules"]:
            if rule["name"] == name and rule["kind"] == "alerting":
                alerts = []
                for one in rule["alerts"]:
                    labels = AlertStatus(one, rule, group.document).sent_labels
                    silenced = [silence.id for silence in silences if silence.matches(labels)]
                    alerts.append({**_describe_alert(one, rule, group.document), "silenced_by": silenced})
                found.append(
                    {
                        "alert": name,
                        "organization": organization,
                        "group": group.document["name"],
                        "file": group.document["file"],
                        "expression": rule["expression"],
                        "for_seconds": rule["hold_ms"] / 1000,
                        "keep_firing_for_seconds": rule["keep_firing_ms"] / 1000,
                        "state": rule["state"],
                        "reason": _explain_rule(rule),
                        "error": rule["error"],
                        "evaluated_at": _time(group.document["time_ms"]),
                        "cycle": group.document["cycle"],
                        "metrics_snapshot": group.document["source_snapshot_id"],
                        "recorded_snapshot": group.document["snapshot_id"],
                        "alerts": alerts,
                        "notifications": sent,
                    }
                )
    return found


def _explain_rule(rule: Mapping[str, Any]) -> str:
    if rule["error"]:
        return f"the last evaluation failed, so that no state changed: {rule['error']}"
    if rule["state"] == "inactive":
        return "the expression has no sample"
    active = sum(one["state"] != "inactive" for one in rule["alerts"])
    return f"the expression has {format_count(active, 'sample')}"


def _describe_alert(alert: Mapping[str, Any], rule: Mapping[str, Any], group: Mapping[str, Any]) -> dict[str, Any]:
    names = ("active_at", "fired_at", "resolved_at", "last_sent_at", "keep_firing_since")
    return {
        "labels": alert["labels"],
        "annotations": alert["annotations"],
        "state": alert["state"],
        "value": alert["value"],
        **{name: _time(alert[f"{name}_ms"]) for name in names},
        "reason": _explain_state(alert, rule, group["time_ms"]),
    }


def _explain_state(alert: Mapping[str, Any], rule: Mapping[str, Any], time_ms: int) -> str:
    """Return why an alert is in its state, in words."""
    active = format_duration((time_ms - alert["active_at_ms"]) / 1000)
    if alert["state"] == "pending":
        return (
            f"the expression has a sample for {active}, the alert fires after {format_duration(rule['hold_ms'] / 1000)}"
        )
    if alert["state"] == "inactive":
        return "the expression has no sample any more: the alert was resolved"
    if alert["keep_firing_since_ms"] is not None:
        return f"the expression has no sample, the alert stays for {format_duration(rule['keep_firing_ms'] / 1000)}"
    return f"the expression has a sample for {active}"


def _list_notifications(settings: Settings, lake: Lake, organization: str, name: str) -> list[dict[str, Any]]:
    service = build_query_service(settings, lake, limits=no_limits)
    try:
        if not service.has_rows("recorded"):
            return []
        running = service.start(Request(_NOTIFICATIONS, organization, parameters=[name]))
        rows = [row for batch in running.batches() for row in batch.to_pylist()]
    finally:
        service.close()
    return [
        {
            "at": _time(round(row["evaluated_at"].timestamp() * 1000)),
            "kind": row["notification"],
            "labels": format_labels(make_labels(dict(row["labels"]))),
            "cycle": row["cycle"],
        }
        for row in rows
    ]


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_rfc3339(time_ms)
