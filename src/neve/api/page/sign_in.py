"""Sign-in of browsers: an API key is sent once and exchanged for a cookie that no script can read.

A browser may hold several keys and switches between them; its requests use one at a time. Each sign-in and switch gives
a new token, so that an old cookie is worth nothing.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from anyio import to_thread
from pydantic import BaseModel, ConfigDict, Field
from starlette.routing import Route

from neve import __version__
from neve.api.query.endpoint import SESSION_COOKIES, Endpoint, authenticate, read_body, session_token
from neve.api.query.errors import Failure, json_response
from neve.api.query.models import Document, bad_request, read_model
from neve.api.query.operations import PREFIX, Operation
from neve.api.slow_clients import find_client_name
from neve.identity.rejection import is_token
from neve.logger import get_logger
from neve.receive.authentication import KeyGuard, network_of
from neve.receive.quotas import Bucket
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller
    from neve.state.sessions import Session, Sessions

# Attempts of one network a second, and the burst in seconds: ten at once, then one in six seconds.
ATTEMPTS_PER_SECOND, ATTEMPTS_BURST_SECONDS = 1 / 6, 60
MAX_NETWORKS = 10_000

log = get_logger("neve.api")


class SignIn(BaseModel):
    """A key to sign in with, or the id of a key of this browser to switch to."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    key: str | None = Field(
        None,
        max_length=65_536,
        description="an API key with the scope `read`, or a token of the identity provider, as text",
    )
    key_id: str | None = Field(None, max_length=300, description="the id of a key that this browser has signed in with")


class HeldKey(Document):
    """One key that a browser has signed in with."""

    organization: str
    key_id: str
    active: bool = Field(description="whether requests of this browser use it now")


class IdentityDocument(Document):
    """The caller of the page."""

    auth: Literal["open", "keys"] = Field(description="open: the server requires no key")
    organization: str
    key_id: str = Field(description="id of the key; empty if none is required")
    scopes: list[str]
    version: str = Field(description="version of the server")
    organizations: list[HeldKey] = Field(description="keys that this browser has signed in with")
    may_operate: bool = Field(description="whether the caller may change jobs, pauses and policies")


class SignedOutDocument(Document):
    """The end of a session."""

    signed_in: bool


def describe_caller(caller: Caller, held: Sequence[Caller] = ()) -> IdentityDocument:
    """Return the document of a caller."""
    return IdentityDocument(
        auth="keys" if caller.key_id else "open",
        organization=caller.organization,
        key_id=caller.key_id,
        scopes=[scope.value for scope in caller.scopes],
        version=__version__,
        organizations=[
            HeldKey(organization=one.organization, key_id=one.key_id, active=one.key_id == caller.key_id)
            for one in held
        ],
        may_operate=caller.may(Scope.ADMIN),
    )


@dataclass(frozen=True)
class Attempts:
    """Limit on sign-ins of one network; only failed ones count."""

    buckets: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def check(self, network: str, now: float) -> Bucket:
        """Return the bucket of a network; raises `Failure` if it is empty."""
        full = Bucket.full(ATTEMPTS_PER_SECOND, ATTEMPTS_BURST_SECONDS, now)
        bucket = self.buckets.setdefault(network, full)
        self.buckets.move_to_end(network)
        if len(self.buckets) > MAX_NETWORKS:
            self.buckets.popitem(last=False)
        if wait := bucket.wait(now):
            seconds = max(1, math.ceil(wait))
            message = "too many attempts to sign in with an unknown key"
            retry = {"retry-after": str(seconds)}
            raise Failure(429, "too_many_attempts", message, hint=f"wait {seconds} s", headers=retry)
        return bucket


@dataclass(frozen=True)
class SignInEndpoints:
    """Handlers of sign-in."""

    guard: Guard
    sessions: Sessions | None = None  # none if no keys are required
    is_secure: bool = False  # whether the page is served over TLS
    attempts: Attempts = field(default_factory=Attempts)

    async def identify(self, request: Request, _nobody: Caller) -> Response:
        """Return the caller and the keys of this browser."""
        caller = await authenticate(request, self.guard, Scope.READ)
        return json_response(describe_caller(caller, await self._list_callers(session_token(request))).plain)

    async def sign_in(self, request: Request, _nobody: Caller) -> Response:
        """Exchange a key for a session, or switch to another key of the session."""
        sessions = self._require_sessions()
        query = read_model(await read_body(request), SignIn)
        if (query.key is None) == (query.key_id is None):
            raise bad_request("expected either key or key_id")
        old = session_token(request)
        session = await to_thread.run_sync(sessions.find, old)
        held = session.keys if session else ()
        if query.key is not None:
            caller = await self._verify(request, query.key.strip())
        else:
            caller = await self._switch(query.key_id or "", session)
        callers = [*(session.callers if session else ()), *([caller] if caller.is_subject else [])]
        token = await to_thread.run_sync(sessions.start, [*held, caller.key_id], caller.key_id, callers)
        await self._end(old)
        log.info("browser signed in", key=caller.key_id, organization=caller.organization)
        reply = json_response(describe_caller(caller, await self._list_callers(token)).plain)
        self._set_cookie(reply, token)
        return reply

    async def sign_out(self, request: Request, _nobody: Caller) -> Response:
        """End the session, for all keys of this browser."""
        self._require_sessions()
        await self._end(session_token(request))
        reply = json_response(SignedOutDocument(signed_in=False).plain)
        for name in SESSION_COOKIES:
            reply.delete_cookie(name, path="/", secure=name.startswith("__Host-"), httponly=True, samesite="strict")
        return reply

    def _require_sessions(self) -> Sessions:
        if self.sessions is None:
            raise Failure(409, "no_keys", "this server requires no API key", hint="open the page without signing in")
        return self.sessions

    async def _verify(self, request: Request, key: str) -> Caller:
        peer = request.client.host if request.client else ""
        now = time.monotonic()
        bucket = self.attempts.check(network_of(peer), now)
        bucket.take(1, now)
        from neve.state.keys import parse_key  # noqa: PLC0415 - loads SQLAlchemy

        accepts_token = isinstance(self.guard, KeyGuard) and self.guard.accepts_tokens and is_token(key)
        if parse_key(key) is None and not accepts_token:
            raise Failure(
                403, "wrong_key", "this is not an API key", hint="a key begins with neve_ and has 58 characters"
            )
        caller = await self.guard.caller(key, Scope.READ, peer, find_client_name(request.scope))
        bucket.take(-1, now)
        return caller

    async def _switch(self, key_id: str, session: Session | None) -> Caller:
        found = None
        if session is not None and key_id in session.keys:
            found = await to_thread.run_sync(self._require_sessions().find_caller, session, key_id)
        if found is None or not found.may(Scope.READ):
            raise Failure(403, "wrong_key", "this browser has not signed in with that key, or it was revoked")
        return found

    async def _list_callers(self, token: str | None) -> list[Caller]:
        if self.sessions is None or token is None:
            return []
        session = await to_thread.run_sync(self.sessions.find, token)
        return await to_thread.run_sync(self.sessions.callers, session) if session else []

    async def _end(self, token: str | None) -> None:
        if token is None or self.sessions is None:
            return
        await to_thread.run_sync(self.sessions.end, token)
        if isinstance(self.guard, KeyGuard):
            self.guard.forget(token)

    def _set_cookie(self, reply: Response, token: str) -> None:
        name = SESSION_COOKIES[0] if self.is_secure else SESSION_COOKIES[1]
        reply.set_cookie(name, token, path="/", secure=self.is_secure, httponly=True, samesite="strict")


SIGN_IN_OPERATIONS = (
    Operation("get", "/sign-in", "getIdentity", "The caller of the page", IdentityDocument),
    Operation(
        "post",
        "/sign-in",
        "signIn",
        "Exchange an API key for a cookie, or switch to another key of this browser",
        IdentityDocument,
        body=SignIn,
        failures=(
            (400, "the body is wrong"),
            (409, "this server requires no API key"),
            (429, "too many attempts with unknown keys; retry after `Retry-After` seconds"),
        ),
    ),
    Operation(
        "delete",
        "/sign-in",
        "signOut",
        "End the session of this browser",
        SignedOutDocument,
        failures=((409, "this server requires no API key"),),
    ),
)


def sign_in_routes(guard: Guard, sessions: Sessions | None, *, is_secure: bool) -> list[Route]:
    """Return the route of sign-in, which everyone may call."""
    paths = SignInEndpoints(guard, sessions, is_secure)
    handlers = {"GET": paths.identify, "POST": paths.sign_in, "DELETE": paths.sign_out}
    return [Route(f"{PREFIX}/sign-in", Endpoint(guard, handlers, is_public=True))]
