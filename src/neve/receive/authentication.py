"""Authentication of requests: verify the API key or token, and determine the caller's organization and scopes."""

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

from neve.errors import NeveError
from neve.identity.rejection import TokenRejected, is_token
from neve.logger import get_logger
from neve.receive.quotas import Bucket
from neve.receive.refusal import Refusal, Verdict
from neve.state.scopes import ALL_SCOPES, SUBJECT_PREFIX, Caller, Scope

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_UPS = 4  # concurrent lookups; a slow key store must not occupy the threads of other work
TOKEN_LOOK_UPS = 2  # of tokens, which may wait for the identity provider
MAX_KNOWN = 10_000  # cached results, of valid and of unknown keys; a client that guesses keys must not fill the memory
# Lookups a second of new keys, and the burst in seconds. Only keys that turn out to be unknown count. A store with many
# valid keys is therefore soon cached, and a client that guesses keys is limited.
NEW_PER_SECOND, NEW_BURST_SECONDS = 50, 4
PEER_SHARE = 0.25  # the share of one network: a client that guesses keys blocks its own new keys, not those of others
MAX_PEERS = 10_000
IPV6_NETWORK_BYTES = 8  # one customer has all addresses of such a network

log = get_logger("neve.receive")


class KeyVerifier(Protocol):
    """Store of API keys; a lookup may be slow."""

    def verify(self, text: str) -> Caller | None:
        """Return the caller of a key, even if the key has expired, or None if the key is unknown or revoked."""


class Guard(Protocol):
    """Authentication of requests."""

    async def organization(self, key: str | None) -> str:
        """Return the organization of a write request; raises `Refusal`."""

    async def caller(self, key: str | None, scope: Scope, peer: str = "", certificate: str = "") -> Caller:
        """Return the caller if it has a scope; raises `Refusal`.

        `peer` is the client's address, if it is known, and `certificate` the name in its certificate, if it has one.
        """


class RefusalCounter(Protocol):
    """Counter of refused logins. It never waits."""

    def count(
        self, reason: str, network: str = "", organization: str = "", key_id: str = "", certificate: str = ""
    ) -> None:
        """Count a refused login. `certificate` is the name in the client's certificate."""


class OpenGuard:
    """Guard without keys: every request belongs to one organization.

    The scope `admin` is granted only if `admin` is set.
    """

    def __init__(self, organization: str, *, admin: bool = False) -> None:
        self._organization = organization
        self._scopes = (*ALL_SCOPES, Scope.ADMIN) if admin else ALL_SCOPES

    async def organization(self, _key: str | None) -> str:
        """Return the configured organization."""
        return self._organization

    async def caller(self, _key: str | None, _scope: Scope, _peer: str = "", _certificate: str = "") -> Caller:
        """Return a caller of the configured organization, without a key.

        Handlers of admin requests check its scopes.
        """
        return Caller(self._organization, scopes=self._scopes)


class KeyGuard:
    """Guard that requires an API key.

    A lookup is cached for a few seconds, so that a revoked key soon stops working.
    """

    def __init__(
        self,
        keys: KeyVerifier,
        seconds: float,
        *,
        tokens: KeyVerifier | None = None,
        refused: RefusalCounter | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._keys = keys
        self._seconds = seconds
        self._refused = refused
        self._clock = clock
        self._now = now
        self._threads = ThreadPoolExecutor(LOOK_UPS, thread_name_prefix="api-keys")
        self._tokens = tokens
        self._token_threads = ThreadPoolExecutor(TOKEN_LOOK_UPS, thread_name_prefix="tokens")
        # Two caches: the number of unknown keys is unlimited, and they must not evict valid keys.
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._unknown: OrderedDict[bytes, tuple[float, TokenRejected | None]] = OrderedDict()
        self._refreshing: dict[bytes, asyncio.Task[None]] = {}
        self._new = Bucket.full(NEW_PER_SECOND, NEW_BURST_SECONDS, clock())
        self._new_of: OrderedDict[str, Bucket] = OrderedDict()

    async def organization(self, key: str | None) -> str:
        """Return the organization of a key that may write."""
        return (await self.caller(key, Scope.WRITE)).organization

    async def caller(self, key: str | None, scope: Scope, peer: str = "", certificate: str = "") -> Caller:
        """Return the owner of a key that has a scope."""
        if not key:
            raise Refusal(
                Verdict.NO_KEY,
                "missing_key",
                "an API key is required, as `Authorization: Bearer` or as `X-Api-Key`",
            )
        network, owner = network_of(peer), ("", "")
        try:
            found = await self._look_up(key, network)
            owner = (found.organization, found.key_id) if found else owner
            return self._check(found, scope)
        except TokenRejected as rejected:
            owner = ("", SUBJECT_PREFIX + rejected.subject if rejected.subject else "")
            self._count(rejected.reason, network, owner, certificate)
            raise _refuse_token(rejected) from None
        except Refusal as refusal:
            if refusal.verdict is not Verdict.UNAVAILABLE:
                self._count(refusal.reason, network, owner, certificate)
            raise

    @property
    def accepts_tokens(self) -> bool:
        """True if tokens of an identity provider are accepted."""
        return self._tokens is not None

    def _count(self, reason: str, network: str, owner: tuple[str, str], certificate: str) -> None:
        if self._refused is not None:
            self._refused.count(reason, network, *owner, certificate)

    def _check(self, found: Caller | None, scope: Scope) -> Caller:
        """Return a caller that may do this now; raises `Refusal`."""
        if found is None:
            raise Refusal(Verdict.WRONG_KEY, "wrong_key", "the API key is unknown or revoked")
        if found.expires_at is not None and found.expires_at <= self._now():
            if found.is_subject:
                raise Refusal(Verdict.NO_KEY, "expired_token", "the token has expired")
            raise Refusal(
                Verdict.WRONG_KEY,
                "expired_key",
                f"the API key expired at {found.expires_at:%Y-%m-%dT%H:%M:%SZ}: create another with `neve keys create`",
            )
        if not found.may(scope):
            has = ", ".join(found.scopes) or "none"
            kind = "token" if found.is_subject else "key"
            raise Refusal(Verdict.WRONG_KEY, "wrong_scope", f"this {kind} lacks the scope `{scope}` (it has: {has})")
        return found

    def forget(self, key: str) -> None:
        """Drop what is cached about a key, so that its end takes effect at once in this process."""
        name = _hash_key(key)
        self._known.pop(name, None)
        self._unknown.pop(name, None)

    async def _look_up(self, key: str, network: str) -> Caller | None:
        name = _hash_key(key)
        now = self._clock()
        known = self._known.get(name)
        if known and known[0] > now:
            if known[0] - now < self._seconds / 2:
                self._refresh(name, key)
            return known[1]
        until, rejected = self._unknown.get(name, (0.0, None))
        if until > now:
            if rejected is not None:
                raise TokenRejected(rejected.reason, rejected.message, subject=rejected.subject)
            return None
        paid = [] if known else self._pay(network, now)
        try:
            caller = await self._verify(key)
        except TokenRejected as error:
            if error.retry_seconds is None:
                self._remember(name, None, error)
            raise
        except NeveError as error:
            # The store's error names its host and user. A client without a valid key gets only the id of the log line.
            incident = secrets.token_hex(4)
            log.error("API key check failed", incident=incident, reason=error.message)
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

    async def _verify(self, key: str) -> Caller | None:
        loop = asyncio.get_running_loop()
        if self._tokens is not None and is_token(key):
            return await loop.run_in_executor(self._token_threads, self._tokens.verify, key)
        return await loop.run_in_executor(self._threads, self._keys.verify, key)

    def _refresh(self, name: bytes, key: str) -> None:
        """Verify a cached key again in the background before it expires, so that no request waits for the store."""
        if name not in self._refreshing:
            self._refreshing[name] = asyncio.create_task(self._verify_again(name, key))

    async def _verify_again(self, name: bytes, key: str) -> None:
        try:
            self._remember(name, await self._verify(key))
        except TokenRejected as error:
            self._remember(name, None, error)
        except NeveError as error:
            log.warning("API key check in the background failed", reason=error.message)  # valid until it expires
        finally:
            del self._refreshing[name]

    def _pay(self, network: str, now: float) -> list[Bucket]:
        """Charge the lookup of a new key; raises `Refusal` if too many new keys turned out to be unknown.

        Returns the buckets that were charged. They are refunded if the key is valid.
        """
        buckets = [self._new, self._of(network, now)] if network else [self._new]
        if wait := max(bucket.wait(now) for bucket in buckets):
            raise Refusal(
                Verdict.BUSY,
                "too_many_unknown_keys",
                "too many unknown API keys were tried; only keys that were used recently are accepted now",
                retry_after_seconds=max(1, math.ceil(wait)),
            )
        for bucket in buckets:
            bucket.take(1, now)
        return buckets

    def _of(self, network: str, now: float) -> Bucket:
        """Return the bucket of a network. A network that was evicted starts again with a full bucket."""
        fresh = Bucket.full(NEW_PER_SECOND * PEER_SHARE, NEW_BURST_SECONDS, now)
        bucket = self._new_of.setdefault(network, fresh)
        self._new_of.move_to_end(network)
        if len(self._new_of) > MAX_PEERS:
            self._new_of.popitem(last=False)
        return bucket

    def _remember(self, name: bytes, caller: Caller | None, rejected: TokenRejected | None = None) -> None:
        until = self._clock() + self._seconds
        self._known.pop(name, None)
        self._unknown.pop(name, None)
        if caller is None:
            self._unknown[name] = (until, rejected)
        else:
            self._known[name] = (until, caller)
        answers: OrderedDict[bytes, tuple[float, Caller]] | OrderedDict[bytes, tuple[float, TokenRejected | None]]
        for answers in (self._known, self._unknown):
            if len(answers) > MAX_KNOWN:
                answers.popitem(last=False)


def _refuse_token(rejected: TokenRejected) -> Refusal:
    """Return the refusal of a token; one that may be accepted soon is worth a retry."""
    if rejected.retry_seconds is not None:
        return Refusal(Verdict.BUSY, rejected.reason, rejected.message, retry_after_seconds=rejected.retry_seconds)
    return Refusal(Verdict.NO_KEY, rejected.reason, rejected.message)


def _hash_key(key: str) -> bytes:
    """Return the name of a key in the caches, which hold no keys."""
    return blake2b(key.encode(), digest_size=16).digest()


def network_of(peer: str) -> str:
    """Return the network of a peer address, or an empty text if it is no address.

    >>> network_of("192.0.2.7"), network_of("ipv4:192.0.2.7:4317"), network_of("unix:/run/neve")
    ('192.0.2.7', '192.0.2.7', '')
    >>> network_of("2001:db8::1") == network_of("ipv6:%5B2001:db8::2%5D:4317") == "2001:db8::"
    True
    """
    scheme, _, rest = peer.partition(":")
    if scheme in {"ipv4", "ipv6"}:  # the notation of gRPC
        peer = unquote(rest).rpartition(":")[0].strip("[]")
    try:
        address = ip_address(peer)
    except ValueError:
        return ""
    if address.version == 4:
        return str(address)
    return str(IPv6Address(address.packed[:IPV6_NETWORK_BYTES].ljust(16, b"\0")))


def extract_key(authorization: str | None, api_key: str | None) -> str | None:
    """Return the API key in the headers of a request.

    Basic authentication is for clients that support nothing else (Amazon SNS, by the URL that it is given): the
    password is the key.

    >>> extract_key("Bearer abc", None), extract_key(None, "abc")
    ('abc', 'abc')
    >>> extract_key("Basic bmV2ZTphYmM=", None), extract_key("Digest x", None)
    ('abc', None)
    """
    scheme, _, credentials = (authorization or "").partition(" ")
    match scheme.lower():
        case "bearer":
            return credentials.strip() or None
        case "basic":
            return _parse_password(credentials)
    return api_key.strip() or None if api_key else None


def _parse_password(credentials: str) -> str | None:
    try:
        decoded = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return decoded.partition(":")[2] or None
