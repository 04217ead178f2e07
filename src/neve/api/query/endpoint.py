"""An endpoint of the API: methods, keys, request bodies, and error responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from neve.api.query.errors import Failure, json_response, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.models import MAX_BODY_BYTES
from neve.api.slow_clients import find_client_name
from neve.receive.authentication import extract_key
from neve.state.scopes import Caller, Scope
from neve.state.sessions import TOKEN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Send
    from starlette.types import Scope as Connection

    from neve.receive.authentication import Guard

BODY_SECONDS = 30
MAX_FIELDS = 1000  # of a form
JSON_TYPE = "application/json"
SESSION_COOKIES = ("__Host-neve-session", "neve-session")  # behind TLS, and without

Handler = Callable[[Request, Caller], Awaitable["ASGIApp"]]


@dataclass(frozen=True)
class Endpoint:
    """ASGI application of one path: authenticates the caller, calls the handler, and responds to errors.

    `method_scopes` are the scopes of methods that need another one.
    """

    guard: Guard
    handlers: Mapping[str, Handler]
    is_public: bool = False
    scope: Scope = Scope.READ
    method_scopes: Mapping[str, Scope] = field(default_factory=dict)

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        try:
            reply = await self._serve(request)
        except ClientDisconnect:
            return
        except Exception as error:
            failure = to_failure(error)
            count_refused(failure)
            if "expect" in request.headers:
                failure.headers["connection"] = "close"  # the following bytes may be the body
            reply = json_response(failure)
        await reply(scope, receive, send)

    async def _serve(self, request: Request) -> ASGIApp:
        method = "GET" if request.method == "HEAD" else request.method
        handler = self.handlers.get(method)
        if handler is None:
            raise self._no_such_method(request)
        caller = Caller("") if self.is_public else await self._caller(request)
        return await handler(request, caller)

    async def _caller(self, request: Request) -> Caller:
        return await authenticate(request, self.guard, self.method_scopes.get(request.method, self.scope))

    def _no_such_method(self, request: Request) -> Failure:
        path = request.url.path
        if not self.handlers:
            return Failure(
                404, "not_found", f"{path} was not found", hint="/api/v1/openapi.json lists the available paths"
            )
        allowed = ", ".join(self.handlers)
        message = f"{path} takes {allowed}, got {request.method}"
        return Failure(405, "method_not_allowed", message, headers={"allow": allowed})


async def authenticate(request: Request, guard: Guard, scope: Scope) -> Caller:
    """Return the caller of a request, by its key or by the session of its browser; raises `Refusal`."""
    key = extract_key(request.headers.get("authorization"), request.headers.get("x-api-key"))
    peer = request.client.host if request.client else ""
    return await guard.caller(key or session_token(request), scope, peer, find_client_name(request.scope))


def session_token(request: Request) -> str | None:
    """Return the token of a browser's session; any other cookie value is none, so that it is never taken for a key."""
    for name in SESSION_COOKIES:
        token = request.cookies.get(name, "")
        if token.startswith(TOKEN_PREFIX):
            return token
    return None


async def read_body(request: Request) -> bytes:
    """Read the JSON body of a request; raises `Failure` if it has another type, is too large or too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if kind != JSON_TYPE:
        hint = f"send the header `Content-Type: {JSON_TYPE}`"
        raise Failure(415, "unsupported_type", f"content-type is {kind[:100]!r}, expected {JSON_TYPE}", hint=hint)
    if packing != "identity":
        raise Failure(415, "unsupported_type", f"content-encoding is {packing[:100]!r}, expected none")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await _read_stream(request)
    except TimeoutError:
        message = f"the body did not arrive within {BODY_SECONDS} s"
        raise Failure(408, "slow_body", message, headers={"connection": "close"}) from None


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Read the parameters of a request: those of its address, and of a POST those of its form too."""
    pairs = _parse_fields(request.url.query, "the address")
    if request.method != "POST":
        return pairs
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read_stream(request)
    except TimeoutError:
        message = f"the body was not there after {BODY_SECONDS} s"
        raise Failure(408, "slow_body", message, headers={"connection": "close"}) from None
    try:
        return [*pairs, *_parse_fields(body.decode(), "the form")]
    except UnicodeDecodeError:
        raise Failure(400, "bad_data", "the body is not a form") from None


def _parse_fields(text: str, place: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:
        raise Failure(400, "bad_data", f"{place} has more than {MAX_FIELDS:,} fields") from None


async def _read_stream(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            message = f"the body is larger than {MAX_BODY_BYTES:,} bytes"
            raise Failure(413, "too_large", message, headers={"connection": "close"})
    return bytes(body)
