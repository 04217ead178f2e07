"""The API's port is open while the query engine is imported."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest
from starlette.responses import JSONResponse

from neve.api import api_application
from neve.api.access import AccessRules
from neve.api.api_server import StartingApplication, open_query_api
from neve.app.settings import Settings
from neve.errors import ConfigError
from neve.query.config import QueryConfig

if TYPE_CHECKING:
    from neve.lake.lake import Lake

Reply = tuple[int, Any]


async def ask(application: StartingApplication, path: str, host: str = "localhost") -> Reply:
    """Send one request and return its status and its body."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", host.encode())]}
    await application(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_live_probe_is_answered_before_the_engine_is_there() -> None:
    """Other requests wait for it, and so does a probe that the access rules reject."""

    async def run() -> tuple[Reply, list[Reply]]:
        application = StartingApplication(AccessRules("query", True, ()))
        live = await ask(application, "/livez")
        waiting = [
            asyncio.create_task(ask(application, path, host))
            for path, host in (("/api/v1/tables", "localhost"), ("/livez", "elsewhere.example"))
        ]
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        application.start(JSONResponse({"answer": "whole"}))
        return live, [*await asyncio.gather(*waiting), await ask(application, "/livez")]

    live, later = asyncio.run(run())
    assert live == (200, {"status": "alive"})
    assert later == [(200, {"answer": "whole"})] * 3


def test_an_api_that_can_not_start_says_why(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is closed again."""

    async def fail(*_arguments: object) -> None:
        raise ConfigError("query.memory is too small")

    async def run() -> None:
        async with open_query_api(Settings(query=QueryConfig(port=0)), lake):
            raise AssertionError("it must not start")

    monkeypatch.setattr(api_application, "open_application", fail)
    with pytest.raises(ConfigError, match="too small"):
        asyncio.run(run())
