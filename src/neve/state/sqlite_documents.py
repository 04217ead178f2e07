"""Documents in the SQLite file of the state store, through Python's own driver.

Most commands read a few documents. SQLAlchemy, which `store.py` needs for two databases, takes longer to import than
those reads. The table is the one of `sql_documents.py`.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from neve.errors import LakeError
from neve.local_folders import make_private_folder, warn_network_file_system
from neve.state.documents import PAGE, check_place, check_prefix, dump_document, find_prefix_end, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neve.state.config import StateConfig

BUSY_SECONDS = 30
RETRY_SECONDS = 0.05
IS_CREATED = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'documents'"
CREATE = """
CREATE TABLE IF NOT EXISTS documents (
    space TEXT NOT NULL, "key" TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY (space, "key")
)"""
PUT = "INSERT INTO documents VALUES (?, ?, ?) ON CONFLICT (space, key) DO UPDATE SET value = excluded.value"
ADD = "INSERT INTO documents VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
GET = "SELECT value FROM documents WHERE space = ? AND key = ?"
REPLACE = "UPDATE documents SET value = ? WHERE space = ? AND key = ? AND value = ?"
REMOVE = "DELETE FROM documents WHERE space = ? AND key = ? AND value = ?"
DELETE = "DELETE FROM documents WHERE space = ? AND key = ?"
PAGE_AFTER = """
SELECT key, value FROM documents WHERE space = ? AND key > ? AND (? IS NULL OR key < ?) ORDER BY key LIMIT ?"""
PAGE_FROM = PAGE_AFTER.replace("key > ?", "key >= ?", 1)


def make_state_file(file: Path) -> None:
    """Create the file of the store and its folder, if they are missing. Both are private: keys grant access."""
    make_private_folder(file.parent)
    warn_network_file_system(file, "state.path")
    file.touch(mode=0o600)


def enable_wal(connection: sqlite3.Connection) -> None:
    """Enable the write-ahead log, so that readers and a writer work at the same time. The file keeps the mode.

    The change needs an exclusive lock. SQLite does not wait for it while another connection writes, whatever the
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
            time.sleep(RETRY_SECONDS)


def open_state_file(config: StateConfig) -> SqliteDocuments:
    """Return the documents in the configured file."""
    return SqliteDocuments(Path(config.path).expanduser().resolve(), config.display_address)


class SqliteDocuments:
    """Documents in a file. Threads may share it: each call has a connection of its own."""

    def __init__(self, file: Path, shown: str) -> None:
        self._file = file
        self._shown = shown  # for messages
        self._idle: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def put(self, space: str, key: str, value: Mapping[str, object]) -> None:
        """Store a document and replace an existing one."""
        check_place(space, key)
        self._write(PUT, space, key, dump_document(value))

    def get(self, space: str, key: str) -> dict[str, object] | None:
        """Return a document, or None."""
        check_place(space, key)
        found = self._read(GET, space, key)
        return load_document(found[0][0]) if found else None

    def entries(self, space: str, prefix: str = "") -> Iterator[tuple[str, dict[str, object]]]:
        """Yield the documents whose keys have a prefix, ordered by key."""
        check_prefix(space, prefix)
        return self._entries(space, prefix)

    def delete(self, space: str, key: str) -> None:
        """Delete a document, if it exists."""
        check_place(space, key)
        if self._file.exists():
            self._write(DELETE, space, key)

    def swap(
        self, space: str, key: str, expected: Mapping[str, object] | None, value: Mapping[str, object] | None
    ) -> bool:
        """Replace a document if it equals `expected`. Return whether it did."""
        if expected is None and value is None:
            return self.get(space, key) is None
        check_place(space, key)
        if expected is None:
            return self._write(ADD, space, key, dump_document(value or {})) == 1
        if value is None:
            return self._write(REMOVE, space, key, dump_document(expected)) == 1
        return self._write(REPLACE, dump_document(value), space, key, dump_document(expected)) == 1

    def now(self) -> datetime:
        """Return the time of this machine, on which all users of the file run."""
        return datetime.now(UTC)

    def ping(self) -> None:
        """Check that the store responds. Raises `LakeError` if it does not."""
        with self._connection():
            pass

    def close(self) -> None:
        """Close the connections that are not in use."""
        with self._lock:
            closing, self._idle = self._idle, []
        for connection in closing:
            connection.close()

    def _entries(self, space: str, prefix: str) -> Iterator[tuple[str, dict[str, object]]]:
        end = find_prefix_end(prefix)
        page = self._read(PAGE_FROM, space, prefix, end, end, PAGE)
        while page:
            for key, text in page:
                yield key, load_document(text)
            page = self._read(PAGE_AFTER, space, page[-1][0], end, end, PAGE)

    def _read(self, statement: str, *values: object) -> list[tuple[str, ...]]:
        if not self._file.exists():
            return []
        with self._connection() as connection:
            return connection.execute(statement, values).fetchall()

    def _write(self, statement: str, *values: object) -> int:
        """Run a statement in a transaction that waits for other writers. Return the number of changed rows."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            changed = connection.execute(statement, values).rowcount
            connection.execute("COMMIT")
            return changed

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection; one that failed is closed, which rolls its transaction back."""
        try:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            connection = idle or self._open()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            words = (str(error).splitlines() or [""])[0]
            raise LakeError(
                f"the state store ({self._shown}) failed: {type(error).__name__}: {words}",
                hint="`neve doctor` checks the connections",
            ) from error
        with self._lock:
            self._idle.append(connection)

    def _open(self) -> sqlite3.Connection:
        make_state_file(self._file)
        # Without an isolation level, the driver begins no transaction by itself.
        connection = sqlite3.connect(self._file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            enable_wal(connection)
            if connection.execute(IS_CREATED).fetchone() is None:
                connection.execute(CREATE)
        except BaseException:
            connection.close()
            raise
        return connection
