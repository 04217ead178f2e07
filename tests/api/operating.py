"""Those who operate a lake over HTTP: what they send, and what went wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.api.running import JSON
from tests.api.test_query_openapi import check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.api.querying import Client
    from tests.api.running import Reply

MISSING = "0" * 18  # the id of no job and no pause


def send(client: Client, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """One request with a body of JSON, or none."""
    data = None if body is None else json.dumps(body).encode()
    return client.send(method, f"/api/v1/{path}", data, {**(JSON if data else {}), **(headers or {})})


def error_of(reply: Reply) -> tuple[int, str, str]:
    """What went wrong."""
    check("FailureDocument", reply.json)
    error = reply.json["error"]
    return reply.status, error["code"], error["message"]
