"""What API keys do, whichever store keeps them."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg2
import pytest
from sqlalchemy import Column, MetaData, Table, insert, inspect, select, update

from neve.errors import ConfigError, LakeError
from neve.state import keys as module
from neve.state.config import StateConfig
from neve.state.keys import ADDED_COLUMNS, KEYS, Key, Keys, generate_key, hash_secret
from neve.state.scopes import ALL_SCOPES, Caller, Scope
from neve.state.store import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.parts.postgres import Postgres

_numbers = itertools.count()
CREATE = """
import json
import sys
from neve.state.keys import Keys
from neve.state.store import StateStore
from neve.state.config import StateConfig
print(Keys(StateStore(StateConfig(**json.loads(sys.argv[1])))).create("acme")[0].id)
"""


def sqlite(folder: Path) -> StateConfig:
    """The embedded default."""
    return StateConfig(path=str(folder / "deep" / "state.db"))


def postgres(part: Postgres) -> StateConfig:
    """A database of its own on a PostgreSQL server."""
    database = f"state{next(_numbers)}"
    connection = psycopg2.connect(host=part.host, port=part.port, user=part.user, dbname="postgres")
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{database}"')
    connection.close()
    return StateConfig(url=f"postgresql://{part.host}:{part.port}/{database}", user=part.user)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.parts)])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> StateConfig:
    """A store that nobody has used yet."""
    return sqlite(tmp_path) if request.param == "sqlite" else postgres(request.getfixturevalue("postgres"))


@pytest.fixture
def state(config: StateConfig) -> Iterator[StateStore]:
    """The store, closed at the end."""
    opened = StateStore(config)
    yield opened
    opened.close()


@pytest.fixture
def keys(state: StateStore) -> Keys:
    """Its keys."""
    return Keys(state)


def speaks_for(keys: Keys, text: str) -> str | None:
    """The organization of a key."""
    caller = keys.verify(text)
    return caller.organization if caller else None


def before_scopes(state: StateStore) -> tuple[str, str]:
    """Make the table and a key as the release before scopes did: the key's id and text."""
    made = generate_key()
    later = {column.name for column in ADDED_COLUMNS}
    columns = [
        Column(column.name, column.type, primary_key=column.primary_key)
        for column in KEYS.c
        if column.name not in later
    ]
    old = Table(KEYS.name, MetaData(), *columns)
    row = {"id": made.id, "secret_sha256": hash_secret(made.secret), "organization_id": "acme", "name": "old"}
    with state.writing(old) as connection:
        connection.execute(insert(old).values(**row, created_at=datetime.now(UTC)))
    return made.id, made.text


def test_a_key_speaks_for_its_organization(keys: Keys) -> None:
    """As text and as bytes, and for no other."""
    acme, acme_text = keys.create("acme", "collector")
    _, other_text = keys.create("other")
    assert acme_text.startswith(f"neve_{acme.id}_")
    assert keys.verify(acme_text) == keys.verify(acme_text.encode()) == Caller("acme", acme.id)
    assert speaks_for(keys, other_text) == "other"


def test_the_secret_is_not_in_the_store(keys: Keys, state: StateStore) -> None:
    """Nor is it in what is known of the key."""
    key, text = keys.create("acme", "collector")
    secret = text.rsplit("_", 1)[1]
    with state.reading(KEYS) as connection:
        rows = connection.execute(select(KEYS)).all()
    assert len(rows) == 1
    assert secret not in repr(rows)
    assert secret not in repr(key)


def test_what_is_no_key_lets_nobody_in(keys: Keys) -> None:
    """The right id with another secret, an id that nobody has, and no key at all."""
    key, text = keys.create("acme")
    stranger = generate_key()
    assert keys.verify(f"neve_{key.id}_{stranger.secret}") is None
    assert keys.verify(stranger.text) is None
    for garbage in ("", "neve__", key.id, text.upper(), text + "\n", text[:-1], b"\xff" * 1000, "\0", "é" * 63):
        assert keys.verify(garbage) is None


def test_keys_are_listed_the_oldest_first(keys: Keys) -> None:
    """Of one organization, or of all; times have their zone."""
    before = datetime.now(UTC)
    made = [keys.create("acme", "a")[0], keys.create("other", "b")[0], keys.create("acme", "c")[0]]
    assert keys.list() == tuple(made)
    assert keys.list("acme") == (made[0], made[2])
    assert keys.list("nobody") == ()
    assert before <= made[0].created_at <= datetime.now(UTC)


def test_a_revoked_key_lets_nobody_in(keys: Keys) -> None:
    """It stays in the list; the second time it is said that it was revoked, and when."""
    key, text = keys.create("acme")
    _, kept = keys.create("acme")
    ended, was_alive = keys.revoke(key.id)
    assert was_alive
    assert ended.revoked_at is not None
    assert keys.verify(text) is None
    assert speaks_for(keys, kept) == "acme"
    assert keys.revoke(key.id) == (ended, False)
    assert keys.list()[0] == ended


def test_a_key_can_be_revoked_by_its_whole_text(keys: Keys) -> None:
    """Someone who has only that."""
    _, text = keys.create("acme")
    assert keys.revoke(text)[1]
    assert keys.verify(text) is None


def test_an_unknown_id_is_said(keys: Keys) -> None:
    """With where the ids are; before there is a store, too."""
    for _ in range(2):
        with pytest.raises(LakeError, match="there is no key with the id '0123456789ab'") as caught:
            keys.revoke("0123456789ab")
        assert caught.value.hint == "`neve keys list` shows the ids"
        keys.create("acme")


def test_what_is_no_id_is_not_repeated(keys: Keys) -> None:
    """It may be most of a key."""
    _, text = keys.create("acme")
    with pytest.raises(LakeError) as caught:
        keys.revoke(text[:-1])
    assert text.rsplit("_", 1)[1][:8] not in str(caught.value)


@pytest.mark.parametrize(("organization", "name"), [("a/b", ""), ("", ""), ("acme", "a\nb"), ("acme", "x" * 101)])
def test_bad_names_are_refused(keys: Keys, organization: str, name: str) -> None:
    """Before anything is stored."""
    with pytest.raises(ConfigError):
        keys.create(organization, name)
    assert keys.list() == ()


def test_the_last_use_is_known_to_the_hour(keys: Keys, state: StateStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written at the first use, and again when that was a while ago."""
    key, text = keys.create("acme")

    def last_used() -> datetime | None:
        return keys.list()[0].last_used_at

    keys.verify(f"neve_{key.id}_{generate_key().secret}")
    assert last_used() is None
    keys.verify(text)
    first = last_used()
    assert first is not None
    Keys(state).verify(text)
    assert last_used() == first
    with state.writing(KEYS) as connection:
        connection.execute(update(KEYS).values(last_used_at=first - timedelta(hours=2)))
    Keys(state).verify(text)
    assert (last_used() or first) > first
    monkeypatch.setattr(module, "USED_EVERY", timedelta(0))
    keys.verify(text)
    assert (last_used() or first) > first


def test_looking_makes_nothing(keys: Keys, state: StateStore, config: StateConfig) -> None:
    """Where there is no file yet, a list is empty and a key is wrong; a server's table is made."""
    assert keys.list() == ()
    assert keys.verify(generate_key().text) is None
    assert config.file is None or not config.file.exists()
    assert state.exists == (config.file is None)


def test_a_store_keeps_its_keys(config: StateConfig) -> None:
    """Another process, later, finds what this one made, and makes the table only once."""
    first = StateStore(config)
    key, text = Keys(first).create("acme")
    first.close()
    second = StateStore(config)
    assert speaks_for(Keys(second), text) == "acme"
    assert [found.id for found in Keys(second).list()] == [key.id]
    assert inspect(second.engine).get_table_names() == [KEYS.name]
    second.close()


def test_threads_that_come_first_together_agree(config: StateConfig) -> None:
    """Each with a store of its own: the table is made once and no key is lost."""
    made: list[Key] = []
    start = threading.Barrier(8)

    def create() -> None:
        state = StateStore(config)
        start.wait()
        made.extend(Keys(state).create("acme")[0] for _ in range(5))
        state.close()

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    state = StateStore(config)
    assert {key.id for key in Keys(state).list()} == {key.id for key in made}
    assert len(made) == 40
    state.close()


@pytest.mark.slow
def test_processes_that_come_first_together_agree(config: StateConfig, keys: Keys) -> None:
    """As threads do."""
    command = [sys.executable, "-c", CREATE, config.model_dump_json(exclude={"password"})]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    ids = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert {key.id for key in keys.list()} == ids


def test_a_change_that_fails_is_taken_back(keys: Keys, state: StateStore) -> None:
    """A transaction is kept as a whole or not at all, and the next one works."""
    keys.create("acme")
    with pytest.raises(ZeroDivisionError), state.writing(KEYS) as connection:
        connection.execute(update(KEYS).values(organization_id="other")).rowcount // 0
    assert [key.organization for key in keys.list()] == ["acme"]
    keys.create("acme")


@pytest.mark.parametrize("scopes", [(Scope.WRITE,), (Scope.READ,), (Scope.READ, Scope.WRITE), (Scope.READ,) * 2])
def test_a_key_has_the_scopes_that_it_was_made_with(keys: Keys, scopes: tuple[Scope, ...]) -> None:
    """Each once, in the same order everywhere; both where nothing is said."""
    expected = tuple(scope for scope in ALL_SCOPES if scope in scopes)
    key, text = keys.create("acme", "n", scopes)
    plain, _ = keys.create("acme")
    assert (key.scopes, plain.scopes) == (expected, (Scope.WRITE, Scope.READ))
    assert keys.list() == (key, plain)
    assert keys.verify(text) == Caller("acme", key.id, expected)
    assert keys.revoke(key.id)[0].scopes == expected


def test_a_key_without_scopes_is_refused(keys: Keys) -> None:
    """It would be good for nothing."""
    with pytest.raises(ConfigError, match="a key has no scopes, expected one or more of write, read"):
        keys.create("acme", "", ())
    assert keys.list() == ()


def test_keys_of_an_older_release_can_write_and_no_more(config: StateConfig) -> None:
    """What they could do; the column is added by whoever comes first, and new keys stand beside the old."""
    older = StateStore(config)
    key_id, text = before_scopes(older)
    older.close()
    state = StateStore(config)
    keys = Keys(state)
    assert keys.verify(text) == Caller("acme", key_id, (Scope.WRITE,))
    new, new_text = keys.create("acme")
    assert [(key.id, key.scopes) for key in keys.list()] == [(key_id, (Scope.WRITE,)), (new.id, ALL_SCOPES)]
    assert Keys(state).verify(new_text) == Caller("acme", new.id)
    assert Keys(state).revoke(key_id)[1]
    state.close()


def test_a_key_knows_when_it_expires(keys: Keys) -> None:
    """Whoever checks it is told; a key that has expired is known, so that its owner hears why it is refused."""
    now = datetime.now(UTC)
    for end in (now + timedelta(days=90), now - timedelta(seconds=1)):
        key, text = keys.create("acme", "short-lived", expires_at=end)
        caller = keys.verify(text)
        assert caller is not None
        assert caller.expires_at == key.expires_at == end
    assert [key.expires_at is not None and key.last_used_at is not None for key in keys.list()] == [True, False]
    assert keys.create("acme")[0].expires_at is None


def test_the_column_is_added_once_however_many_come(config: StateConfig) -> None:
    """Stores that open an older table at the same time all find it whole."""
    older = StateStore(config)
    _, text = before_scopes(older)
    start, found = threading.Barrier(8), []

    def look() -> None:
        state = StateStore(config)
        start.wait()
        found.append(Keys(state).verify(text))
        state.close()

    threads = [threading.Thread(target=look) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {caller.scopes for caller in found if caller} == {(Scope.WRITE,)}
    assert len(found) == 8
    assert [column["name"] for column in inspect(older.engine).get_columns(KEYS.name)].count("scopes") == 1
    older.close()


def test_a_release_without_scopes_works_beside_this_one(config: StateConfig, keys: Keys) -> None:
    """Keys that it makes can write."""
    keys.create("acme")
    older = StateStore(config)
    key_id, text = before_scopes(older)
    older.close()
    assert keys.verify(text) == Caller("acme", key_id, (Scope.WRITE,))
