"""Who may operate a lake over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import structlog

from neve.api.api_server import open_query_api
from neve.api.control.routes import control_routes
from neve.api.openapi import build_description
from neve.query.config import QueryConfig
from neve.receive.authentication import KeyGuard
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.api.operating import MISSING, error_of, send
from tests.api.querying import Client, serving
from tests.app.control_lake import running_job
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from neve.app.control import Control
    from tests.api.running import Reply


@pytest.mark.slow
def test_only_a_key_that_may_operate_is_let_in(control: Control) -> None:
    """No key, an unknown one and one that may only write and read are told apart; operating is no licence to read."""
    state = StateStore(control.settings.state)
    keys = Keys(state)
    _, plain = keys.create(ACME)
    _, admin = keys.create(ACME, "on-call", [Scope.ADMIN])
    guard = KeyGuard(keys, 10)
    with serving(None, guard, first=control_routes(control, guard)) as client:
        for path, methods in build_description()["paths"].items():
            for method, said in methods.items():
                if said.get("tags") != ["control"]:
                    continue
                place = path.replace("{name}", "spans").replace("{id}", MISSING)
                for key, status in ((None, 401), ("neve_no", 403), (plain, 403)):
                    headers = {"authorization": f"Bearer {key}"} if key else {}
                    assert client.send(method.upper(), place, headers=headers).status == status, (method, path)
        for path in ("status", "lake/tables", "jobs", "policies"):
            assert send(client, "GET", path, headers={"x-api-key": admin}).status == 200
        refused = send(client, "GET", "jobs", headers={"x-api-key": plain})
        assert error_of(refused) == (403, "wrong_scope", "this key lacks the scope `admin` (it has: write, read)")
        assert send(client, "GET", "tables", headers={"x-api-key": admin}).status == 403
    state.close()


def test_a_page_in_a_browser_does_not_operate_a_lake_without_keys(control: Control, operator: Client) -> None:
    """It could send what needs no body; with a key, it is somebody's own page."""
    job = running_job(control.documents)
    headers = {"origin": "https://elsewhere.example"}
    refused = send(operator, "POST", f"jobs/{job.id}/cancel", headers=headers)
    assert error_of(refused)[:2] == (403, "wrong_origin")
    assert send(operator, "GET", "jobs", headers=headers).status == 200
    state = StateStore(control.settings.state)
    keys = Keys(state)
    key, admin = keys.create(ACME, "page", [Scope.ADMIN])
    guard = KeyGuard(keys, 10)
    with (
        serving(None, guard, first=control_routes(control, guard)) as keyed,
        structlog.testing.capture_logs() as told,
    ):
        assert send(keyed, "POST", f"jobs/{job.id}/cancel", headers={**headers, "x-api-key": admin}).status == 202
    assert [one["by"] for one in told if one["event"] == "job cancelled"] == [f"key {key.id}"]
    state.close()


def test_methods_that_there_are_not(operator: Client) -> None:
    """Are told from those that there are."""
    reply = send(operator, "PUT", "jobs", {})
    assert (error_of(reply)[:2], reply.headers["allow"]) == ((405, "method_not_allowed"), "GET, POST")


@pytest.mark.slow
def test_the_api_process_has_all_of_it(control: Control) -> None:
    """Queries and control behind one port, and words for what is neither."""
    settings = control.settings.model_copy(update={"query": QueryConfig(port=0)})

    async def ask() -> list[Reply]:
        async with open_query_api(settings, control.lake) as place:
            operator = Client(int(place.rpartition(":")[2]))
            paths = ("status", "tables", "openapi.json", "nothing")
            return [await asyncio.to_thread(send, operator, "GET", path) for path in paths]

    status, tables, described, nothing = asyncio.run(ask())
    assert (status.status, tables.status, error_of(nothing)[:2]) == (200, 200, (404, "not_found"))
    assert described.json == build_description()
