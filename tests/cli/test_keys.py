"""`neve keys`: made, listed, revoked, as text and as JSON."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.app.settings import load_settings
from neve.app.wiring import build_state
from neve.cli.security.keys import SCOPES
from neve.state.keys import Keys
from neve.state.scopes import Scope
from tests.cli.runner import run

if TYPE_CHECKING:
    from pathlib import Path


def organization_of(text: str) -> str | None:
    """Whom a key speaks for in the store of this folder."""
    caller = Keys(build_state(load_settings(None, {}))).verify(text)
    return caller.organization if caller else None


def test_a_key_is_shown_once_with_how_to_use_it(elsewhere: Path) -> None:
    """As a header, and as lines of a collector's configuration; never again after that."""
    ended = run("keys", "create", "--name", "checkout")
    assert (ended.code, ended.errors) == (0, "")
    [text] = {word.strip('"') for word in ended.text.split() if word.strip('"').startswith("neve_")}
    assert f"Authorization: Bearer {text}\n" in ended.text
    assert f'headers:\n     Authorization: "Bearer {text}"\n' in ended.text
    assert "(checkout) of organization default, shown this once" in ended.text
    assert organization_of(text) == "default"
    assert (elsewhere / "lake" / "state.db").exists()
    secret = text.rsplit("_", 1)[1]
    assert secret not in run("keys", "list").text + run("keys", "list", "--json").text


def test_keys_are_for_programs_too() -> None:
    """Each command has a JSON twin."""
    made = run("keys", "create", "--org", "acme", "--name", "n", "--json").json
    assert organization_of(made.pop("key")) == "acme"
    [listed] = run("keys", "list", "--json").json
    assert made | {"last_used_at": None} == listed | {"last_used_at": None}
    revoked = run("keys", "revoke", made["id"], "--json").json
    assert (revoked["id"], revoked["already_revoked"]) == (made["id"], False)
    assert revoked["revoked_at"] is not None
    assert run("keys", "revoke", made["id"], "--json").json == revoked | {"already_revoked": True}


@pytest.mark.parametrize(
    ("options", "scopes"),
    [
        ([], ["write", "read"]),
        (["--scope", "read"], ["read"]),
        (["--scope", "write"], ["write"]),
        (["--scope", "read", "--scope", "write"], ["write", "read"]),
    ],
)
def test_a_key_says_what_it_is_good_for(options: list[str], scopes: list[str]) -> None:
    """When it is made and when it is listed; both where nothing is said."""
    assert run("keys", "create", *options, "--json").json["scopes"] == scopes
    assert [key["scopes"] for key in run("keys", "list", "--json").json] == [scopes]
    assert f" {','.join(scopes)} " in run("keys", "list").text
    said = run("keys", "create", *options).text
    assert f"scopes: {', '.join(scopes)}; send it with each request" in said
    assert ("Collector" in said) == ("write" in scopes)


def test_a_scope_that_there_is_not_is_refused() -> None:
    """With those that there are; and the choices are those of the lake."""
    ended = run("keys", "create", "--scope", "fly")
    assert (ended.code, ended.data) == (2, b"")
    assert "'write', 'read'" in ended.errors
    assert tuple(Scope) == SCOPES


def test_keys_are_listed_by_organization() -> None:
    """All of them where none is named; a line for each under a header."""
    for organization in ("acme", "other"):
        run("keys", "create", "--org", organization)
    header, *lines = run("keys", "list").text.splitlines()
    assert header.split() == ["id", "organization", "name", "scopes", "created", "last", "used", "expires", "revoked"]
    assert [line.split()[1] for line in lines] == ["acme", "other"]
    assert [key["organization"] for key in run("keys", "list", "--org", "other", "--json").json] == ["other"]


@pytest.mark.parametrize(("expires", "days"), [("90d", 90), ("2w", 14), ("36h", 1.5)])
def test_a_key_may_expire(expires: str, days: float) -> None:
    """After so long, or at a moment; the list shows it."""
    made = run("keys", "create", "--expires", expires, "--json").json
    life = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert abs(life - timedelta(days=days)) < timedelta(minutes=5)
    [listed] = run("keys", "list", "--json").json
    assert listed["expires_at"] == made["expires_at"]
    assert made["expires_at"][:16].replace("T", " ") in run("keys", "list").text


def test_a_key_expires_at_a_moment_to_come() -> None:
    """A moment that is over, and what is none, are refused."""
    made = run("keys", "create", "--expires", "2931-01-31", "--json").json
    assert made["expires_at"] == "2931-01-31T00:00:00+00:00"
    assert "it expires at 2931-01-31 00:00:00 UTC" in run("keys", "create", "--expires", "2931-01-31").text
    for wrong in ("2020-01-31", "0d", "soon", "9999999999d"):
        assert run("keys", "create", "--expires", wrong).code == 2


def test_a_list_without_keys_says_how_to_make_one(elsewhere: Path) -> None:
    """And makes no store."""
    assert run("keys", "list").text == "there are no keys; create one with `neve keys create`\n"
    assert run("keys", "list", "--json").json == []
    assert not (elsewhere / "lake").exists()


def test_a_revoked_key_is_said_to_be() -> None:
    """The first time and the second, without an error."""
    made = run("keys", "create", "--json").json
    key_id = made["id"]
    first, second = run("keys", "revoke", key_id), run("keys", "revoke", key_id)
    assert (first.code, first.text) == (0, f"key {key_id} of organization default is revoked\n")
    assert second.code == 0
    assert second.text.startswith(f"key {key_id} of organization default was revoked before, at 20")
    assert organization_of(made["key"]) is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["revoke", "0123456789ab"], "there is no key with the id '0123456789ab'"),
        (["revoke", "nonsense"], "expected a key id of 12 hexadecimal digits, got 8 other characters"),
        (
            ["create", "--org", "a/b"],
            "organization is 'a/b', expected 1 to 64 letters, digits, dots, dashes and underscores",
        ),
        (["create", "--name", "a\tb"], "the name of a key is 'a\\tb', expected at most 100 printable characters"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], error: str) -> None:
    """As JSON, on standard error, with exit code 1."""
    ended = run("keys", *arguments, "--json")
    assert (ended.code, ended.data) == (1, b"")
    assert json.loads(ended.errors)["error"] == error


def test_a_store_that_is_not_reachable_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the password."""
    monkeypatch.setenv("NEVE_STATE__URL", "postgresql://127.0.0.1:9/neve")
    monkeypatch.setenv("NEVE_STATE__PASSWORD", "hunter2")
    ended = run("keys", "create")
    assert ended.code == 1
    assert ended.errors.startswith("error: the state store (postgresql://127.0.0.1:9/neve) failed: OperationalError: ")
    assert "hunter2" not in ended.errors


def test_a_key_is_rotated_with_a_grace_period() -> None:
    """The new key has the same rights; the old one works until it ends, never longer than before."""
    made = run("keys", "create", "--org", "acme", "--name", "n", "--scope", "read", "--expires", "2d", "--json").json
    new = run("keys", "rotate", made["id"], "--grace", "30d", "--expires", "90d", "--json").json
    assert [new[name] for name in ("organization", "name", "scopes")] == ["acme", "n", ["read"]]
    assert new["replaces"]["expires_at"] == made["expires_at"]
    assert new["key"] != made["key"]
    assert organization_of(new["key"]) == organization_of(made["key"]) == "acme"
    later = run("keys", "rotate", new["id"], "--grace", "1h", "--json").json["replaces"]["expires_at"]
    assert later < made["expires_at"]
    [entry] = run("audit", "--action", "key.rotate", "--limit", "1", "--json").json
    assert (entry["subject"], entry["organization_id"]) == (new["id"], "acme")


def test_a_key_that_ended_is_not_rotated() -> None:
    """Nor one that never was."""
    made = run("keys", "create", "--json").json
    run("keys", "revoke", made["id"])
    ended = run("keys", "rotate", made["id"])
    assert (ended.code, f"the key {made['id']} is revoked, expected an active one" in ended.errors) == (1, True)
    assert "there is no key with the id '000000000000'" in run("keys", "rotate", "000000000000").errors
