"""A JSON API over HTTP: one request, one answer; what is refused is an error with its status, and no secret in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 30.0
MOST_WORDS = 300  # characters of what a server says in an error


class Refused(LakeError):
    """Raised when a server does not do what it is asked; `status` is its own word for why."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


def part(text: str) -> str:
    """A text as one part of a path."""
    return quote(text, safe="")


class JsonHttp:
    """One server's API. Redirects are not followed: they would take a secret elsewhere."""

    def __init__(self, what: str, base: str, headers: Mapping[str, str]) -> None:
        self._what = what
        self._base = base.rstrip("/")
        self._headers = {"Accept": "application/json", **headers}
        self._pool = urllib3.PoolManager(num_pools=1, retries=False, timeout=TIMEOUT_SECONDS)

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: str) -> Any:
        """The document that a request is answered with, none where it is empty; raises `Refused` where it is not done.

        A server that does not answer is a `LakeError`: nobody can tell then whether it was done.
        """
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {**self._headers, **({"Content-Type": "application/json"} if body is not None else {})}
        sent = None if body is None else json.dumps(body).encode()
        try:
            answer = self._pool.request(method, url, body=sent, headers=headers, redirect=False)
        except (HTTPError, OSError) as error:
            raise LakeError(f"{self._what} at {self._base} does not answer: {type(error).__name__}: {error}") from error
        if not 200 <= answer.status < 300:
            raise Refused(
                f"{method} {self._base}{path} was refused by {self._what} with {answer.status}: {_words(answer.data)}",
                status=answer.status,
            )
        return _document(answer.data)

    def ask_or_none(self, path: str) -> Any:
        """What is there, or none."""
        try:
            return self.ask("GET", path)
        except Refused as refused:
            if refused.status == 404:
                return None
            raise


def _document(body: bytes) -> Any:
    """What was answered; a text that is no JSON stands for itself."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def _words(body: bytes) -> str:
    document = _document(body)
    said = document.get("message", document) if isinstance(document, dict) else document
    return str(said)[:MOST_WORDS]
