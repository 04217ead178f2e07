"""Statements on DuckDB: one instance for each limit of memory, confined to the lake's files."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import duckdb

from neve.lake.duck import confine, connect, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig

DUCKDB = "duckdb"
INTERRUPTED = "Query interrupted"  # what DuckDB makes of a Ctrl-C that it meets in the main thread
SETTINGS = (
    "TimeZone = 'UTC'",
    "parquet_metadata_cache = true",
    "python_enable_replacements = false",  # names of Python's variables are no tables
)


class DuckRun:
    """One statement that runs."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, sql: str) -> None:
        self._connection = connection
        self._sql = sql

    def begin(self) -> None:
        """Start it; blocks until there are rows, or nothing more to wait for."""
        with self._interruptions():
            self._reader = self._connection.execute(self._sql).to_arrow_reader()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""
        with self._interruptions():
            yield from self._reader

    def interrupt(self) -> None:
        """End it, from any thread; it may have ended by itself just now."""
        with suppress(duckdb.ConnectionException):
            self._connection.interrupt()

    def close(self) -> None:
        """Give back what it holds; what still runs is ended first, or this would wait for it."""
        self.interrupt()
        self._connection.close()

    @contextmanager
    def _interruptions(self) -> Iterator[None]:
        """A Ctrl-C that DuckDB took stays one."""
        try:
            yield
        except RuntimeError as error:
            if INTERRUPTED not in str(error):
                raise
            self.close()
            raise KeyboardInterrupt from error


class DuckEngine:
    """Footers of Parquet files and, where they are far away, their bytes are kept between statements."""

    def __init__(self, lake: Lake, config: QueryConfig) -> None:
        self._lake = lake
        self._config = config
        self._instances: dict[str, duckdb.DuckDBPyConnection] = {}
        self._folders: list[Callable[[], object]] = []  # each removes one
        self._lock = threading.Lock()

    def run(self, sql: str, memory: str | None = None) -> DuckRun:
        """A statement, within the memory that its sender may have."""
        return DuckRun(self._instance(memory or self._config.memory_limit).cursor(), sql)

    def close(self) -> None:
        """End all instances."""
        with self._lock:
            for instance in self._instances.values():
                instance.close()
            self._instances.clear()
            for remove in self._folders:
                remove()
            self._folders.clear()

    def _instance(self, memory: str) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if memory not in self._instances:
                self._instances[memory] = self._open(memory)
            return self._instances[memory]

    def _open(self, memory: str) -> duckdb.DuckDBPyConnection:
        on_s3 = self._lake.lake.on_s3
        instance = connect(
            self._lake.s3,
            on_s3=on_s3,
            threads=self._config.threads,
            memory_limit=memory,
            extensions=("httpfs",) if on_s3 else (),
        )
        for setting in SETTINGS:
            instance.execute(f"SET GLOBAL {setting}")  # for the connections to come
        instance.execute(f"SET temp_directory = {literal(self._folder())}")
        instance.execute(f"SET max_temp_directory_size = '{self._config.spill_bytes}B'")
        confine(instance, [self._lake.lake.location])
        return instance

    def _folder(self) -> str:
        """A folder of one instance for what does not fit into memory: nobody else may read it, and it goes with us."""
        prefix = f"neve-query-{os.getpid()}-"
        folder = tempfile.mkdtemp(prefix=prefix)
        self._folders.append(weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True))
        return folder
