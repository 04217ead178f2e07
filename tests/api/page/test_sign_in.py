"""Sign-in of browsers: a key for a cookie, several organizations, limits, and the origin of changes."""

from __future__ import annotations

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.access import AccessRules
from neve.api.page.sign_in import Attempts, sign_in_routes
from neve.api.query.errors import Failure
from neve.receive.authentication import KeyGuard, OpenGuard
from neve.receive.refusal import Refusal
from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.sessions import Sessions
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.api.querying import Client, serving
from tests.api.running import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.api.running import Reply

PATH = "/api/v1/sign-in"


class Browser:
    """A client that keeps its cookie."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.cookie = ""

    def send(self, method: str, body: dict[str, Any] | None = None) -> Reply:
        """Send a request to the path of sign-in, and keep the cookie of the answer."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"cookie": self.cookie, "sec-fetch-site": "same-origin", **(JSON if data else {})}
        reply = self.client.send(method, PATH, data, headers)
        if "set-cookie" in reply.headers:
            self.cookie = reply.headers["set-cookie"].partition(";")[0]
        return reply


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Keys of a store of their own."""
    return Keys(StateStore(StateConfig(path=str(tmp_path / "state.db"))))


@pytest.fixture
def browser(keys: Keys, tmp_path: Path) -> Iterator[Browser]:
    """A browser at a server that requires keys."""
    sessions = Sessions(
        SqlDocuments(StateStore(StateConfig(path=str(tmp_path / "state.db")))), keys, timedelta(hours=1)
    )
    guard = KeyGuard(sessions, 60)
    with serving(None, guard, first=sign_in_routes(guard, sessions, is_secure=False)) as client:
        yield Browser(client)


def test_a_key_becomes_a_cookie_that_scripts_cannot_read(browser: Browser, keys: Keys) -> None:
    """The answer says who signed in, and never repeats the key."""
    assert browser.send("GET").status == 401
    key, text = keys.create("acme", scopes=(Scope.READ, Scope.ADMIN))
    reply = browser.send("POST", {"key": text})
    assert reply.status == 200
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(reply.headers["set-cookie"].split("; "))
    assert text not in str(reply.headers) + reply.body.decode()
    identity = browser.send("GET").json
    assert (identity["organization"], identity["key_id"], identity["may_operate"]) == ("acme", key.id, True)


def test_a_browser_switches_between_its_organizations(browser: Browser, keys: Keys) -> None:
    """A switch gives a new cookie, and the old one is worth nothing; keys of others can't be switched to."""
    (first, one), (second, other) = keys.create("acme"), keys.create("globex")
    stranger, _text = keys.create("initech")
    browser.send("POST", {"key": one})
    assert browser.send("POST", {"key": other}).json["organization"] == "globex"
    old = browser.cookie
    reply = browser.send("POST", {"key_id": first.id})
    assert (reply.json["organization"], len(reply.json["organizations"])) == ("acme", 2)
    assert browser.client.send("GET", PATH, headers={"cookie": old}).status == 403
    assert browser.send("POST", {"key_id": stranger.id}).status == 403
    keys.revoke(second.id)
    assert browser.send("POST", {"key_id": second.id}).status == 403
    assert [one["organization"] for one in browser.send("GET").json["organizations"]] == ["acme"]


def test_signing_out_takes_effect_at_once(browser: Browser, keys: Keys) -> None:
    """Also for a copy of the cookie, though the server caches keys."""
    _key, text = keys.create("acme")
    browser.send("POST", {"key": text})
    copy = browser.cookie
    assert browser.send("GET").status == 200
    assert browser.send("DELETE").json == {"signed_in": False}
    assert browser.client.send("GET", PATH, headers={"cookie": copy}).status == 403


@pytest.mark.parametrize("body", [{}, {"key": "a", "key_id": "b"}, {"key": 1}, {"kee": "a"}])
def test_a_wrong_body_is_refused(browser: Browser, body: dict[str, Any]) -> None:
    """With what was expected."""
    assert browser.send("POST", body).status == 400


def test_keys_without_the_scope_read_do_not_sign_in(browser: Browser, keys: Keys) -> None:
    """The reason is that of any request."""
    reply = browser.send("POST", {"key": keys.create("acme", scopes=(Scope.WRITE,))[1]})
    assert (reply.status, reply.json["error"]["code"]) == (403, "wrong_scope")


def test_attempts_are_limited(browser: Browser, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten wrong keys, then also a right one must wait; its network alone."""
    monkeypatch.setattr("neve.api.page.sign_in.time", SimpleNamespace(monotonic=lambda: 5.0))
    codes = [browser.send("POST", {"key": "neve_0123456789ab_" + "a" * 40}).status for _ in range(11)]
    assert codes == [403] * 10 + [429]
    assert browser.send("POST", {"key": keys.create("acme")[1]}).status == 429


def test_each_network_has_attempts_of_its_own() -> None:
    """One that guesses blocks itself."""
    attempts = Attempts()
    for _ in range(10):
        attempts.check("192.0.2.1", 0.0).take(1, 0.0)
    with pytest.raises(Failure, match="too many attempts"):
        attempts.check("192.0.2.1", 0.0)
    attempts.check("192.0.2.2", 0.0)
    attempts.check("192.0.2.1", 7.0)


def test_an_open_server_needs_no_sign_in() -> None:
    """It says who the caller is, and that there is nothing to sign in with."""
    guard = OpenGuard("acme")
    with serving(None, guard, first=sign_in_routes(guard, None, is_secure=False)) as client:
        browser = Browser(client)
        assert browser.send("GET").json["auth"] == "open"
        assert browser.send("POST", {"key": "x"}).status == 409
        assert browser.send("DELETE").status == 409


COOKIE = (b"cookie", b"neve-session=neve-session-x")
HOST = (b"host", b"neve.example")


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ([COOKIE, (b"sec-fetch-site", b"same-origin")], True),
        ([COOKIE, (b"sec-fetch-site", b"cross-site")], False),
        ([COOKIE, (b"sec-fetch-site", b"same-site")], False),
        ([COOKIE, (b"sec-fetch-site", b"none")], False),
        ([COOKIE, (b"origin", b"https://neve.example")], True),
        ([COOKIE, (b"origin", b"https://evil.example")], False),
        ([COOKIE, (b"origin", b"null")], False),
        ([COOKIE], False),
        ([(b"sec-fetch-site", b"cross-site")], False),
        ([(b"authorization", b"Bearer x"), (b"sec-fetch-site", b"cross-site")], True),
        ([], True),
    ],
)
def test_changes_of_a_browser_come_from_the_own_page(headers: list[tuple[bytes, bytes]], is_allowed: bool) -> None:
    """By the header that no page can set, or by the configured origin; programs with a key are not browsers."""
    rules = AccessRules("query", is_open=False, origin="https://neve.example")
    rules.check("/api/v1/jobs", [HOST, *headers], "GET")
    if is_allowed:
        rules.check("/api/v1/jobs", [HOST, *headers], "POST")
        return
    with pytest.raises(Refusal, match=r"changes must come from the page of this server"):
        rules.check("/api/v1/jobs", [HOST, *headers], "POST")
