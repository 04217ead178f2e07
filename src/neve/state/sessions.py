"""Sessions of browsers: a random token in the place of an API key, which is typed once and never stored.

The store keeps a hash of the token, the ids of the keys that it stands for, and the time of the last use. A session
ends when it is idle, by signing out, and with its key: each use looks the key up again.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.state.documents import Documents
    from neve.state.scopes import Caller

SPACE = "browser-sessions"
TOKEN_PREFIX = "neve-session-"  # noqa: S105 - a prefix, not a token
TOKEN_BYTES = 32
MAX_KEYS = 20  # of one browser
# `used` ends idle sessions. A write with every request would cost more than it is worth.
USED_EVERY = timedelta(minutes=5)
SWEEP_EVERY = timedelta(hours=1)


class KeyStore(Protocol):
    """API keys, verified by their text or found by their id."""

    def verify(self, text: str) -> Caller | None:
        """Return the caller of a key; None if it is unknown or revoked."""

    def find_caller(self, key_id: str) -> Caller | None:
        """Return the caller of a key by its id; None if it is unknown or revoked."""


@dataclass(frozen=True)
class Session:
    """The keys of one browser, and the one that its requests use."""

    keys: tuple[str, ...]
    active: str
    used: datetime

    @property
    def document(self) -> dict[str, Any]:
        """Return the session as it is stored."""
        return {"keys": list(self.keys), "active": self.active, "used": self.used.isoformat()}


class Sessions:
    """The sessions of a state store, and the verifier of their tokens."""

    def __init__(self, documents: Documents, keys: KeyStore, idle: timedelta) -> None:
        self._documents = documents
        self._keys = keys
        self._idle = idle
        self._swept: datetime | None = None

    def verify(self, text: str) -> Caller | None:
        """Return the caller of a key or of a session's token; None if it is unknown, revoked or idle."""
        if not text.startswith(TOKEN_PREFIX):
            return self._keys.verify(text)
        session = self.find(text)
        if session is None:
            return None
        now = self._documents.now()
        if now - session.used > USED_EVERY:
            touched = Session(session.keys, session.active, now)
            self._documents.swap(SPACE, hash_token(text), session.document, touched.document)
        return self._keys.find_caller(session.active)

    def start(self, key_ids: Sequence[str], active: str) -> str:
        """Start a session and return its token, which can't be retrieved again."""
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._documents.now()
        session = Session(tuple(dict.fromkeys(key_ids))[-MAX_KEYS:], active, now)
        self._documents.put(SPACE, hash_token(token), session.document)
        self._sweep(now)
        return token

    def find(self, token: str | None) -> Session | None:
        """Return the session of a token; None if there is none, or it is idle."""
        if not token or not token.startswith(TOKEN_PREFIX):
            return None
        stored = self._documents.get(SPACE, hash_token(token))
        if stored is None:
            return None
        session = _read_session(stored)
        return None if self._documents.now() - session.used > self._idle else session

    def end(self, token: str | None) -> None:
        """End a session; no effect if there is none."""
        if token:
            self._documents.delete(SPACE, hash_token(token))

    def find_caller(self, key_id: str) -> Caller | None:
        """Return the caller of a key by its id; None if it is unknown or revoked."""
        return self._keys.find_caller(key_id)

    def callers(self, session: Session) -> list[Caller]:
        """Return the callers of all keys of a session that are still valid."""
        found = (self._keys.find_caller(key_id) for key_id in session.keys)
        return [caller for caller in found if caller is not None]

    def _sweep(self, now: datetime) -> None:
        """Delete idle sessions now and then."""
        if self._swept is not None and now - self._swept < SWEEP_EVERY:
            return
        self._swept = now
        idle = [key for key, stored in self._documents.entries(SPACE) if now - _read_session(stored).used > self._idle]
        for key in idle:
            self._documents.delete(SPACE, key)


def hash_token(token: str) -> str:
    """Hash a token for storage; it is random, so that a fast hash is enough.

    >>> hash_token("neve-session-a")[:16]
    '68abb6860875b103'
    """
    return hashlib.sha256(token.encode()).hexdigest()


def _read_session(stored: dict[str, object]) -> Session:
    keys = tuple(cast("list[str]", stored["keys"]))
    return Session(keys, str(stored["active"]), datetime.fromisoformat(str(stored["used"])))
