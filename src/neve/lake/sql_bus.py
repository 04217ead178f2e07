"""The bus in the state store: messages, and how far each group is, in tables on SQLite or PostgreSQL."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import insert

from neve.errors import LakeError
from neve.lake.bus_config import BusConfig
from neve.lake.bus_text import check_reading, packed
from neve.lake.sql_bus_reader import SqlReader
from neve.lake.sql_bus_tables import MESSAGES, TOPICS, BusTables, insert_into, now_of
from neve.lake.sql_bus_trim import trim

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from neve.lake.state import State

TIDY_SECONDS = 60.0  # between two looks for messages that nobody needs

log = structlog.get_logger(__name__)


class SqlBus:
    """The bus of a state store."""

    def __init__(self, state: State, config: BusConfig | None = None) -> None:
        self._config = config or BusConfig()
        self._tables = BusTables(state)
        self._tidying = threading.Lock()
        self._tidy_at = 0.0

    def publish(self, topic: str, messages: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        """Append messages in one transaction: all of them, or none."""
        texts = packed(topic, messages)
        if not texts:
            return
        with self._tables.writing() as connection:
            first = _positions(connection, topic, len(texts))
            at = now_of(connection)
            rows = [
                {"topic": topic, "position": first + place, "key": key, "value": value, "at": at}
                for place, (key, value) in enumerate(texts)
            ]
            connection.execute(insert(MESSAGES), rows)
        self._tidy()

    def reader(self, group: str, topics: Sequence[str]) -> SqlReader:
        """A reader of some topics; it holds none before it takes for the first time."""
        check_reading(group, topics)
        return SqlReader(self._tables, group, topics, self._config.hold_seconds)

    def close(self) -> None:
        """Close the state store's connections."""
        self._tables.close()

    def _tidy(self) -> None:
        """Remove what nobody needs, in passing: what was published is durable, whatever comes of this."""
        if time.monotonic() < self._tidy_at or not self._tidying.acquire(blocking=False):
            return
        try:
            self._tidy_at = time.monotonic() + TIDY_SECONDS
            trim(self._tables, self._config.keep_seconds)
        except LakeError as error:
            log.warning("old messages not removed", error=error.message)
        finally:
            self._tidying.release()


def _positions(connection: Connection, topic: str, count: int) -> int:
    """The first of so many new positions; others that publish to the topic wait until this transaction ends."""
    statement = insert_into(connection, TOPICS).values(topic=topic, last=count)
    grown = statement.on_conflict_do_update(index_elements=["topic"], set_={"last": TOPICS.c.last + count})
    last: int = connection.execute(grown.returning(TOPICS.c.last)).scalar_one()
    return last - count + 1
