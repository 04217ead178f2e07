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
import pyarrow as pa

from neve.lake.duckdb import confinement_statements, quote_literal, setup_statements
from neve.query.engine.program import ProgramContext, load_function
from neve.query.sql.duckdb_statement import check_duckdb_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.engine.program import PlanStatement, Program, StatementRequest
    from neve.query.limits import Limits
    from neve.query.sql.duckdb_statement import DuckDBStatement

    Write = Callable[[str], DuckDBStatement]  # writes a statement that reads its files below a folder

DUCKDB = "duckdb"
BATCH_ROWS = 32_768  # rows of a result in memory at a time; a whole row of spans has kilobytes
LOCAL_MEMORY_BYTES = 4_000_000_000  # that a program in this process may use; workers have the limit of their query
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


class LocalProgramRun:
    """A program that runs in this process. Its statements run one after the other."""

    def __init__(self, program: Program, start: Callable[[StatementRequest], DuckRun]) -> None:
        self._program = program
        self._start = start
        self._statement: DuckRun | None = None
        self._is_interrupted = False
        self._batches: list[pa.RecordBatch] = []

    def begin(self) -> None:
        """Run the program to its end."""
        context = ProgramContext(self._read, LOCAL_MEMORY_BYTES, self._check, rollups=self._program.rollups)
        self._batches = list(load_function(self._program.function)(self._program.arguments, context))

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the result."""
        return self._batches[0].schema if self._batches else pa.schema([])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the result."""
        yield from self._batches

    def interrupt(self) -> None:
        """Interrupt the program at its next check, and its statement now."""
        self._is_interrupted = True
        if self._statement is not None:
            self._statement.interrupt()

    def close(self) -> None:
        """Release resources."""
        if self._statement is not None:
            self._statement.close()

    def _read(self, wanted: StatementRequest) -> pa.RecordBatchReader:
        self._check()
        self.close()
        self._statement = run = self._start(wanted)
        run.begin()
        return pa.RecordBatchReader.from_batches(run.schema, run.batches())

    def _check(self) -> None:
        if self._is_interrupted:
            raise duckdb.InterruptException("Query interrupted")


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
        return DuckRun(self._cursor(limits), write(""))

    def run_program(
        self, program: Program, plan: PlanStatement, limits: Limits, organization: str = ""
    ) -> LocalProgramRun:
        """Return a run of a program in this process. Only its statements have a memory limit."""
        del organization
        return LocalProgramRun(program, lambda wanted: DuckRun(self._cursor(limits), plan(wanted)("")))

    def _cursor(self, limits: Limits) -> duckdb.DuckDBPyConnection:
        return self._instance(limits.memory or self._config.memory_limit).cursor()

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
