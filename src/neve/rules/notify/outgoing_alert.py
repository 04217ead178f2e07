"""Alerts as destinations and the API of Alertmanager have them: labels, fingerprint, times in RFC 3339."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neve.lake.calendar import EPOCH
from neve.promql.labels import get, make_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.promql.labels import Labels
    from neve.rules.running.cycle_result import SentAlert

__all__ = ["AddedLabels", "OutgoingAlert", "fingerprint_labels", "format_rfc3339", "prepare_alert"]

_OFFSET, _PRIME, _MASK = 14695981039346656037, 1099511628211, (1 << 64) - 1
_SEPARATOR = b"\xff"
ORGANIZATION_LABEL = "organization_id"


def fingerprint_labels(labels: Labels) -> str:
    """Return the fingerprint by which Alertmanager identifies an alert: FNV-1a of its sorted labels.

    >>> fingerprint_labels(())
    'cbf29ce484222325'
    """
    found = _OFFSET
    for name, value in sorted(labels):
        for byte in name.encode(errors="replace") + _SEPARATOR + value.encode(errors="replace") + _SEPARATOR:
            found = ((found ^ byte) * _PRIME) & _MASK
    return f"{found:016x}"


def format_rfc3339(time_ms: int) -> str:
    """Return a time in RFC 3339, in UTC.

    >>> format_rfc3339(1_500)
    '1970-01-01T00:00:01.500Z'
    """
    moment = EPOCH + timedelta(milliseconds=time_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03d}Z"


@dataclass(frozen=True)
class OutgoingAlert:
    """Alert that is sent, with external labels. `sent_at_ms` is the evaluation that sends it."""

    organization: str
    labels: Labels
    annotations: Labels
    starts_at_ms: int
    ends_at_ms: int
    is_resolved: bool
    is_repeated: bool
    cycle: int
    sent_at_ms: int
    generator_url: str = ""

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the labels."""
        return fingerprint_labels(self.labels)

    @property
    def key(self) -> str:
        """Return the identity of this firing of the alert."""
        return f"{self.organization}/{self.fingerprint}/{self.starts_at_ms}"

    @property
    def name(self) -> str:
        """Return the name of the alert."""
        return get(self.labels, "alertname")

    @property
    def status(self) -> str:
        """Return firing or resolved."""
        return "resolved" if self.is_resolved else "firing"

    def as_document(self) -> dict[str, Any]:
        """Return the alert for Alertmanager's API."""
        return {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": format_rfc3339(self.starts_at_ms),
            "endsAt": format_rfc3339(self.ends_at_ms),
            "generatorURL": self.generator_url,
        }


@dataclass(frozen=True)
class AddedLabels:
    """Labels that alerts get when they are sent: external ones, and with `is_named` the organization.

    The organization replaces a label of that name, which may come from a metric: no tenant sends alerts of another.
    """

    external: Mapping[str, str]
    is_named: bool = False

    def add_to(self, labels: Labels, organization: str) -> Labels:
        """Return labels with external ones that they do not have, and with the organization."""
        own = {ORGANIZATION_LABEL: organization} if self.is_named else {}
        return make_labels({**self.external, **dict(labels), **own})


def prepare_alert(sent: SentAlert, added: AddedLabels, url: str) -> OutgoingAlert:
    """Return a notification with the labels that are added, and a link to its expression."""
    note, organization = sent.notification, sent.key.organization
    link = f"{url.rstrip('/')}/graph?g0.expr={quote(note.expression)}&g0.tab=1" if url else ""
    return OutgoingAlert(
        organization,
        added.add_to(note.labels, organization),
        note.annotations,
        note.starts_at_ms,
        note.ends_at_ms,
        note.is_resolved,
        note.is_repeated,
        sent.cycle,
        sent.time_ms,
        link,
    )
