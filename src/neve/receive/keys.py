"""Who sends or asks: the key of a request, the organization that it speaks for, and what it may."""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import secrets
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import structlog

from neve.errors import NeveError
from neve.lake.scopes import ALL_SCOPES, Caller, Scope
from neve.receive.quotas import Bucket
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_UPS = 4  # at a time; a slow store must not take the threads of others
MOST_KNOWN = 10_000  # answers of either kind that are kept; whoever tries out keys must not fill the memory
# Look-ups a second for keys that nobody has shown before, and for how many seconds' worth at once. Only those that turn
# out unknown count, so that a store with many good keys is soon known, and whoever tries out keys gets no further.
NEW_PER_SECOND, NEW_BURST_SECONDS = 50, 4

log = structlog.get_logger("neve.receive")


class Keys(Protocol):
    """Where keys are looked up; may take its time."""

    def verify(self, text: str) -> Caller | None:
        """Whom a key speaks for, also one that has expired; none for one that is unknown or revoked."""


class Guard(Protocol):
    """Who is let in."""

    async def organization(self, key: str | None) -> str:
        """The organization that a request to write speaks for; raises `Refusal`."""

    async def caller(self, key: str | None, scope: Scope) -> Caller:
        """Who asks for what a scope allows; raises `Refusal`."""


class OpenDoor:
    """Lets everyone in for one organization; to operate the lake only where that was said."""

    def __init__(self, organization: str, *, admin: bool = False) -> None:
        self._organization = organization
        self._scopes = (*ALL_SCOPES, Scope.ADMIN) if admin else ALL_SCOPES

    async def organization(self, _key: str | None) -> str:
        """Always the same."""
        return self._organization

    async def caller(self, _key: str | None, _scope: Scope) -> Caller:
        """Always the same, without a key; what operates asks for the scopes."""
        return Caller(self._organization, scopes=self._scopes)


class KeyDoor:
    """Lets in who has a key; an answer is kept for a few seconds, so that a revoked key is soon of no use."""

    def __init__(
        self,
        keys: Keys,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._keys = keys
        self._seconds = seconds
        self._clock = clock
        self._now = now
        self._threads = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="api-keys")
        # Apart from each other: unknown keys, of which there is no end, push no good one out.
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._unknown: OrderedDict[bytes, float] = OrderedDict()
        self._new = Bucket.full(NEW_PER_SECOND, NEW_BURST_SECONDS, clock())

    async def organization(self, key: str | None) -> str:
        """The organization of a key that may write."""
        return (await self.caller(key, Scope.WRITE)).organization

    async def caller(self, key: str | None, scope: Scope) -> Caller:
        """The owner of a key that has a scope."""
        if not key:
            raise Refusal(
                Verdict.NO_KEY, "missing_key", "an API key is needed: send it as `Authorization: Bearer` or `X-Api-Key`"
            )
        found = await self._look_up(key)
        if found is None:
            raise Refusal(Verdict.WRONG_KEY, "wrong_key", "the API key is unknown or revoked")
        if found.expires_at is not None and found.expires_at <= self._now():
            raise Refusal(
                Verdict.WRONG_KEY,
                "expired_key",
                f"the API key expired at {found.expires_at:%Y-%m-%dT%H:%M:%SZ}: create another with `neve keys create`",
            )
        if not found.may(scope):
            has = ", ".join(found.scopes) or "none"
            raise Refusal(Verdict.WRONG_KEY, "wrong_scope", f"this key lacks the scope `{scope}` (it has: {has})")
        return found

    async def _look_up(self, key: str) -> Caller | None:
        name = blake2b(key.encode(), digest_size=16).digest()  # keys themselves are not kept
        now = self._clock()
        known = self._known.get(name)
        if known and known[0] > now:
            return known[1]
        if self._unknown.get(name, 0.0) > now:
            return None
        if not known:
            self._pay(now)
        try:
            caller = await asyncio.get_running_loop().run_in_executor(self._threads, self._keys.verify, key)
        except NeveError as error:
            # The store's words name its host and user. Whoever has no valid key yet gets only the id of the log line.
            incident = secrets.token_hex(4)
            log.error("API keys can't be checked", incident=incident, reason=error.message)
            raise Refusal(
                Verdict.UNAVAILABLE,
                "keys_unreachable",
                f"authentication is unavailable, try again (incident {incident} in the server's log)",
            ) from None
        self._remember(name, caller)
        if caller is not None and not known:
            self._new.take(-1, now)
        return caller

    def _pay(self, now: float) -> None:
        """Let a key be looked up that was never seen; raises `Refusal` where too many of those turned out unknown."""
        if wait := self._new.wait(now):
            raise Refusal(
                Verdict.BUSY,
                "too_many_unknown_keys",
                "too many unknown API keys are being tried; a key that was not used lately is looked up later",
                retry_after_seconds=max(1, math.ceil(wait)),
            )
        self._new.take(1, now)

    def _remember(self, name: bytes, caller: Caller | None) -> None:
        until = self._clock() + self._seconds
        self._known.pop(name, None)
        self._unknown.pop(name, None)
        if caller is None:
            self._unknown[name] = until
        else:
            self._known[name] = (until, caller)
        for answers in (self._known, self._unknown):
            if len(answers) > MOST_KNOWN:
                answers.popitem(last=False)


def key_of(authorization: str | None, api_key: str | None) -> str | None:
    """The key in a request's headers.

    Basic is for senders that know no other way (Amazon SNS, by the address it is given): the password is the key.

    >>> key_of("Bearer abc", None), key_of(None, "abc"), key_of("Basic bmV2ZTphYmM=", None), key_of("Digest x", None)
    ('abc', 'abc', 'abc', None)
    """
    scheme, _, credentials = (authorization or "").partition(" ")
    match scheme.lower():
        case "bearer":
            return credentials.strip() or None
        case "basic":
            return _password(credentials)
    return api_key.strip() or None if api_key else None


def _password(credentials: str) -> str | None:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return decoded.partition(":")[2] or None
