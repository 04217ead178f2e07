"""Statements on DuckDB: one instance for each limit of memory, confined to the lake's files."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb

from neve.lake.duck import confine, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig

DUCKDB = "duckdb"
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
        self._reader = self._connection.execute(self._sql).to_arrow_reader()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The result as it comes."""
        yield from self._reader

    def interrupt(self) -> None:
        """End it, from any thread; it may have ended by itself just now."""
        with suppress(duckdb.ConnectionException):
            self._connection.interrupt()

    def close(self) -> None:
        """Give back what it holds."""
        self._connection.close()


class DuckEngine:
    """Footers of Parquet files and, where they are far away, their bytes are kept between statements."""

    def __init__(self, lake: Lake, config: QueryConfig) -> None:
        self._lake = lake
        self._config = config
        self._instances: dict[str, duckdb.DuckDBPyConnection] = {}
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
        folder = f"{tempfile.gettempdir()}/neve-query-{os.getpid()}"
        instance.execute(f"SET temp_directory = '{folder}'")
        confine(instance, [self._lake.lake.location])
        return instance
