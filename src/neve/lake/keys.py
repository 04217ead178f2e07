"""API keys: each belongs to an organization, and whoever sends it speaks for that organization."""

from __future__ import annotations

import hmac
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Select, insert, select, update

from neve.errors import ConfigError, LakeError
from neve.lake.key_table import KEYS, add_columns
from neve.lake.key_text import ID_SHAPE, hash_secret, new_key, parse_key
from neve.lake.scopes import ALL_SCOPES, Caller, parse_scopes, scopes_text
from neve.model.organization import check_organization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Row

    from neve.lake.scopes import Scope
    from neve.lake.state import State

LONGEST_NAME = 100
# `last_used_at` is for finding keys that nobody uses: a write with every request would cost more than it tells.
USED_EVERY = timedelta(hours=1)
NOBODY = hash_secret("")


@dataclass(frozen=True)
class Key:
    """What is known of a key; its secret is not."""

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

    def __init__(self, state: State) -> None:
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
        """A new key, and its text, which nobody can ask for again; without `expires_at` it never expires."""
        made = new_key()
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
        """The keys of an organization or of all, the oldest first, with those that were revoked."""
        query = select(KEYS).order_by(KEYS.c.created_at, KEYS.c.id)
        if organization is not None:
            query = query.where(KEYS.c.organization_id == organization)
        return tuple(_key(row) for row in self._read(query))

    def revoke(self, key_id: str) -> tuple[Key, bool]:
        """End a key's life: the key, and whether it was alive; raises `LakeError` where there is none."""
        key_id = _id_of(key_id)
        if not self._state.exists:
            raise _unknown(key_id)
        alive = (KEYS.c.id == key_id) & KEYS.c.revoked_at.is_(None)
        with self._current().writing(KEYS) as connection:
            ended = connection.execute(update(KEYS).where(alive).values(revoked_at=datetime.now(UTC)))
            row = connection.execute(select(KEYS).where(KEYS.c.id == key_id)).one_or_none()
        if row is None:
            raise _unknown(key_id)
        return _key(row), ended.rowcount == 1

    def verify(self, text: str | bytes) -> Caller | None:
        """Whom a key speaks for and what it may; none for a key that is unknown, revoked, or no key at all.

        A key that has expired is known: its owner is to hear why it is refused.
        """
        presented = parse_key(text)
        if presented is None:
            return None
        row = next(iter(self._read(select(KEYS).where(KEYS.c.id == presented.id))), None)
        # An unknown id is compared too, so that the time of an answer does not tell which ids there are.
        is_right = hmac.compare_digest(hash_secret(presented.secret), row.secret_sha256 if row else NOBODY)
        if row is None or not is_right or row.revoked_at is not None:
            return None
        if row.expires_at is None or row.expires_at > datetime.now(UTC):
            self._note_use(presented.id, row.last_used_at)
        return Caller(row.organization_id, presented.id, parse_scopes(row.scopes), row.expires_at)

    def _read(self, query: Select[Any]) -> Sequence[Row[Any]]:
        """The answer to a question; nothing where there is no store, and looking makes none."""
        if not self._state.exists:
            return ()
        with self._current().reading(KEYS) as connection:
            return connection.execute(query).all()

    def _current(self) -> State:
        """The store, whose table has every column of this release."""
        if not self._is_current:
            add_columns(self._state)
            self._is_current = True
        return self._state

    def _note_use(self, key_id: str, last: datetime | None) -> None:
        """Write down that a key is used, now and then; a store that refuses is asked again as rarely."""
        now = datetime.now(UTC)
        noted = max((at for at in (last, self._noted.get(key_id)) if at is not None), default=None)
        if noted is not None and now - noted < USED_EVERY:
            return
        self._noted[key_id] = now
        with suppress(LakeError), self._state.writing(KEYS) as connection:  # the key is no less right for it
            connection.execute(update(KEYS).where(KEYS.c.id == key_id).values(last_used_at=now))


def _key(row: Row[Any]) -> Key:
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
    return scopes_text(scopes)


def _check_name(name: str) -> str:
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise ConfigError(f"the name of a key is {name!r}, expected at most {LONGEST_NAME} printable characters")
    return name


def _id_of(text: str) -> str:
    """The id that a user means, who may have given the whole key; a text that is neither may hold a secret."""
    whole = parse_key(text)
    if whole is not None:
        return whole.id
    if not ID_SHAPE.fullmatch(text):
        raise LakeError(
            f"the id of a key has 12 hexadecimal digits, got {len(text)} characters that are not",
            hint="`neve keys list` shows the ids",
        )
    return text


def _unknown(key_id: str) -> LakeError:
    return LakeError(f"there is no key with the id {key_id!r}", hint="`neve keys list` shows the ids")
