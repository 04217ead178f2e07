"""Saved views: short names for addresses, each organization with its own."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.page import views as module
from neve.api.page.views import view_routes
from neve.receive.authentication import OpenGuard
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.api.querying import Client, serving
from tests.api.running import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.api.running import Reply


@pytest.fixture
def control(tmp_path: Path) -> Any:
    """The part of the control that views use."""
    return SimpleNamespace(documents=SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db")))))


@pytest.fixture
def client(control: Any) -> Iterator[Client]:
    """A client of acme."""
    with serving(None, OpenGuard("acme"), first=view_routes(control, OpenGuard("acme"))) as found:
        yield found


def save(client: Client, name: str, address: str) -> Reply:
    """Save a view."""
    return client.send("PUT", f"/api/v1/views/{name}", json.dumps({"address": address}).encode(), JSON)


def test_a_view_is_saved_listed_and_deleted(client: Client, control: Any) -> None:
    """Under its name; another organization sees none of it."""
    assert save(client, "errors", "/logs?q=severity%3E%3Derror").status == 200
    assert save(client, "errors", "/logs?q=x").json["address"] == "/logs?q=x"
    assert [view["name"] for view in client.get("/views").json["views"]] == ["errors"]
    assert client.get("/views/errors").json["address"] == "/logs?q=x"
    for other in ("acme2", "ac", "acm"):
        with serving(None, OpenGuard(other), first=view_routes(control, OpenGuard(other))) as stranger:
            assert stranger.get("/views").json == {"views": []}
            assert stranger.get("/views/errors").status == 404
            assert stranger.send("DELETE", "/api/v1/views/errors").status == 200
    assert client.send("DELETE", "/api/v1/views/errors").json == {"views": []}


@pytest.mark.parametrize("name", ["A", "-a", "a b", "a" * 65, "..", "%2e%2e"])
def test_names_are_plain(client: Client, name: str) -> None:
    """So that they are part of an address as they are."""
    assert save(client, name.replace(" ", "%20"), "/logs").status in (400, 404)


@pytest.mark.parametrize("address", ["", "logs", "//evil.example", "https://evil.example", "/" + "a" * 20_000])
def test_a_view_is_an_address_of_the_page(client: Client, address: str) -> None:
    """It can't lead to another site."""
    assert save(client, "view", address).status == 400


def test_views_are_limited(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full list still takes changes of its views."""
    monkeypatch.setattr(module, "MAX_VIEWS", 2)
    assert [save(client, name, "/logs").status for name in ("a", "b", "c", "b")] == [200, 200, 409, 200]
