"""Statements on DuckDB in this process, for whoever owns it; servers run them in processes of their own (`pool.py`)."""

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

from neve.lake.duck import confinement, literal, preparations
from neve.query.sql.written import check_written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.limits import Limits
    from neve.query.sql.written import Written

    Write = Callable[[str], Written]  # a statement that finds its files below a folder

DUCKDB = "duckdb"
BATCH_ROWS = 32_768  # rows of a result that are in memory at a time; whole rows of spans have kilobytes
INTERRUPTED = "Query interrupted"  # what DuckDB makes of a Ctrl-C that it meets in the main thread
SETTINGS = (
    "TimeZone = 'UTC'",
    "parquet_metadata_cache = true",
    "python_enable_replacements = false",  # names of Python's variables are no tables
)


@dataclass(frozen=True)
class Recipe:
    """All that it takes to open a DuckDB that reads some folders and nothing else."""

    memory: str
    threads: int
    statements: tuple[str, ...]

    def open(self) -> duckdb.DuckDBPyConnection:
        """Open it."""
        threads = {"threads": self.threads} if self.threads else {}
        instance = duckdb.connect(config={"memory_limit": self.memory, **threads})
        for statement in self.statements:
            instance.execute(statement)
        return instance


@dataclass(frozen=True)
class Spill:
    """Where what does not fit into memory goes, and how much of it may."""

    folder: str
    most_bytes: int


def recipe_of(lake: Lake, config: QueryConfig, memory: str, spill: Spill, folders: list[str]) -> Recipe:
    """How to open an instance that reads these folders, and spills into one."""
    on_s3 = lake.lake.on_s3
    return Recipe(
        memory,
        config.threads,
        (
            *preparations(lake.s3, on_s3=on_s3, extensions=("httpfs",) if on_s3 else ()),
            *(f"SET GLOBAL {setting}" for setting in SETTINGS),  # for the connections to come
            f"SET temp_directory = {literal(spill.folder)}",
            f"SET max_temp_directory_size = '{spill.most_bytes}B'",
            *confinement(folders),
        ),
    )


class DuckRun:
    """One statement that runs."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, written: Written) -> None:
        self._connection = connection
        self._written = written

    def begin(self) -> None:
        """Start it; blocks until there are rows, or nothing more to wait for."""
        with self._interruptions():
            check_written(self._connection, self._written)
            self._reader = self._connection.execute(self._written.sql()).to_arrow_reader(BATCH_ROWS)

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

    def run(self, write: Write, limits: Limits, organization: str = "") -> DuckRun:
        """A statement, within the memory that its sender may have; files are read where they are."""
        del organization
        return DuckRun(self._instance(limits.memory or self._config.memory_limit).cursor(), write(""))

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
                folders = [self._lake.lake.location]
                spill = Spill(self._folder(), self._config.spill_bytes)
                self._instances[memory] = recipe_of(self._lake, self._config, memory, spill, folders).open()
            return self._instances[memory]

    def _folder(self) -> str:
        """A folder of one instance for what does not fit into memory: nobody else may read it, and it goes with us."""
        folder = tempfile.mkdtemp(prefix=f"neve-query-{os.getpid()}-")
        self._folders.append(weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True))
        return folder
