"""DuckDB in this process, for command lines. Servers run statements in worker processes (`worker_pool.py`)."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import weakref
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import duckdb

from neve.lake.duckdb import confinement_statements, quote_literal, setup_statements
from neve.query.sql.duckdb_statement import check_duckdb_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.limits import Limits
    from neve.query.sql.duckdb_statement import DuckDBStatement

    Write = Callable[[str], DuckDBStatement]  # writes a statement that reads its files below a folder

DUCKDB = "duckdb"
BATCH_ROWS = 32_768  # rows of a result in memory at a time; a whole row of spans has kilobytes
INTERRUPTED = "Query interrupted"  # DuckDB's message for a Ctrl-C that it receives in the main thread
SETTINGS = (
    "TimeZone = 'UTC'",
    "parquet_metadata_cache = true",
    "python_enable_replacements = false",  # Python variables are not tables
)


@dataclass(frozen=True)
class InstanceSettings:
    """Settings to open a DuckDB instance that reads some folders and nothing else."""

    memory: str
    threads: int
    statements: tuple[str, ...]

    def open(self) -> duckdb.DuckDBPyConnection:
        """Open the instance."""
        threads = {"threads": self.threads} if self.threads else {}
        instance = duckdb.connect(config={"memory_limit": self.memory, **threads})
        for statement in self.statements:
            instance.execute(statement)
        return instance


@dataclass(frozen=True)
class SpillFolder:
    """Folder for data that does not fit into memory, and its size limit."""

    folder: str
    most_bytes: int


def make_instance_settings(
    lake: Lake, config: QueryConfig, memory: str, spill: SpillFolder, folders: list[str]
) -> InstanceSettings:
    """Return the settings of an instance that reads these folders and spills into one."""
    on_s3 = lake.lake.on_s3
    return InstanceSettings(
        memory,
        config.threads,
        (
            *setup_statements(lake.s3, on_s3=on_s3, extensions=("httpfs",) if on_s3 else ()),
            *(f"SET GLOBAL {setting}" for setting in SETTINGS),  # for later connections
            f"SET temp_directory = {quote_literal(spill.folder)}",
            f"SET max_temp_directory_size = '{spill.most_bytes}B'",
            *confinement_statements(folders),
        ),
    )


class DuckRun:
    """One running statement."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, written: DuckDBStatement) -> None:
        self._connection = connection
        self._written = written

    def begin(self) -> None:
        """Start the statement. Blocks until there are rows or the statement has ended."""
        with self._interruptions():
            check_duckdb_statement(self._connection, self._written)
            for statement in self._written.session():
                self._connection.execute(statement)
            self._reader = self._connection.execute(self._written.sql()).to_arrow_reader(BATCH_ROWS)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result as it arrives."""
        with self._interruptions():
            yield from self._reader

    def interrupt(self) -> None:
        """Interrupt the statement, from any thread. It may have ended by itself just now."""
        with suppress(duckdb.ConnectionException):
            self._connection.interrupt()

    def close(self) -> None:
        """Release resources. A running statement is interrupted first, because closing would wait for it."""
        self.interrupt()
        self._connection.close()

    @contextmanager
    def _interruptions(self) -> Iterator[None]:
        """Raise `KeyboardInterrupt` for a Ctrl-C that DuckDB received."""
        try:
            yield
        except RuntimeError as error:
            if INTERRUPTED not in str(error):
                raise
            self.close()
            raise KeyboardInterrupt from error


class DuckEngine:
    """DuckDB in this process. Parquet footers and, for remote files, their bytes are cached between statements."""

    def __init__(self, lake: Lake, config: QueryConfig) -> None:
        self._lake = lake
        self._config = config
        self._instances: dict[str, duckdb.DuckDBPyConnection] = {}
        self._folders: list[Callable[[], object]] = []  # each removes one folder
        self._lock = threading.Lock()

    def run(self, write: Write, limits: Limits, organization: str = "") -> DuckRun:
        """Return a run of a statement within the memory limit of its sender. Files are read in place."""
        del organization
        return DuckRun(self._instance(limits.memory or self._config.memory_limit).cursor(), write(""))

    def close(self) -> None:
        """Close all instances."""
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
                folders = [self._lake.lake.location]
                spill = SpillFolder(self._folder(), self._config.spill_bytes)
                self._instances[memory] = make_instance_settings(
                    self._lake, self._config, memory, spill, folders
                ).open()
            return self._instances[memory]

    def _folder(self) -> str:
        """Create a private spill folder for one instance. It is removed with this engine."""
        folder = tempfile.mkdtemp(prefix=f"neve-query-{os.getpid()}-")
        self._folders.append(weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True))
        return folder
