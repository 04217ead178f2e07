"""Spark tasks of an index build: create the index rows of data files, and rewrite index files without stale rows.

A filter covers a range of rows: adjacent row groups of a Parquet file, with small ones combined.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan

from neve.lake.spark.tasks import use_jemalloc
from neve.lake.tokenizer import tokenize_for_index
from neve.lake.write.data_file_json import new_files_to_json
from neve.lake.write.file_schema import FIELD_ID
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import SEARCH_INDEX
from neve.search.bloom_filter import FORM, hash_words, make_filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask

    from neve.lake.write.data_file_json import DataFileJson
    from neve.search.bloom_filter import Hashes


RANGE_ROWS = 100_000  # minimum rows of a range, if the file has as many


@dataclass(frozen=True)
class Range:
    """Adjacent row groups and their rows."""

    groups: tuple[int, ...]
    first_row: int
    row_count: int


def split_row_groups(groups: Sequence[int], least: int = RANGE_ROWS) -> list[Range]:
    """Split row groups, given by their row counts, into ranges of at least `least` rows. The remainder joins the last.

    >>> split_row_groups([60, 60, 200, 10], least=100)
    [Range(groups=(0, 1), first_row=0, row_count=120), Range(groups=(2, 3), first_row=120, row_count=210)]
    """
    found: list[Range] = []
    numbers: list[int] = []
    rows = first = 0
    for number, count in enumerate(groups):
        numbers.append(number)
        rows += count
        if rows >= least:
            found.append(Range(tuple(numbers), first, rows))
            numbers, first, rows = [], first + rows, 0
    if not numbers:
        return found
    if not found:
        return [Range(tuple(numbers), first, rows)]
    last = found.pop()
    return [*found, Range((*last.groups, *numbers), last.first_row, last.row_count + rows)]


PIECE_BYTES = 16 * 1024 * 1024  # 16 MB of texts are in memory at once
MOST_ROWS = 65_536
LEAST_ROWS = 16


@dataclass(frozen=True)
class RangeWords:
    """The hashes of the distinct words of one range."""

    range: Range
    hashes: Hashes


def read_words_by_range(io: FileIO, path: str, field_id: int, least_rows: int) -> Iterator[RangeWords]:
    """Yield the words of each range of a file, or nothing if its columns can't be identified by their ids."""
    with cast("pa.NativeFile", io.new_input(path).open()) as source:
        file = pq.ParquetFile(source)
        names = _names_by_id(file.schema_arrow)
        if not names:
            return
        footer = file.metadata
        groups = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
        for part in split_row_groups(groups, least_rows):
            # A file that was written before the column was added contains no words of it.
            yield RangeWords(part, _read_words(file, part, names[field_id]) if field_id in names else _NO_HASHES)


def _read_words(file: pq.ParquetFile, part: Range, name: str) -> Hashes:
    found = _NO_HASHES
    pieces = file.iter_batches(
        _piece_rows(file, part, name), row_groups=list(part.groups), columns=[name], use_threads=False
    )
    for piece in pieces:
        found = np.union1d(found, hash_words(list_index_words(piece.column(0).unique())))
    return found


def list_index_words(values: pa.Array) -> pa.Array:
    """Return the words of distinct values: those of texts, and bytes as one word of hexadecimal digits each."""
    if pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        return pa.array([value.hex() for value in values.drop_null().to_pylist()], pa.string())
    return tokenize_for_index(values)


def _piece_rows(file: pq.ParquetFile, part: Range, name: str) -> int:
    """Return the number of rows to read at once: so few that they fit into memory, for any length of their texts."""
    paths = [file.schema.column(leaf).path for leaf in range(len(file.schema))]
    leaf = paths.index(name)
    size = sum(file.metadata.row_group(number).column(leaf).total_uncompressed_size for number in part.groups)
    return int(min(MOST_ROWS, max(LEAST_ROWS, PIECE_BYTES * part.row_count // max(1, size))))


def _names_by_id(schema: pa.Schema) -> dict[int, str]:
    return {int(field.metadata[FIELD_ID]): field.name for field in schema if FIELD_ID in (field.metadata or {})}


_NO_HASHES: Hashes = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class IndexTask:
    """Data files of one organization that have no rows in the index, each with its columns that are not indexed."""

    owner: str
    files: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class RewriteTask:
    """An index file of which some rows remain: those of these data files."""

    file: FileScanTask
    remaining_paths: frozenset[str]


@dataclass(frozen=True)
class TaskResult:
    """Result of a task."""

    added: tuple[DataFileJson, ...] = ()
    files: int = 0
    left_out: int = 0
    rows: int = 0
    ranges: int = 0
    words: int = 0


@dataclass(frozen=True)
class TaskRunner:
    """Runner with the values that all tasks of a run share."""

    source: Target
    index: Target
    table_name: str
    rate: float
    range_rows: int
    built_at: datetime

    def __call__(self, task: IndexTask | RewriteTask) -> TaskResult:
        """Run one task."""
        use_jemalloc()
        return self._rewrite(task) if isinstance(task, RewriteTask) else self._index(task)

    def _index(self, task: IndexTask) -> TaskResult:
        lines: list[dict[str, object]] = []
        rows = words = left_out = 0
        for path, columns in task.files:
            before = len(lines)
            for column, part in self._parts(path, columns):
                lines.append(self._line(task.owner, path, column, part))
                words += len(part.hashes)
                rows += part.range.row_count
            left_out += len(lines) == before
        added = self._write(pa.Table.from_pylist(lines, schema=SEARCH_INDEX.schema)) if lines else ()
        return TaskResult(added, len(task.files) - left_out, left_out, rows, len(lines), words)

    def _parts(self, path: str, columns: tuple[str, ...]) -> Iterator[tuple[str, RangeWords]]:
        schema = self.source.metadata.schema()
        for column in columns:
            field_id = schema.find_field(column).field_id
            for part in read_words_by_range(self.source.io, path, field_id, self.range_rows):
                yield column, part

    def _line(self, owner: str, path: str, column: str, part: RangeWords) -> dict[str, object]:
        return {
            "organization_id": owner,
            "table_name": self.table_name,
            "file_path": path,
            "column_name": column,
            "first_row": part.range.first_row,
            "row_count": part.range.row_count,
            "words": len(part.hashes),
            "form": FORM,
            "filter": make_filter(part.hashes, self.rate),
            "built_at": self.built_at,
        }

    def _rewrite(self, task: RewriteTask) -> TaskResult:
        metadata = self.index.metadata
        scan = ArrowScan(metadata, self.index.io, metadata.schema(), AlwaysTrue())
        kept = pa.array(sorted(task.remaining_paths), pa.large_string())
        batches = [batch.filter(_rows_to_keep(batch, kept)) for batch in scan.to_record_batches([task.file])]
        return TaskResult(self._write(pa.Table.from_batches(batches)))

    def _write(self, rows: pa.Table) -> tuple[DataFileJson, ...]:
        return tuple(new_files_to_json(self.index.metadata, write_files(self.index, rows)))


def _rows_to_keep(batch: pa.RecordBatch, kept: pa.Array) -> pa.Array:
    is_remaining = pc.is_in(batch.column("file_path").cast(pa.large_string()), value_set=kept)
    return pc.and_(is_remaining, pc.equal(batch.column("form"), FORM))
