"""Search one data file for rows of a condition, and write it again without them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask

from neve.erase.state_documents import replace_texts
from neve.errors import LakeError
from neve.lake.arrow_types import to_arrow_schema
from neve.lake.write.table_writer import write_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.manifest import DataFile

    from neve.lake.write.table_writer import Target

PIECE_BYTES = 256 * 1024 * 1024  # rows in memory before they are written


@dataclass(frozen=True)
class SearchTask:
    """A data file with its delete files, and the SQL condition. Can be pickled.

    Rows that match are left out. If there are texts to replace, the rows stay without them.
    """

    target: Target
    file: FileScanTask
    condition: str
    is_dry_run: bool = False
    replaced: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fingerprint:
    """Number of rows and the sum of their hashes, which does not depend on their order."""

    rows: int = 0
    hash: int = 0

    def __add__(self, other: Fingerprint) -> Fingerprint:
        return Fingerprint(self.rows + other.rows, self.hash + other.hash)


@dataclass(frozen=True)
class SearchedFile:
    """A searched file: the rows that match, and the new files with the others, which have the same fingerprint."""

    path: str
    matched: int
    kept: Fingerprint = Fingerprint()
    added: tuple[DataFile, ...] = ()


def search_file(task: SearchTask) -> SearchedFile:
    """Count the rows of a file that match, and unless it is a dry run write the others to new files.

    Raises `LakeError` if the new files do not have the same rows.
    """
    path, schema = task.file.file.file_path, to_arrow_schema(task.target.metadata.schema())
    evaluator = open_evaluator(schema)
    columns = evaluator.find_columns(task.condition)
    matched = sum(evaluator.count(piece, task.condition) for piece in _read(task, columns))
    if not matched or task.is_dry_run:
        return SearchedFile(path, matched)
    kept, added = Fingerprint(), []
    for rows in _join(_change(evaluator, piece, task) for piece in _read(task, schema.names)):
        kept += evaluator.fingerprint(rows)
        added += write_files(task.target, rows)
    written = sum((evaluator.fingerprint(piece) for piece in _read_files(task, added)), Fingerprint())
    if written != kept:
        raise LakeError(
            f"the rows of {path} that stay differ after the rewrite: {written.rows} of {kept.rows}",
            hint="nothing was committed; report this as a bug",
        )
    return SearchedFile(path, matched, kept, tuple(added))


def _change(evaluator: Evaluator, piece: pa.Table, task: SearchTask) -> pa.Table:
    """Return the rows of a piece that stay."""
    if not task.replaced:
        return evaluator.drop(piece, task.condition)
    hits = evaluator.match(piece, task.condition)
    rows = [replace_texts(row, task.replaced) if hit else row for row, hit in zip(piece.to_pylist(), hits, strict=True)]
    return pa.Table.from_pylist(rows, schema=piece.schema)


class Evaluator:
    """DuckDB without access to files, which evaluates conditions on Arrow rows of one schema."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, schema: pa.Schema) -> None:
        self._connection = connection
        self._schema = schema

    def is_bound(self, condition: str) -> bool:
        """Return whether the schema has all columns of a condition, with types that it can compare."""
        try:
            self._run(self._schema.empty_table(), f"SELECT {condition} FROM piece")  # noqa: S608 - the operator's own condition
        except (duckdb.BinderException, duckdb.ConversionException):
            return False
        return True

    def find_columns(self, condition: str) -> list[str]:
        """Return the columns that a condition may read: those whose name is in it, at least one."""
        lowered = condition.lower()
        return [name for name in self._schema.names if name.lower() in lowered] or self._schema.names[:1]

    def count(self, piece: pa.Table, condition: str) -> int:
        """Return the number of rows that match."""
        found = self._run(piece, f"SELECT count(*) AS rows FROM piece WHERE {condition}")  # noqa: S608 - as above
        return int(found["rows"][0].as_py())

    def drop(self, piece: pa.Table, condition: str) -> pa.Table:
        """Return the rows that do not match."""
        found = self._run(piece, f"SELECT NOT ({condition}) AS stays FROM piece")  # noqa: S608 - as above
        return piece.filter(found["stays"])

    def match(self, piece: pa.Table, condition: str) -> list[bool]:
        """Return for each row whether it matches."""
        found = self._run(piece, f"SELECT ({condition}) AS hit FROM piece")  # noqa: S608 - as above
        return [bool(hit) for hit in found["hit"].to_pylist()]

    def fingerprint(self, piece: pa.Table) -> Fingerprint:
        """Return the fingerprint of rows, over all columns."""
        if not piece.num_rows:
            return Fingerprint()
        listed = ", ".join(f'"{name}"' for name in self._schema.names)
        statement = f"SELECT sum(hash({listed})::HUGEINT)::VARCHAR AS hash FROM piece"  # noqa: S608 - names of columns
        found = self._run(piece, statement)
        return Fingerprint(piece.num_rows, int(found["hash"][0].as_py()))

    def _run(self, piece: pa.Table, statement: str) -> pa.Table:
        self._connection.register("piece", piece)
        try:
            return self._connection.execute(statement).to_arrow_table()
        finally:
            self._connection.unregister("piece")


def open_evaluator(schema: pa.Schema) -> Evaluator:
    """Return an evaluator on the connection of this process."""
    return Evaluator(_connect(), schema)


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    """Return a connection, one per process: a task is one thread of one core. It keeps the order of rows."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_external_access = false")
    return connection


def _read(task: SearchTask, columns: list[str]) -> Iterator[pa.Table]:
    """Yield columns of a file in the table's current schema, without rows that its delete files delete."""
    metadata = task.target.metadata
    schema = metadata.schema().select(*columns)
    scan = ArrowScan(metadata, task.target.io, schema, AlwaysTrue())
    for batch in scan.to_record_batches([task.file]):
        yield pa.Table.from_batches([batch])


def _read_files(task: SearchTask, files: list[DataFile]) -> Iterator[pa.Table]:
    scan = ArrowScan(task.target.metadata, task.target.io, task.target.metadata.schema(), AlwaysTrue())
    for file in files:
        file.spec_id = task.target.metadata.default_spec_id  # as read from a manifest
    for batch in scan.to_record_batches([FileScanTask(file) for file in files]):
        yield pa.Table.from_batches([batch])


def _join(pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Join rows to pieces of a bounded size, as a writer makes at least one file of each."""
    waiting: list[pa.Table] = []
    for piece in pieces:
        if piece.num_rows:
            waiting.append(piece)
        if sum(one.nbytes for one in waiting) >= PIECE_BYTES:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)
