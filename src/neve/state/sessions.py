"""Sessions of browsers: a random token in the place of an API key, which is typed once and never stored.

The store keeps a hash of the token, the ids of the keys that it stands for, and the time of the last use. A session
ends when it is idle, by signing out, and with its key: each use looks the key up again. Of a token of an identity
provider the session has the caller, because there is nothing to look up; it ends with the token.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Protocol, cast

from neve.state.scopes import SUBJECT_PREFIX, Caller, format_scopes, parse_scopes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.state.documents import Documents

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
    callers: tuple[Caller, ...] = ()  # of tokens

    @property
    def document(self) -> dict[str, Any]:
        """Return the session as it is stored."""
        stored = {"callers": [_write_caller(caller) for caller in self.callers]} if self.callers else {}
        return {"keys": list(self.keys), "active": self.active, "used": self.used.isoformat(), **stored}


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
            touched = replace(session, used=now)
            self._documents.swap(SPACE, hash_token(text), session.document, touched.document)
        return self.find_caller(session, session.active)

    def start(self, key_ids: Sequence[str], active: str, callers: Sequence[Caller] = ()) -> str:
        """Start a session and return its token, which can't be retrieved again. `callers` are those of tokens."""
        token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
        now = self._documents.now()
        latest = {caller.key_id: caller for caller in callers}
        session = Session(tuple(dict.fromkeys(key_ids))[-MAX_KEYS:], active, now, tuple(latest.values())[-MAX_KEYS:])
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

    def find_caller(self, session: Session, key_id: str) -> Caller | None:
        """Return the caller of a key of a session by its id; None if it is unknown, revoked, or of an expired token."""
        if not key_id.startswith(SUBJECT_PREFIX):
            return self._keys.find_caller(key_id)
        found = next((caller for caller in session.callers if caller.key_id == key_id), None)
        is_over = found is not None and found.expires_at is not None and found.expires_at <= self._documents.now()
        return None if is_over else found

    def callers(self, session: Session) -> list[Caller]:
        """Return the callers of all keys of a session that are still valid."""
        found = (self.find_caller(session, key_id) for key_id in session.keys)
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
    callers = tuple(_read_caller(one) for one in cast("list[dict[str, str]]", stored.get("callers", [])))
    return Session(keys, str(stored["active"]), datetime.fromisoformat(str(stored["used"])), callers)


def _write_caller(caller: Caller) -> dict[str, str]:
    ends = {"expires_at": caller.expires_at.isoformat()} if caller.expires_at else {}
    return {
        "organization": caller.organization,
        "key_id": caller.key_id,
        "scopes": format_scopes(caller.scopes),
        **ends,
    }


def _read_caller(stored: dict[str, str]) -> Caller:
    ends = datetime.fromisoformat(stored["expires_at"]) if "expires_at" in stored else None
    return Caller(stored["organization"], stored["key_id"], parse_scopes(stored["scopes"]), ends)
