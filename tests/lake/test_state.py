"""The state store's address and its errors, which hold no secret; and how its file is kept."""

from __future__ import annotations

import sqlite3
import stat
import threading
from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr
from sqlalchemy import Column, Integer, MetaData, Table, insert, select, text

from neve.errors import ConfigError, LakeError
from neve.state.config import StateConfig, parse_state_url
from neve.state.store import StateStore

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2"  # noqa: S105 - a secret that is not one
NOTES = Table("notes", MetaData(), Column("id", Integer, primary_key=True))


def test_the_address_is_made_of_its_parts() -> None:
    """A password with every mark of an address in it stays a password."""
    password = "a@b:c/d?e#f%20"  # noqa: S105 - not one either
    address = parse_state_url(
        StateConfig(url="postgresql://db:5433/neve?sslmode=require", user="u@x", password=SecretStr(password))
    )
    assert (address.drivername, address.host, address.port) == ("postgresql+psycopg2", "db", 5433)
    assert (address.username, address.password, address.database) == ("u@x", password, "neve")
    assert dict(address.query) == {"sslmode": "require"}


def test_a_file_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of the lake, from where the command is run."""
    monkeypatch.chdir(tmp_path)
    assert parse_state_url(StateConfig()).database == str(tmp_path / "lake" / "state.db")
    assert StateConfig().display_address == "sqlite lake/state.db"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@db/neve",
        f"postgresql://u:{SECRET}/x@db/neve",
        f"postgresql://u:{SECRET}#x@db/neve",
        f"u:{SECRET}@db/neve",
        f"postgresql://db/neve?password={SECRET}",
        f"postgresql://db/neve?{SECRET}",
        f"postgresql://[{SECRET}/neve",
        "postgresql:///neve",
        "postgresql://db:port/neve",
        "mysql://db/neve",
        "db",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url: str) -> None:
    """With the keys that a login has."""
    config = StateConfig(url=url)
    with pytest.raises(ConfigError, match=r"state\.url is .+, expected postgresql://host:port/database") as caught:
        parse_state_url(config)
    assert SECRET not in str(caught.value)
    assert SECRET not in config.display_address
    assert "state.password" in str(caught.value)


def test_a_server_that_does_not_answer_is_said_without_secrets() -> None:
    """Which store it was, and what the driver says."""
    state = StateStore(StateConfig(url="postgresql://127.0.0.1:9/neve", user="neve", password=SecretStr(SECRET)))
    for use in (state.ping, lambda: state.reading(NOTES).__enter__()):
        with pytest.raises(LakeError, match=r"the state store \(postgresql://127.0.0.1:9/neve\) failed") as caught:
            use()
        assert SECRET not in str(caught.value)
        assert caught.value.hint == "run `neve doctor` to see what is reachable"


def test_a_statement_that_fails_is_said_in_one_line(tmp_path: Path) -> None:
    """Without its parameters, which may be secret."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    with pytest.raises(LakeError) as caught, state.writing(NOTES) as connection:
        connection.execute(text("SELECT :secret FROM nowhere"), {"secret": SECRET})
    assert caught.value.message.endswith("failed: OperationalError: no such table: nowhere")
    assert SECRET not in str(caught.value.__cause__)


def test_a_file_that_is_no_database_is_said(tmp_path: Path) -> None:
    """It is left as it is."""
    path = tmp_path / "state.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(LakeError, match="file is not a database"):
        StateStore(StateConfig(path=str(path))).ping()
    assert path.read_bytes() == b"this is no database" * 100


def test_the_file_is_its_owners_and_lets_readers_read(tmp_path: Path) -> None:
    """Nobody else may open it; a reader sees the last state while a writer is at work."""
    path = tmp_path / "state.db"
    state = StateStore(StateConfig(path=str(path)))
    with state.writing(NOTES) as writer:
        writer.execute(insert(NOTES).values(id=1))
        with state.reading(NOTES) as reader:
            assert reader.execute(select(NOTES)).all() == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    state.close()


def test_a_new_file_that_another_one_writes_to_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself would refuse the change of the journal at once."""
    path = tmp_path / "state.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("CREATE TABLE theirs (id)")
    other.execute("BEGIN IMMEDIATE")
    threading.Timer(0.3, lambda: other.execute("COMMIT")).start()
    state = StateStore(StateConfig(path=str(path)))
    state.ping()
    other.execute("SELECT * FROM theirs")  # a connection learns of the new journal when it next reads
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    state.close()


def test_a_store_that_was_closed_opens_again(tmp_path: Path) -> None:
    """Closing one that was never opened does nothing."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    state.close()
    for number in (1, 2):
        with state.writing(NOTES) as connection:
            connection.execute(insert(NOTES).values(id=number))
        state.close()
    with state.reading(NOTES) as connection:
        assert connection.execute(select(NOTES.c.id)).scalars().all() == [1, 2]
    state.close()
