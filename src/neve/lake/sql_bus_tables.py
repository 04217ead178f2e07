"""The bus's tables in the state store: what was published, how far each topic and each group is.

Positions grow by one with each message of a topic. A topic's row is locked from the moment when it gives out positions
until they are committed, so that what a reader sees of a topic never has a hole that is filled later.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import BigInteger, Column, MetaData, Table, Text, func, select
from sqlalchemy.dialects import postgresql, sqlite

from neve.lake.bus import Message
from neve.lake.bus_holds import NOBODY, Hold
from neve.lake.documents import load
from neve.lake.sql_documents import NAME
from neve.lake.state import Moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from sqlalchemy import ColumnElement, Connection, Row

    from neve.lake.state import State

_metadata = MetaData()
TOPICS = Table(
    "bus_topics",
    _metadata,
    Column("topic", NAME, primary_key=True),
    Column("last", BigInteger, nullable=False),
)
MESSAGES = Table(
    "bus_messages",
    _metadata,
    Column("topic", NAME, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("at", Moment, nullable=False),
)
HOLDS = Table(
    "bus_holds",
    _metadata,
    Column("group", NAME, primary_key=True),
    Column("topic", NAME, primary_key=True),
    Column("position", BigInteger, nullable=False),  # of the last message that the group has dealt with
    Column("owner", Text, nullable=False),
    Column("until", Moment, nullable=False),
)


class BusTables:
    """Connections to the store, with all three tables there."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._made = False

    @property
    def exists(self) -> bool:
        """Whether there is a store to look at."""
        return self._state.exists

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to look with."""
        self._make()
        with self._state.reading(MESSAGES) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is committed at its end."""
        self._make()
        with self._state.writing(MESSAGES) as connection:
            yield connection

    def close(self) -> None:
        """Close the state store's connections."""
        self._state.close()

    def _make(self) -> None:
        if not self._made:
            for table in (TOPICS, HOLDS):
                with self._state.reading(table):
                    pass
            self._made = True


def now_of(connection: Connection) -> datetime:
    """The server's clock; for a file, this machine's, on which all who share it run."""
    if connection.dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def insert_into(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insertion that can say what is to be done where the row is there already."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def ends_of(connection: Connection, topics: Sequence[str]) -> dict[str, int]:
    """The position of each topic's last message; topics that nobody has published to are left out."""
    rows = connection.execute(select(TOPICS).where(TOPICS.c.topic.in_(topics)))
    return {row.topic: row.last for row in rows}


def start_of(connection: Connection, topic: str) -> int | None:
    """The position of a topic's oldest message that is still there; none where there is none."""
    start: int | None = connection.scalar(select(func.min(MESSAGES.c.position)).where(MESSAGES.c.topic == topic))
    return start


def holds_of(connection: Connection, group: str, topics: Sequence[str]) -> dict[str, Hold]:
    """Who holds what for a group; topics that it has never read are left out."""
    rows = connection.execute(select(HOLDS).where((HOLDS.c.group == group) & HOLDS.c.topic.in_(topics)))
    return {row.topic: _hold(row) for row in rows}


def held_at(group: str, topic: str) -> ColumnElement[bool]:
    """The one row of a group and a topic."""
    return (HOLDS.c.group == group) & (HOLDS.c.topic == topic)


def locked(connection: Connection, group: str, topic: str, now: datetime) -> Hold:
    """Who holds a topic for a group, which stays so until the transaction ends."""
    new = {"group": group, "topic": topic, "position": 0, "owner": NOBODY, "until": now}
    connection.execute(insert_into(connection, HOLDS).values(new).on_conflict_do_nothing())
    return _hold(connection.execute(select(HOLDS).where(held_at(group, topic)).with_for_update()).one())


def messages_after(connection: Connection, topic: str, after: int, limit: int) -> list[Message]:
    """The messages of a topic that follow a position, at most so many."""
    following = (MESSAGES.c.topic == topic) & (MESSAGES.c.position > after)
    rows = connection.execute(select(MESSAGES).where(following).order_by(MESSAGES.c.position).limit(limit))
    return [Message(row.topic, row.key, load(row.value), str(row.position)) for row in rows]


def _hold(row: Row[Any]) -> Hold:
    return Hold(row.topic, row.position, row.owner, row.until)
