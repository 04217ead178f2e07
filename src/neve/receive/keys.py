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
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

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
PEER_SHARE = (
    0.25  # what one address may have of them: who tries out keys keeps out its own new keys, not those of others
)
MOST_PEERS = 10_000
IPV6_NETWORK_BYTES = 8  # one customer has all addresses of such a network

log = structlog.get_logger("neve.receive")


class Keys(Protocol):
    """Where keys are looked up; may take its time."""

    def verify(self, text: str) -> Caller | None:
        """Whom a key speaks for, also one that has expired; none for one that is unknown or revoked."""


class Guard(Protocol):
    """Who is let in."""

    async def organization(self, key: str | None) -> str:
        """The organization that a request to write speaks for; raises `Refusal`."""

    async def caller(self, key: str | None, scope: Scope, peer: str = "") -> Caller:
        """Who asks for what a scope allows, from an address where that is known; raises `Refusal`."""


class OpenDoor:
    """Lets everyone in for one organization; to operate the lake only where that was said."""

    def __init__(self, organization: str, *, admin: bool = False) -> None:
        self._organization = organization
        self._scopes = (*ALL_SCOPES, Scope.ADMIN) if admin else ALL_SCOPES

    async def organization(self, _key: str | None) -> str:
        """Always the same."""
        return self._organization

    async def caller(self, _key: str | None, _scope: Scope, _peer: str = "") -> Caller:
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
        self._new_of: OrderedDict[str, Bucket] = OrderedDict()

    async def organization(self, key: str | None) -> str:
        """The organization of a key that may write."""
        return (await self.caller(key, Scope.WRITE)).organization

    async def caller(self, key: str | None, scope: Scope, peer: str = "") -> Caller:
        """The owner of a key that has a scope."""
        if not key:
            raise Refusal(
                Verdict.NO_KEY, "missing_key", "an API key is needed: send it as `Authorization: Bearer` or `X-Api-Key`"
            )
        found = await self._look_up(key, network_of(peer))
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

    async def _look_up(self, key: str, network: str) -> Caller | None:
        name = blake2b(key.encode(), digest_size=16).digest()  # keys themselves are not kept
        now = self._clock()
        known = self._known.get(name)
        if known and known[0] > now:
            return known[1]
        if self._unknown.get(name, 0.0) > now:
            return None
        paid = [] if known else self._pay(network, now)
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
        if caller is not None:
            for bucket in paid:
                bucket.take(-1, now)
        return caller

    def _pay(self, network: str, now: float) -> list[Bucket]:
        """Let a key be looked up that was never seen; raises `Refusal` where too many of those turned out unknown.

        Returns what it was taken from, to be given back where the key is good.
        """
        buckets = [self._new, self._of(network, now)] if network else [self._new]
        if wait := max(bucket.wait(now) for bucket in buckets):
            raise Refusal(
                Verdict.BUSY,
                "too_many_unknown_keys",
                "too many unknown API keys are being tried; a key that was not used lately is looked up later",
                retry_after_seconds=max(1, math.ceil(wait)),
            )
        for bucket in buckets:
            bucket.take(1, now)
        return buckets

    def _of(self, network: str, now: float) -> Bucket:
        """What a network may still try out; one that is forgotten may as much as a new one."""
        fresh = Bucket.full(NEW_PER_SECOND * PEER_SHARE, NEW_BURST_SECONDS, now)
        bucket = self._new_of.setdefault(network, fresh)
        self._new_of.move_to_end(network)
        if len(self._new_of) > MOST_PEERS:
            self._new_of.popitem(last=False)
        return bucket

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


def network_of(peer: str) -> str:
    """Whose address it is, as far as that can be told; nothing where it is none.

    >>> network_of("192.0.2.7"), network_of("ipv4:192.0.2.7:4317"), network_of("unix:/run/neve")
    ('192.0.2.7', '192.0.2.7', '')
    >>> network_of("2001:db8::1") == network_of("ipv6:%5B2001:db8::2%5D:4317") == "2001:db8::"
    True
    """
    scheme, _, rest = peer.partition(":")
    if scheme in {"ipv4", "ipv6"}:  # as gRPC writes it
        peer = unquote(rest).rpartition(":")[0].strip("[]")
    try:
        address = ip_address(peer)
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    return str(IPv6Address(address.packed[:IPV6_NETWORK_BYTES].ljust(16, b"\0")))


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
