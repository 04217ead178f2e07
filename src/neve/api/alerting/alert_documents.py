"""Alerts in the format of Alertmanager's API: firing alerts, with the silences that match them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.lexical.matchers import Matcher, MatchKind, RegexError, match_regex, validate_regex
from neve.promql.labels import make_labels, match_sets
from neve.rules.notify.outgoing_alert import fingerprint_labels, format_rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from neve.rules.notify.silences import Silence
    from neve.rules.status import GroupStatus

__all__ = ["MAX_FILTERS", "AlertFilter", "InvalidFilter", "list_alerts", "list_groups", "parse_matcher"]

MAX_FILTERS = 50
MAX_CHARACTERS = 1000
_OPERATOR = re.compile(r"=~|!~|!=|=")
RECEIVER = "neve"  # of alerts that no destination gets


class InvalidFilter(ValueError):
    """Raised when a filter of a request can't be parsed."""


def parse_matcher(text: str) -> Matcher:
    """Return the matcher of a filter.

    >>> parse_matcher('severity=~"a|b"').value
    'a|b'
    """
    found = _OPERATOR.search(text)
    name = text[: found.start()].strip().strip('"') if found else ""
    if found is None or not name or len(text) > MAX_CHARACTERS:
        raise InvalidFilter(f"bad matcher format: {text[:100]}")
    value = text[found.end() :].strip()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    kind = MatchKind(found[0])
    if kind in {MatchKind.REGEX, MatchKind.NOT_REGEX}:
        try:
            validate_regex(value)
        except RegexError as error:
            raise InvalidFilter(str(error)) from error
    return Matcher(name, kind, value)


@dataclass(frozen=True)
class AlertFilter:
    """Parameters of a request for alerts."""

    matchers: tuple[Matcher, ...] = ()
    active: bool = True
    silenced: bool = True
    receiver: str = ""

    def allows(self, alert: dict[str, Any]) -> bool:
        """Return whether an alert is in the answer."""
        is_silenced = bool(alert["status"]["silencedBy"])
        if not (self.silenced if is_silenced else self.active):
            return False
        names = [one["name"] for one in alert["receivers"]]
        if self.receiver and not any(match_regex(self.receiver, names)):
            return False
        return match_sets([make_labels(alert["labels"])], self.matchers)[0]


def list_alerts(
    groups: Iterable[GroupStatus], silences: Sequence[Silence], receivers: Sequence[str], wanted: AlertFilter
) -> list[dict[str, Any]]:
    """Return the firing alerts, by their fingerprint. `silences` are the active ones."""
    found = {}
    for group in groups:
        valid_ms = 4 * max(group.document["interval_ms"], 60_000)
        for one in group.alerts:
            if one.state == "firing":
                labels = one.sent_labels
                silenced = [silence.id for silence in silences if silence.matches(labels)]
                alert = {
                    "labels": dict(labels),
                    "annotations": one.document["annotations"],
                    "startsAt": format_rfc3339(one.document["fired_at_ms"]),
                    "endsAt": format_rfc3339(group.document["time_ms"] + valid_ms),
                    "updatedAt": format_rfc3339(group.document["time_ms"]),
                    "fingerprint": fingerprint_labels(labels),
                    "generatorURL": "",
                    "receivers": [{"name": name} for name in receivers or (RECEIVER,)],
                    "status": {
                        "state": "suppressed" if silenced else "active",
                        "silencedBy": silenced,
                        "inhibitedBy": [],
                        "mutedBy": [],
                    },
                }
                if wanted.allows(alert):
                    found[alert["fingerprint"]] = alert
    return [found[key] for key in sorted(found)]


def list_groups(alerts: Iterable[dict[str, Any]], receivers: Sequence[str]) -> list[dict[str, Any]]:
    """Return the alerts by name, for each receiver."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for alert in alerts:
        by_name.setdefault(alert["labels"]["alertname"], []).append(alert)
    return [
        {"labels": {"alertname": name}, "receiver": {"name": receiver}, "alerts": some}
        for receiver in receivers or (RECEIVER,)
        for name, some in sorted(by_name.items())
    ]
