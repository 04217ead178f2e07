"""Destinations of alerts: requests to an Alertmanager or a webhook, and the meaning of their responses."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from neve.errors import NeveError
from neve.http_client import HttpClient, NoReply, ServerUntrusted
from neve.rules.config import DestinationKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.http_client import HttpReply
    from neve.rules.config import NotifierConfig
    from neve.rules.notify.outgoing_alert import OutgoingAlert

__all__ = ["Destination", "DestinationUnavailable", "RejectedAlerts", "describe_group"]

MAX_ALERTS = 256  # in one request, as Prometheus has it
MAX_REPLY_BYTES = 64 * 1024
MAX_MESSAGE_CHARACTERS = 300
ALERTS_PATH = "/api/v2/alerts"
WEBHOOK_VERSION = "4"
NO_END = "0001-01-01T00:00:00Z"
# Errors of the address or the key, not of the alerts: they are sent when these are right.
MISCONFIGURED = frozenset({401, 402, 403, 404, 405, 407, 421, 501})
TEMPORARY = frozenset({408, 429})


class DestinationUnavailable(NeveError):
    """Raised when a destination can't accept alerts now. They are sent again."""

    def __init__(self, message: str, *, hint: str | None = None, after_seconds: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.after_seconds = after_seconds


class RejectedAlerts(NeveError):
    """Raised when a destination rejects the content of a request. Sending it again would not help."""


class Destination:
    """Client of one destination."""

    def __init__(self, config: NotifierConfig, external_url: str = "") -> None:
        self.config, self.name = config, config.name
        self._external_url = external_url
        self._client = HttpClient(
            timeout_seconds=config.timeout_seconds,
            max_reply_bytes=MAX_REPLY_BYTES,
            headers={"content-type": "application/json", **config.plain_headers},
            ca_file=config.ca_file,
            client_certificate=config.client_certificate,
            client_key=config.client_key,
        )
        base = config.url.rstrip("/")
        is_manager = config.kind is DestinationKind.ALERTMANAGER
        self._url = f"{base.removesuffix(ALERTS_PATH)}{ALERTS_PATH}" if is_manager else config.url

    def accepts(self, organization: str) -> bool:
        """Return whether alerts of an organization are sent here."""
        return not self.config.organizations or organization in self.config.organizations

    def split(self, alerts: Sequence[OutgoingAlert]) -> list[list[OutgoingAlert]]:
        """Return the alerts of each request: for a webhook, those of one name and organization."""
        if self.config.kind is DestinationKind.ALERTMANAGER:
            return _cut(alerts)
        ordered = sorted(alerts, key=_group_of)
        return [part for _, some in groupby(ordered, key=_group_of) for part in _cut(list(some))]

    def send(self, alerts: Sequence[OutgoingAlert]) -> None:
        """Send alerts in one request. Raises `DestinationUnavailable` or `RejectedAlerts`."""
        document = (
            [one.as_document() for one in alerts]
            if self.config.kind is DestinationKind.ALERTMANAGER
            else describe_group(self.name, alerts, self._external_url)
        )
        body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
        try:
            reply = self._client.request("POST", self._url, body)
        except ServerUntrusted as error:
            raise DestinationUnavailable(f"{self.name}: {error}", hint="set ca_file to trusted certificates") from error
        except NoReply as error:
            raise DestinationUnavailable(f"{self.name}: {error}") from error
        self._interpret(reply)

    def _interpret(self, reply: HttpReply) -> None:
        if reply.is_success:
            return
        text = " ".join(reply.body.decode(errors="replace").split())[:MAX_MESSAGE_CHARACTERS]
        message = f"{self.name} responds with HTTP {reply.status}: {text or 'no reason was given'}"
        if reply.status in MISCONFIGURED or 300 <= reply.status < 400:
            raise DestinationUnavailable(message, hint="check its url and headers; alerts are sent when they are right")
        if reply.status in TEMPORARY or reply.status >= 500:
            raise DestinationUnavailable(message, after_seconds=reply.retry_after)
        raise RejectedAlerts(message)

    def close(self) -> None:
        """Close connections."""
        self._client.close()


def _group_of(alert: OutgoingAlert) -> tuple[str, str]:
    return alert.organization, alert.name


def _cut(alerts: Sequence[OutgoingAlert]) -> list[list[OutgoingAlert]]:
    return [list(alerts[first : first + MAX_ALERTS]) for first in range(0, len(alerts), MAX_ALERTS)]


def describe_group(receiver: str, alerts: Sequence[OutgoingAlert], external_url: str) -> dict[str, Any]:
    """Return the body of a webhook, version 4 of Alertmanager, for alerts of one name."""
    labels = [dict(one.labels) for one in alerts]
    annotations = [dict(one.annotations) for one in alerts]
    name = alerts[0].name
    is_firing = any(not one.is_resolved for one in alerts)
    return {
        "version": WEBHOOK_VERSION,
        "groupKey": f'{{}}:{{alertname="{name}"}}',
        "truncatedAlerts": 0,
        "status": "firing" if is_firing else "resolved",
        "receiver": receiver,
        "groupLabels": {"alertname": name},
        "commonLabels": _find_common(labels),
        "commonAnnotations": _find_common(annotations),
        "externalURL": external_url,
        "alerts": [_describe_alert(one) for one in alerts],
    }


def _describe_alert(one: OutgoingAlert) -> dict[str, Any]:
    """Return an alert of a webhook's body. One that fires has no end, which is Go's zero time."""
    document = {"status": one.status, **one.as_document(), "fingerprint": one.fingerprint}
    return document if one.is_resolved else {**document, "endsAt": NO_END}


def _find_common(maps: Sequence[dict[str, str]]) -> dict[str, str]:
    """Return the pairs that all maps have."""
    return {name: value for name, value in maps[0].items() if all(one.get(name) == value for one in maps[1:])}
