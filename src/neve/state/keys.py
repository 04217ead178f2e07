"""API keys: create, list, revoke and verify. Each key belongs to an organization.

The state store keeps a hash of the secret only. A table of an older release gets its missing columns.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Select, Table, Text, insert, inspect, select, text, update

from neve.errors import ConfigError, LakeError
from neve.model.settings import check_organization
from neve.state.scopes import ALL_SCOPES, Caller, format_scopes, parse_scopes
from neve.state.store import UtcDateTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from neve.state.scopes import Scope
    from neve.state.store import StateStore


ID_BYTES = 6
SECRET_BYTES = 25  # 200 bits, a whole number of base32 characters
KEY_PATTERN = re.compile(r"neve_([0-9a-f]{12})_([a-z2-7]{40})")
KEY_ID_PATTERN = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True)
class KeyText:
    """An API key as its owner has it. Its `repr` does not contain the secret."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The text that the owner sends."""
        return f"neve_{self.id}_{self.secret}"


def generate_key() -> KeyText:
    """Generate a random key."""
    secret = base64.b32encode(secrets.token_bytes(SECRET_BYTES)).decode().lower()
    return KeyText(secrets.token_hex(ID_BYTES), secret)


def parse_key(text: str | bytes) -> KeyText | None:
    r"""Parse a key. Return None for any text that is not a key.

    >>> parse_key("neve_0123456789ab_" + 40 * "a")
    KeyText(id='0123456789ab')
    >>> parse_key(b"\xff"), parse_key("neve_0123456789ab_short")
    (None, None)
    """
    if isinstance(text, bytes):
        text = text.decode("latin-1")  # never fails; a text that is not ASCII is no key either way
    match = KEY_PATTERN.fullmatch(text)
    return KeyText(match[1], match[2]) if match else None


def hash_secret(secret: str) -> str:
    """Hash a secret for storage.

    A slow, salted hash protects passwords that people choose. A secret of 200 random bits can't be guessed even with a
    fast hash, and no two are the same. A fast hash can be checked with every request.

    >>> hash_secret("a")[:16]
    'ca978112ca1bbdca'
    """
    return hashlib.sha256(secret.encode()).hexdigest()


KEYS = Table(
    "api_keys",
    MetaData(),
    Column("id", Text, primary_key=True),
    Column("secret_sha256", Text, nullable=False),
    Column("organization_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("revoked_at", UtcDateTime),
    Column("last_used_at", UtcDateTime),
    Column("scopes", Text),  # null: created before scopes existed, or by a release without scopes
    Column("expires_at", UtcDateTime),  # null: never
)
ADDED_COLUMNS = (KEYS.c.scopes, KEYS.c.expires_at)  # columns that tables of older releases lack


def add_missing_columns(state: StateStore) -> None:
    """Add the columns that a table of an older release lacks. Concurrent calls are safe."""
    with state.reading(KEYS) as connection:
        if not _find_missing_columns(connection):
            return
    with state.writing(KEYS) as connection:
        # SQLite has one writer at a time, so a second look is enough. PostgreSQL has IF NOT EXISTS for it.
        clause = "IF NOT EXISTS " if connection.dialect.name == "postgresql" else ""
        for column in _find_missing_columns(connection):
            kind = column.type.compile(connection.dialect)
            connection.execute(text(f"ALTER TABLE {KEYS.name} ADD COLUMN {clause}{column.name} {kind}"))


def _find_missing_columns(connection: Connection) -> list[Column[Any]]:
    existing = {column["name"] for column in inspect(connection).get_columns(KEYS.name)}
    return [column for column in ADDED_COLUMNS if column.name not in existing]


MAX_NAME_CHARACTERS = 100
# `last_used_at` serves to find unused keys. A write with every request would cost more than it is worth.
USED_EVERY = timedelta(hours=1)
UNKNOWN_KEY_HASH = hash_secret("")


@dataclass(frozen=True)
class Key:
    """Metadata of a key, without its secret."""

    id: str
    organization: str
    name: str
    created_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    scopes: tuple[Scope, ...] = ALL_SCOPES
    expires_at: datetime | None = None


class Keys:
    """The keys of a state store."""

    def __init__(self, state: StateStore) -> None:
        self._state = state
        self._noted: dict[str, datetime] = {}
        self._is_current = False

    def create(
        self,
        organization: str,
        name: str = "",
        scopes: Sequence[Scope] = ALL_SCOPES,
        expires_at: datetime | None = None,
    ) -> tuple[Key, str]:
        """Create a key.

        Return it with its text, which can't be retrieved again. Without `expires_at` it never expires.
        """
        made = generate_key()
        stored = _check_scopes(scopes)
        key = Key(
            made.id,
            check_organization(organization),
            _check_name(name),
            datetime.now(UTC),
            scopes=parse_scopes(stored),
            expires_at=expires_at,
        )
        row = {
            "id": key.id,
            "secret_sha256": hash_secret(made.secret),
            "organization_id": key.organization,
            "name": key.name,
            "created_at": key.created_at,
            "scopes": stored,
            "expires_at": expires_at,
        }
        with self._current().writing(KEYS) as connection:
            connection.execute(insert(KEYS).values(row))
        return key, made.text

    def list(self, organization: str | None = None) -> tuple[Key, ...]:
        """List the keys of an organization or of all, oldest first, including revoked ones."""
        query = select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id)
        if organization is not None:
            query = query.where(KEYS.c.organization_id == organization)
        return tuple(_row_to_key(row) for row in self._read(query))

    def revoke(self, key_id: str) -> tuple[Key, bool]:
        """Revoke a key. Return it and whether it was active. Raises `LakeError` if it does not exist."""
        key_id = _parse_key_id(key_id)
        if not self._state.exists:
            raise _unknown_key_error(key_id)
        alive = (KEYS.c.id == key_id) & KEYS.c.revoked_at.is_(None)
        with self._current().writing(KEYS) as connection:
            ended = connection.execute(update(KEYS).where(alive).values(revoked_at=datetime.now(UTC)))
            row = connection.execute(select(KEYS).where(KEYS.c.id == key_id)).one_or_none()
        if row is None:
            raise _unknown_key_error(key_id)
        return _row_to_key(row), ended.rowcount == 1

    def rotate(self, key_id: str, ends_at: datetime, expires_at: datetime | None = None) -> tuple[Key, Key, str]:
        """Create a key with the organization, name and scopes of another one, which expires at `ends_at` or earlier.

        Return the old key, the new one and its text. Raises `LakeError` if the old key is unknown, revoked or expired.
        """
        key_id = _parse_key_id(key_id)
        row = next(iter(self._read(select(KEYS).where(KEYS.c.id == key_id))), None)
        if row is None:
            raise _unknown_key_error(key_id)
        old = _row_to_key(row)
        is_over = old.expires_at is not None and old.expires_at <= datetime.now(UTC)
        if old.revoked_at is not None or is_over:
            state = "revoked" if old.revoked_at else "expired"
            raise LakeError(f"the key {key_id} is {state}, expected an active one", hint="run `neve keys create`")
        new, text = self.create(old.organization, old.name, old.scopes, expires_at)
        until = min(ends_at, old.expires_at or ends_at)
        with self._current().writing(KEYS) as connection:
            connection.execute(update(KEYS).where(KEYS.c.id == key_id).values(expires_at=until))
        return replace(old, expires_at=until), new, text

    def verify(self, text: str | bytes) -> Caller | None:
        """Return the caller of a key with its scopes; None for an unknown, revoked or malformed key.

        An expired key returns a caller, so that the response can contain the reason for the rejection.
        """
        presented = parse_key(text)
        if presented is None:
            return None
        row = next(iter(self._read(select(KEYS).where(KEYS.c.id == presented.id))), None)
        # An unknown id is compared too, so that the response time does not reveal which ids exist.
        is_right = hmac.compare_digest(hash_secret(presented.secret), row.secret_sha256 if row else UNKNOWN_KEY_HASH)
        if row is None or not is_right or row.revoked_at is not None:
            return None
        if row.expires_at is None or row.expires_at > datetime.now(UTC):
            self._note_use(presented.id, row.last_used_at)
        return Caller(row.organization_id, presented.id, parse_scopes(row.scopes), row.expires_at)

    def find_caller(self, key_id: str) -> Caller | None:
        """Return the caller of a key by its id, for sessions that began with the whole key; None if it is revoked."""
        row = next(iter(self._read(select(KEYS).where(KEYS.c.id == key_id))), None)
        if row is None or row.revoked_at is not None:
            return None
        return Caller(row.organization_id, row.id, parse_scopes(row.scopes), row.expires_at)

    def _read(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """Run a query. Return no rows if the store does not exist; reading does not create it."""
        if not self._state.exists:
            return ()
        with self._current().reading(KEYS) as connection:
            return connection.execute(query).all()

    def _current(self) -> StateStore:
        """Return the store after its table has every column of this release."""
        if not self._is_current:
            add_missing_columns(self._state)
            self._is_current = True
        return self._state

    def _note_use(self, key_id: str, last: datetime | None) -> None:
        """Update the last use of a key at intervals.

        A store that rejects the update is retried at the same interval.
        """
        now = datetime.now(UTC)
        noted = max((at for at in (last, self._noted.get(key_id)) if at is not None), default=None)
        if noted is not None and now - noted < USED_EVERY:
            return
        self._noted[key_id] = now
        with suppress(LakeError), self._state.writing(KEYS) as connection:  # the key is valid regardless
            connection.execute(update(KEYS).where(KEYS.c.id == key_id).values(last_used_at=now))


def _row_to_key(row: Row[Any]) -> Key:
    return Key(
        row.id,
        row.organization_id,
        row.name,
        row.created_at,
        row.revoked_at,
        row.last_used_at,
        parse_scopes(row.scopes),
        row.expires_at,
    )


def _check_scopes(scopes: Sequence[Scope]) -> str:
    if not scopes:
        raise ConfigError("a key has no scopes, expected one or more of " + ", ".join(ALL_SCOPES))
    return format_scopes(scopes)


def _check_name(name: str) -> str:
    if len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise ConfigError(f"the name of a key is {name!r}, expected at most {MAX_NAME_CHARACTERS} printable characters")
    return name


def _parse_key_id(text: str) -> str:
    """Return the key id in a user's input, which may be the whole key. Any other text may contain a secret."""
    whole = parse_key(text)
    if whole is not None:
        return whole.id
    if not KEY_ID_PATTERN.fullmatch(text):
        raise LakeError(
            f"expected a key id of 12 hexadecimal digits, got {len(text)} other characters",
            hint="`neve keys list` shows the ids",
        )
    return text


def _unknown_key_error(key_id: str) -> LakeError:
    return LakeError(f"there is no key with the id {key_id!r}", hint="`neve keys list` shows the ids")
