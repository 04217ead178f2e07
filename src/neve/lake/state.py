"""The state store: the small tables that several processes share, on SQLite or PostgreSQL.

Each concern declares its own table in its own module, asks `State` for a connection, and has its table made then.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlalchemy import DateTime, Dialect, Engine, Table, TypeDecorator, create_engine, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateTable

from neve.errors import LakeError
from neve.lake.mounts import warn_of_network
from neve.lake.private_folders import make_private
from neve.lake.sqlite import IMMEDIATELY, tune
from neve.lake.state_config import StateConfig, address_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

# A server that is gone without a word is noticed within half a minute; the system itself would wait for much longer.
PATIENCE: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,  # milliseconds
}
# Any number that no other program is likely to lock with in the same database.
CREATE_LOCK = 0x6E657665


class Moment(TypeDecorator[datetime]):
    """A time with its zone; SQLite, which keeps none, gets and gives UTC."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """To the store."""
        return value.astimezone(UTC) if value else None

    def process_result_value(self, value: datetime | None, _dialect: Dialect) -> datetime | None:
        """From the store."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class State:
    """The owner of the engine; nothing is opened before it is used. Threads may share it, processes may not."""

    def __init__(self, config: StateConfig) -> None:
        self._config = config
        self._made: set[str] = set()
        self._making = threading.Lock()

    @property
    def exists(self) -> bool:
        """Whether there is a store to look at; a server is taken to be there until it does not answer."""
        return self._config.file is None or self._config.file.exists()

    @cached_property
    def engine(self) -> Engine:
        """The connections to the store."""
        address = address_of(self._config)
        if self._config.file is not None:
            return tune(create_engine(address, hide_parameters=True))
        # A server that was started anew must not cost a request its answer.
        return create_engine(address, hide_parameters=True, pool_pre_ping=True, connect_args=PATIENCE)

    @contextmanager
    def reading(self, table: Table) -> Iterator[Connection]:
        """A connection to look at a table with; raises `LakeError` when the store refuses."""
        with self._explained():
            self._make(table)
            with self.engine.connect() as connection:
                yield connection

    @contextmanager
    def writing(self, table: Table) -> Iterator[Connection]:
        """A transaction that is committed at its end; raises `LakeError` when the store refuses."""
        with self._explained():
            self._make(table)
            with self._writer() as connection:
                yield connection

    def ping(self) -> None:
        """Ask the store for an answer; raises `LakeError` when there is none."""
        with self._explained(), self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close every connection."""
        if "engine" in self.__dict__:
            self.engine.dispose()

    def _writer(self) -> AbstractContextManager[Connection]:
        return self.engine.execution_options(**IMMEDIATELY).begin()

    def _make(self, table: Table) -> None:
        """Create a table where it is not there; once for each process, and safe against others that do the same."""
        with self._making:
            if table.name in self._made:
                return
            self._make_file()
            with self._writer() as connection:
                if connection.dialect.name == "postgresql":
                    # IF NOT EXISTS does not keep two sessions from creating the same table at the same time.
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": CREATE_LOCK})
                connection.execute(CreateTable(table, if_not_exists=True))
            self._made.add(table.name)

    def _make_file(self) -> None:
        file = self._config.file
        if file is not None:
            make_private(file.parent)
            warn_of_network(file, "state.path")
            file.touch(mode=0o600)  # what is in it lets people in

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            # Only the driver's own first line: the rest holds the statement.
            cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
            words = (str(cause).splitlines() or [""])[0]
            raise LakeError(
                f"the state store ({self._config.shown}) failed: {type(cause).__name__}: {words}",
                hint="`neve doctor` says what is reachable",
            ) from error
