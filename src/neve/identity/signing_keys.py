"""The public keys of an identity provider: read by discovery, cached, and read again for an unknown key id."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jwt

from neve.errors import NeveError
from neve.http_client import HttpClient, NoReply
from neve.identity.config import check_provider_address
from neve.identity.rejection import TokenRejected
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from neve.identity.config import OidcConfig

DISCOVERY_PATH = "/.well-known/openid-configuration"
MAX_REPLY_BYTES = 1024 * 1024
MAX_KEYS = 100
MAX_STALE_SECONDS = 86_400.0  # while the provider does not respond, its keys are used this long
MIN_RSA_BITS = 2048
# The type and the curve of the keys of each algorithm. A key is never used for another one.
KEY_TYPES = {
    **{f"{family}{bits}": ("RSA", None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}

log = get_logger("neve.identity")


class IssuerUnavailable(NeveError):
    """Raised when the keys of the provider can't be read, and there are none that are recent enough."""


@dataclass(frozen=True)
class SigningKey:
    """A public key with its id; `algorithm` is empty if the provider names none."""

    id: str | None
    kind: tuple[str, str | None]
    algorithm: str
    key: Any

    def fits(self, key_id: str | None, algorithm: str) -> bool:
        """Return whether a token with this header may be signed by it."""
        is_named = key_id is None or self.id == key_id
        return is_named and self.kind == KEY_TYPES[algorithm] and self.algorithm in ("", algorithm)


class SigningKeys:
    """The keys of one provider. Threads can share them; one of them reads the keys, the others go on with the old."""

    def __init__(self, config: OidcConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._client = HttpClient(
            timeout_seconds=config.timeout_seconds, max_reply_bytes=MAX_REPLY_BYTES, ca_file=config.ca_file
        )
        self._keys: tuple[SigningKey, ...] = ()
        self._read_at = -math.inf
        self._tried_at = -math.inf
        self._lock = threading.Lock()

    def find(self, key_id: str | None, algorithm: str) -> SigningKey:
        """Return the key of a token; raises `TokenRejected` for an unknown one, and `IssuerUnavailable`.

        A token without a key id needs a provider with one key of its type.
        """
        self._refresh_old()
        seen = self._read_at
        found = self._match(key_id, algorithm)
        if found is None:
            self.refresh(seen)
            found = self._match(key_id, algorithm)
        if found is None:
            raise TokenRejected("unknown_key", "the token is signed by an unknown key")
        return found

    def refresh(self, seen: float) -> None:
        """Read the keys, unless they were read since `seen`.

        Raises `TokenRejected` with a delay if the provider was asked a moment ago: random key ids must not become
        requests to it.
        """
        with self._lock:
            if self._read_at > seen:
                return
            wait = self._tried_at + self._config.refresh_seconds - self._clock()
            if wait > 0:
                message = "the token is signed by an unknown key; the keys of the issuer are read again soon"
                raise TokenRejected("unknown_key", message, retry_seconds=max(1, math.ceil(wait)))
            self._read()

    @property
    def read_at(self) -> float:
        """The time of the last successful read, by the clock of the constructor."""
        return self._read_at

    def _refresh_old(self) -> None:
        """Read keys that are older than their cache time; one thread does, and the others use the old ones."""
        age = self._clock() - self._read_at
        if age <= self._config.jwks_seconds:
            return
        is_usable = age <= MAX_STALE_SECONDS
        if not self._lock.acquire(blocking=not is_usable):
            return
        try:
            age = self._clock() - self._read_at
            if age <= self._config.jwks_seconds:
                return
            if self._clock() - self._tried_at >= self._config.refresh_seconds:
                self._read_or_keep(is_usable)
            elif not is_usable:
                raise IssuerUnavailable("the signing keys of the identity provider could not be read a moment ago")
        finally:
            self._lock.release()

    def _read_or_keep(self, is_usable: bool) -> None:
        try:
            self._read()
        except IssuerUnavailable as error:
            if not is_usable:
                raise
            log.warning("signing keys are not renewed, the earlier ones are used", reason=error.message)

    def _match(self, key_id: str | None, algorithm: str) -> SigningKey | None:
        fitting = [key for key in self._keys if key.fits(key_id, algorithm)]
        return fitting[0] if len(fitting) == 1 or (fitting and key_id is not None) else None

    def _read(self) -> None:
        self._tried_at = self._clock()
        address = self._config.jwks_url or self._discover()
        found = self._get(address).get("keys")
        if not isinstance(found, list):
            raise IssuerUnavailable(f"{address} has no list of keys")
        keys = tuple(key for one in found[:MAX_KEYS] if (key := parse_signing_key(one)) is not None)
        if not keys:
            raise IssuerUnavailable(f"{address} has no signing key of a known type")
        self._keys, self._read_at = keys, self._clock()
        log.info("signing keys were read", keys=len(keys))

    def _discover(self) -> str:
        """Return the address of the keys. The document must be that of the configured issuer."""
        document = self._get(self._config.issuer.rstrip("/") + DISCOVERY_PATH)
        issuer, address = document.get("issuer"), document.get("jwks_uri")
        if issuer != self._config.issuer:
            raise IssuerUnavailable(
                f"oidc.issuer is {self._config.issuer!r}, but its discovery document has {issuer!r}"
            )
        try:
            return check_provider_address(str(address))
        except ValueError as error:
            raise IssuerUnavailable(f"jwks_uri of the provider is {address!r}, which {error}") from None

    def _get(self, address: str) -> Mapping[str, Any]:
        try:
            reply = self._client.request("GET", address)
            document = json.loads(reply.body) if reply.status == 200 and not reply.is_truncated else None
        except (NoReply, ValueError, RecursionError) as error:
            raise IssuerUnavailable(f"can't read {address}: {error}") from None
        if not isinstance(document, dict):
            raise IssuerUnavailable(f"{address} answered with {reply.status} and no usable document")
        return document


def parse_signing_key(document: object) -> SigningKey | None:
    """Return a key for signatures; None for keys of other uses, unknown types, shared secrets and weak keys."""
    if not isinstance(document, dict) or document.get("use", "sig") != "sig" or document.get("kty") == "oct":
        return None
    kind = (str(document.get("kty")), document.get("crv"))
    algorithm = str(document.get("alg", ""))
    fitting = [name for name, known in KEY_TYPES.items() if known == kind and algorithm in ("", name)]
    if not fitting:
        return None
    try:
        key = jwt.PyJWK(document, fitting[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    if kind[0] == "RSA" and key.key_size < MIN_RSA_BITS:
        return None
    key_id = document.get("kid")
    return SigningKey(str(key_id) if key_id is not None else None, kind, algorithm, key)
