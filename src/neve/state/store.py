"""State store: small tables that several processes share, on SQLite or PostgreSQL.

Each concern declares its table in its own module, and the table is created when a connection is first requested. On
SQLite, readers never wait, and writers wait for each other.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import DateTime, Dialect, Engine, Table, TypeDecorator, create_engine, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from neve.errors import LakeError
from neve.state.config import StateConfig, parse_state_url
from neve.state.sqlite_documents import BUSY_SECONDS, enable_wal, make_state_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from sqlite3 import Connection as SqliteConnection

    from sqlalchemy import Connection


BEGIN_IMMEDIATE = {"neve_begin": "BEGIN IMMEDIATE"}  # the option of a transaction that writes


def tune_sqlite(engine: Engine) -> Engine:
    """Configure an engine for SQLite: connections wait for locks, and SQLAlchemy begins the transactions."""
    event.listen(engine, "connect", _on_connect)
    event.listen(engine, "begin", _on_begin)
    return engine


def _on_connect(connection: SqliteConnection, _record: Any) -> None:
    # Python's driver would begin transactions by itself, at the first change. That is too late: SQLite does not wait
    # for a lock that another writer acquired since the first read.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    enable_wal(connection)


def _on_begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("neve_begin", "BEGIN"))


# A server that disappears without closing its connections is detected within half a minute. The default of the system
# is much longer.
CONNECT_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
# An arbitrary number that other programs are unlikely to lock in the same database.
CREATE_LOCK = 0x6E657665


class UtcDateTime(TypeDecorator[datetime]):
    """A time with its zone. SQLite stores no zone, so it stores and returns UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Convert a value for the store."""
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """Convert a value from the store."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class StateStore:
    """Owner of the database engine. It opens at the first use. Threads may share it, processes may not."""

    def __init__(self, config: StateConfig) -> None:
        self._config = config
        self._made: set[str] = set()
        self._making = threading.Lock()

    @property
    def exists(self) -> bool:
        """Return whether the store exists. A server is assumed to exist until it does not respond."""
        return self._config.file is None or self._config.file.exists()

    @cached_property
    def engine(self) -> Engine:
        """The engine, with its pool of connections."""
        address = parse_state_url(self._config)
        if self._config.file is not None:
            return tune_sqlite(create_engine(address, hide_parameters=True))
        # A restart of the server must not fail a request.
        return create_engine(address, hide_parameters=True, pool_pre_ping=True, connect_args=CONNECT_OPTIONS)

    @contextmanager
    def reading(self, table: Table) -> Iterator[Connection]:
        """Open a connection to read a table. Raises `LakeError` if the store fails."""
        with self._wrap_errors():
            self._make(table)
            with self.engine.connect() as connection:
                yield connection

    @contextmanager
    def writing(self, table: Table) -> Iterator[Connection]:
        """Open a transaction that is committed at the end of the block. Raises `LakeError` if the store fails."""
        with self._wrap_errors():
            self._make(table)
            with self._writer() as connection:
                yield connection

    def ping(self) -> None:
        """Check that the store responds. Raises `LakeError` if it does not."""
        with self._wrap_errors(), self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close every connection."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    def _writer(self) -> AbstractContextManager[Connection]:
        return self.engine.execution_options(**BEGIN_IMMEDIATE).begin()

    def _make(self, table: Table) -> None:
        """Create a table if it is missing: once per process, and safe against concurrent creation."""
        with self._making:
            if table.name in self._made:
                return
            self._make_file()
            with self._writer() as connection:
                if connection.dialect.name == "postgresql":
                    # IF NOT EXISTS does not prevent two sessions from creating the same table at the same time.
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": CREATE_LOCK})
                connection.execute(CreateTable(table, if_not_exists=True))
            self._made.add(table.name)

    def _make_file(self) -> None:
        file = self._config.file
        if file is not None:
            make_state_file(file)

    @contextmanager
    def _wrap_errors(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            # Only the first line of the driver's message: the rest contains the statement.
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            reason = (str(cause).splitlines() or [""])[0]
            raise LakeError(
                f"the state store ({self._config.display_address}) failed: {type(cause).__name__}: {reason}",
                hint="run `neve doctor` to see what is reachable",
            ) from error
