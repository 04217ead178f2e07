"""Client of a JSON API over HTTP. A rejected request is an error with its status and without secrets."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from neve.errors import LakeError
from neve.http_client import HttpClient, NoReply

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_SECONDS = 30.0
MAX_REPLY_BYTES = 64 * 1024 * 1024
MAX_ERROR_CHARACTERS = 300  # maximum length of a server's message in an error


class HttpStatusError(LakeError):
    """Raised when a server rejects a request; `status` is the HTTP status."""

    def __init__(self, message: str, *, status: int, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class JsonHttpClient:
    """Client of one server."""

    def __init__(self, what: str, base: str, headers: Mapping[str, str]) -> None:
        self._what = what
        self._base = base.rstrip("/")
        self._client = HttpClient(
            timeout_seconds=TIMEOUT_SECONDS,
            max_reply_bytes=MAX_REPLY_BYTES,
            headers={"Accept": "application/json", **headers},
        )

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None, **query: str) -> Any:
        """Send a request and return the document of the response, or None for an empty response.

        Raises `HttpStatusError` if the server rejects the request. Raises `LakeError` if the server does not respond:
        then it is unknown whether the request was executed.
        """
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        headers = {"Content-Type": "application/json"} if body is not None else {}
        sent = None if body is None else json.dumps(body).encode()
        try:
            reply = self._client.request(method, url, sent, headers)
        except NoReply as error:
            raise LakeError(f"{self._what} at {self._base} does not respond: {error}") from error
        if reply.is_truncated:
            raise LakeError(f"{method} {self._base}{path} returned more than {MAX_REPLY_BYTES} bytes")
        if not reply.is_success:
            raise HttpStatusError(
                f"{method} {self._base}{path} was rejected by {self._what} with {reply.status}: "
                f"{_format_error(reply.body)}",
                status=reply.status,
            )
        return _parse_body(reply.body)

    def ask_or_none(self, path: str) -> Any:
        """Return the document at a path, or None if it does not exist."""
        try:
            return self.ask("GET", path)
        except HttpStatusError as refused:
            if refused.status == 404:
                return None
            raise


def _parse_body(body: bytes) -> Any:
    """Parse the body of a response. A text that is not JSON is returned unchanged."""
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode(errors="replace")


def _format_error(body: bytes) -> str:
    document = _parse_body(body)
    message = document.get("message", document) if isinstance(document, dict) else document
    return str(message)[:MAX_ERROR_CHARACTERS]
