"""Sessions of browsers: tokens that stand for keys, and end with them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.state.config import StateConfig
from neve.state.keys import Keys
from neve.state.sessions import MAX_KEYS, SPACE, TOKEN_PREFIX, Sessions, hash_token
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

IDLE = timedelta(hours=12)


class Clocked(SqlDocuments):
    """Documents whose clock a test sets."""

    time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the time of the test."""
        return self.time


@pytest.fixture
def state(tmp_path: Path) -> StateStore:
    """A store of its own."""
    return StateStore(StateConfig(path=str(tmp_path / "state.db")))


def test_a_token_stands_for_its_key_until_that_is_revoked(state: StateStore) -> None:
    """The store holds a hash; the caller of a token is the caller of the active key."""
    keys, documents = Keys(state), Clocked(state)
    sessions = Sessions(documents, keys, IDLE)
    key, text = keys.create("acme")
    token = sessions.start([key.id], key.id)
    assert sessions.verify(token) == sessions.verify(text) == keys.verify(text)
    stored = dict(documents.entries(SPACE))
    assert list(stored) == [hash_token(token)]
    assert token not in str(stored)
    keys.revoke(key.id)
    assert sessions.verify(token) is None


def test_an_idle_session_ends_and_a_used_one_does_not(state: StateStore) -> None:
    """Use is noted every few minutes; an idle session is deleted when others begin."""
    keys, documents = Keys(state), Clocked(state)
    sessions = Sessions(documents, keys, IDLE)
    key, _text = keys.create("acme")
    used, idle = (sessions.start([key.id], key.id) for _ in range(2))
    for _ in range(3):
        documents.time += IDLE / 2
        assert sessions.verify(used) is not None
    assert sessions.verify(idle) is None
    sessions.start([key.id], key.id)
    assert hash_token(idle) not in dict(documents.entries(SPACE))


@pytest.mark.parametrize("text", ["", TOKEN_PREFIX, f"{TOKEN_PREFIX}guess", "neve_0123456789ab_x", "\0"])
def test_any_other_text_is_no_session(state: StateStore, text: str) -> None:
    """Unknown tokens and other texts have no caller."""
    sessions = Sessions(Clocked(state), Keys(state), IDLE)
    assert sessions.verify(text) is None
    assert sessions.find(text) is None


def test_a_browser_holds_a_limited_number_of_keys(state: StateStore) -> None:
    """The newest stay, each once; revoked ones have no caller."""
    keys = Keys(state)
    sessions = Sessions(Clocked(state), keys, IDLE)
    made = [keys.create(f"org{number}")[0].id for number in range(3)]
    token = sessions.start(["x"] * 30 + [f"{n:012x}" for n in range(30)] + made, made[0])
    session = sessions.find(token)
    assert session is not None
    assert len(session.keys) == MAX_KEYS
    assert [caller.organization for caller in sessions.callers(session)] == ["org0", "org1", "org2"]
    sessions.end(token)
    assert sessions.find(token) is None
