"""A server on loopback with the protocol of Alertmanager's `POST /api/v2/alerts` and of its webhooks.

It checks what Alertmanager checks: a list of alerts with labels, and times in RFC 3339.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass
class Receiver:
    """Requests that arrived, with the time of their arrival. `status` is the answer to the next ones.

    A request with an alert that has one of the labels in `refused` is rejected.
    """

    url: str = ""
    status: int = 200
    refused: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[float, str, Any]] = field(default_factory=list)

    def alerts(self) -> list[dict[str, Any]]:
        """Return all alerts of accepted requests, in order of arrival."""
        return [
            alert
            for _, path, body in list(self.requests)
            for alert in (body if path.endswith("/api/v2/alerts") else body["alerts"])
        ]


@contextmanager
def open_receiver() -> Iterator[Receiver]:
    """Listen on a free port of loopback."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status = found.status
            if status == 200 and not _is_valid(self.path, body, found.refused):
                status = 400
            if status == 200:
                found.requests.append((time.time(), self.path, body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _is_valid(path: str, body: Any, refused: dict[str, str]) -> bool:
    if path.endswith("/api/v2/alerts"):
        return isinstance(body, list) and all(_is_alert(one, refused) for one in body)
    has_keys = {"status", "receiver", "groupKey"} <= body.keys() and body["version"] == "4"
    return has_keys and all(_is_alert(one, refused) for one in body["alerts"])


def _is_alert(one: Any, refused: dict[str, str]) -> bool:
    labels = one["labels"]
    if not labels.get("alertname") or "" in labels.values() or refused.items() & labels.items():
        return False
    if one.get("status") == "firing":  # in the body of a webhook
        return bool(one["endsAt"] == "0001-01-01T00:00:00Z")
    return datetime.fromisoformat(one["startsAt"]) < datetime.fromisoformat(one["endsAt"])
