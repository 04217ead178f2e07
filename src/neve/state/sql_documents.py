"""Documents in the state store: one table on SQLite or PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, MetaData, Table, Text, delete, func, select, update
from sqlalchemy.dialects import sqlite

from neve.state.documents import PAGE, check_place, check_prefix, dump_document, find_prefix_end, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection, Row
    from sqlalchemy.dialects import postgresql

    from neve.state.store import StateStore

# By code point, which is SQLite's default, whatever the locale of the database is.
NAME_TYPE = Text().with_variant(Text(collation="C"), "postgresql")

DOCUMENTS = Table(
    "documents",
    MetaData(),
    Column("space", NAME_TYPE, primary_key=True),
    Column("key", NAME_TYPE, primary_key=True),
    Column("value", Text, nullable=False),
)


class SqlDocuments:
    """Documents in the state store."""

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Store a document and replace an existing one."""
        check_place(space, key)
        with self._state.writing(DOCUMENTS) as connection:
            statement = _insert(connection).values(space=space, key=key, value=dump_document(value))
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["space", "key"], set_={"value": statement.excluded.value}
                )
            )

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """Return a document, or None."""
        check_place(space, key)
        if not self._state.exists:
            return None
        with self._state.reading(DOCUMENTS) as connection:
            text = connection.scalar(select(DOCUMENTS.c.value).where(_match_key(space, key)))
        return None if text is None else load_document(text)

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the documents whose keys have a prefix, ordered by key."""
        check_prefix(space, prefix)
        return self._entries(space, prefix)

    def delete(self, space: str, key: str) -> None:
        """Delete a document, if it exists."""
        check_place(space, key)
        if self._state.exists:
            with self._state.writing(DOCUMENTS) as connection:
                connection.execute(delete(DOCUMENTS).where(_match_key(space, key)))

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Replace a document if it equals `expected`. Return whether it did."""
        if expected is None and value is None:
            return self.get(space, key) is None
        check_place(space, key)
        with self._state.writing(DOCUMENTS) as connection:
            if expected is None:
                return _add_document(connection, space, key, value or {})
            there = _match_key(space, key) & (DOCUMENTS.c.value == dump_document(expected))
            change = delete(DOCUMENTS) if value is None else update(DOCUMENTS).values(value=dump_document(value))
            return connection.execute(change.where(there)).rowcount == 1

    def now(self) -> datetime:
        """Return the time of the server's clock; for a file, of this machine, on which all its users run."""
        if self._state.engine.dialect.name == "sqlite":
            return datetime.now(UTC)
        with self._state.reading(DOCUMENTS) as connection:
            moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)

    def close(self) -> None:
        """Close the state store's connections."""
        self._state.close()

    def _entries(self, space: str, prefix: str) -> Iterator[tuple[str, dict[str, object]]]:
        end = find_prefix_end(prefix)
        within = (DOCUMENTS.c.space == space) & (DOCUMENTS.c.key >= prefix)
        if end is not None:
            within &= DOCUMENTS.c.key < end
        page = self._page(within)
        while page:
            for row in page:
                yield row.key, load_document(row.value)
            page = self._page(within & (DOCUMENTS.c.key > page[-1].key))

    def _page(self, within: ColumnElement[bool]) -> Sequence[Row[Any]]:
        """Read one page of documents. No connection is open while the caller processes it."""
        if not self._state.exists:
            return ()
        with self._state.reading(DOCUMENTS) as connection:
            return connection.execute(select(DOCUMENTS).where(within).order_by(DOCUMENTS.c.key).limit(PAGE)).all()


def _match_key(space: str, key: str) -> ColumnElement[bool]:
    return (DOCUMENTS.c.space == space) & (DOCUMENTS.c.key == key)


def _add_document(connection: Connection, space: str, key: str, value: Mapping[str, object]) -> bool:
    statement = _insert(connection).values(space=space, key=key, value=dump_document(value))
    added = connection.execute(statement.on_conflict_do_nothing().returning(DOCUMENTS.c.key))
    return added.first() is not None


def _insert(connection: Connection) -> postgresql.Insert | sqlite.Insert:
    if connection.dialect.name != "postgresql":
        return sqlite.insert(DOCUMENTS)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - a tenth of a CPU second, for those who use it

    return postgresql.insert(DOCUMENTS)
