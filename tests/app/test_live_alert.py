"""The alert that a running demo reports."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from neve.app.demo.live_alert import AlertWatcher, FiringAlert
from neve.demo.live import Playback
from neve.demo.recording import LapFailure, Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 1_000_000_000
BEGAN = 1_790_000_000 * SECOND
LAP = Recording({}, 240 * SECOND, LapFailure("payment", 90 * SECOND))


class AlertsApi:
    """A server that answers every request with its alerts."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        self.status = 200
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps({"status": "success", "data": {"alerts": api.alerts}}).encode()
                self.send_response(api.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def api() -> Iterator[AlertsApi]:
    """A server of alerts."""
    made = AlertsApi()
    threading.Thread(target=made.server.serve_forever, daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


def make_alert(state: str = "firing", service: str = "payment") -> dict[str, Any]:
    """Return an alert as Prometheus' API has it."""
    labels = {"alertname": "HighErrors", "service_name": service}
    return {"labels": labels, "state": state, "annotations": {"summary": "payment fails"}}


def test_each_incident_is_reported_once(api: AlertsApi) -> None:
    """With the seconds since the first failed request of its lap, when the alert fires and not before."""
    watcher = AlertWatcher(api.address, Playback(LAP, BEGAN, salt=1))
    start = Playback(LAP, BEGAN, salt=1).find_failure(BEGAN + 239 * SECOND) or 0
    api.alerts = [make_alert("pending"), make_alert(service="checkout")]
    assert watcher.poll(start + 20 * SECOND) is None
    api.alerts.append(make_alert())
    assert watcher.poll(start - SECOND) is None, "no incident has begun"
    assert watcher.poll(start + 30 * SECOND) == FiringAlert("HighErrors", "payment", "payment fails", 30.0)
    assert watcher.poll(start + 31 * SECOND) is None
    again = watcher.poll(start + 240 * SECOND + 25 * SECOND)
    assert again is not None
    assert again.seconds == 25.0
    watcher.close()


def test_a_service_that_does_not_answer_has_no_alerts(api: AlertsApi) -> None:
    """Errors and a missing server are waited out."""
    api.alerts, api.status = [make_alert()], 503
    playback = Playback(LAP, BEGAN, salt=1)
    assert AlertWatcher(api.address, playback).poll(BEGAN + 200 * SECOND) is None
    assert AlertWatcher("http://127.0.0.1:9", playback).poll(BEGAN + 200 * SECOND) is None
