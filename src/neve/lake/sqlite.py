"""SQLite for several threads and processes: readers that never wait, writers that wait for each other."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

BUSY_SECONDS = 30
PAUSE_SECONDS = 0.05
IMMEDIATELY = {"neve_begin": "BEGIN IMMEDIATE"}  # the option of a transaction that writes


def tune(engine: Engine) -> Engine:
    """The engine, whose connections wait for a lock and whose transactions begin when SQLAlchemy says so."""
    event.listen(engine, "connect", _connected)
    event.listen(engine, "begin", _begin)
    return engine


def _connected(connection: sqlite3.Connection, _record: Any) -> None:
    # Python's driver would begin transactions by itself, and late: at the first change, when a lock that another
    # writer took since the first look can't be waited for.
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
    _write_ahead(connection)


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("neve_begin", "BEGIN"))


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Let readers and a writer work at the same time. The file remembers it.

    The change needs the file for itself, and where another one writes SQLite does not wait for that, whatever the
    timeout is.
    """
    until = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return  # a file system without shared memory keeps its old mode, which works too
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(PAUSE_SECONDS)
