"""The alert of a running demo: its service evaluates the rules of the folder, and each incident raises it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.app.demo.alert import ALERT
from neve.http_client import HttpClient, NoReply

if TYPE_CHECKING:
    from neve.demo.live import Playback

__all__ = ["AlertWatcher", "FiringAlert"]

PATH = "/prometheus/api/v1/alerts"
TIMEOUT_SECONDS = 5.0
MAX_REPLY_BYTES = 1024 * 1024
SECOND = 1_000_000_000


@dataclass(frozen=True)
class FiringAlert:
    """An alert that has begun to fire, and the seconds since the first failed request of its incident."""

    name: str
    service: str
    summary: str
    seconds: float


class AlertWatcher:
    """Watcher of the alerts of a service, for the incidents of a playback."""

    def __init__(self, address: str, playback: Playback) -> None:
        self._address = address
        self._playback = playback
        self._client = HttpClient(timeout_seconds=TIMEOUT_SECONDS, max_reply_bytes=MAX_REPLY_BYTES)
        self._reported = 0  # the failure whose alert was reported

    def poll(self, now: int) -> FiringAlert | None:
        """Return the alert of the last incident before a time, in Unix nanoseconds, once it fires."""
        failed = self._playback.find_failure(now)
        failure = self._playback.recording.failure
        if failed is None or failure is None or failed == self._reported:
            return None
        for alert in self._list_alerts():
            labels = alert["labels"]
            is_ours = labels.get("alertname") == ALERT and labels.get("service_name") == failure.service
            if is_ours and alert["state"] == "firing":
                self._reported = failed
                summary = alert.get("annotations", {}).get("summary", "")
                return FiringAlert(ALERT, failure.service, summary, (now - failed) / SECOND)
        return None

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _list_alerts(self) -> list[dict[str, Any]]:
        """Return the alerts of the service. There are none while it does not answer."""
        try:
            reply = self._client.request("GET", f"{self._address}{PATH}")
        except NoReply:
            return []
        if reply.status != 200:
            return []
        found: list[dict[str, Any]] = json.loads(reply.body)["data"]["alerts"]
        return found
