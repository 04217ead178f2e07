"""The files of the page: addresses, caching, compression, security headers, and a server without them."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

import pytest

from neve.api.access import AccessRules
from neve.api.api_application import build_api_application
from neve.api.page.files import IMMUTABLE, SECURITY_HEADERS
from neve.receive.authentication import KeyGuard
from tests.api.test_access import Book, Reply, send

if TYPE_CHECKING:
    from pathlib import Path

HTML = {"host": "localhost", "accept": "text/html,*/*"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A built page."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>Neve</title>" + " " * 1000)
    (tmp_path / "assets" / "index-1a2b.js").write_text("export default 1;" * 100)
    (tmp_path / "secret.txt").write_text("not a file of the page")
    return tmp_path


def ask(
    monkeypatch: pytest.MonkeyPatch, folder: Path, path: str, headers: dict[str, str], method: str = "GET"
) -> Reply:
    """Send one request to the whole application."""
    monkeypatch.setattr("neve.api.page.files.FOLDER", folder)
    nothing: Any = None
    application = build_api_application(nothing, nothing, KeyGuard(Book(), 60), AccessRules("query", is_open=False))
    return asyncio.run(send(application, method, path, headers))


@pytest.mark.parametrize("path", ["/", "/logs", "/trace/0af7", "/anything"])
def test_any_address_of_a_screen_gives_the_page(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str) -> None:
    """Without a key, and always asked for again."""
    reply = ask(monkeypatch, folder, path, HTML)
    assert (reply.status, reply.headers["cache-control"]) == (200, "no-cache")
    assert reply.headers["content-type"] == "text/html; charset=utf-8"


def test_hashed_files_are_kept_for_ever(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """And compressed for those who accept it."""
    plain = ask(monkeypatch, folder, "/assets/index-1a2b.js", {"host": "localhost"})
    packed = ask(monkeypatch, folder, "/assets/index-1a2b.js", {"host": "localhost", "accept-encoding": "br, gzip"})
    assert plain.headers["cache-control"] == packed.headers["cache-control"] == IMMUTABLE
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body)


@pytest.mark.parametrize(
    "path", ["/secret.txt", "/assets/none.js", "/assets/../secret.txt", "/../pyproject.toml", "/index.html"]
)
def test_other_files_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str) -> None:
    """Only what is in the list is served."""
    reply = ask(monkeypatch, folder, path, {"host": "localhost"})
    assert reply.status == 404


@pytest.mark.parametrize("path", ["/api/v1/nothing", "/prometheus/api/v1/nothing"])
def test_unknown_addresses_of_programs_are_errors(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str) -> None:
    """Also for a browser."""
    assert ask(monkeypatch, folder, path, HTML).status == 404


@pytest.mark.parametrize(
    "path", ["/", "/assets/index-1a2b.js", "/api/v1/query", "/api/v1/openapi.json", "/livez", "/x"]
)
def test_every_response_has_the_security_headers(monkeypatch: pytest.MonkeyPatch, folder: Path, path: str) -> None:
    """Files, answers and errors alike."""
    reply = ask(monkeypatch, folder, path, HTML)
    assert {name: reply.headers.get(name) for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_a_server_without_the_page_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the command that builds it, and its API works."""
    reply = ask(monkeypatch, tmp_path, "/", HTML)
    assert (reply.status, b"make setup" in reply.body) == (404, True)
    assert ask(monkeypatch, tmp_path, "/api/v1/openapi.json", HTML).status == 200
