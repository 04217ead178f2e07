"""Data files of a table as Arrow, whatever the table's schema was when they were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _to_requested_schema, pyarrow_to_schema, schema_to_pyarrow

from neve.lake.fields import FIELD_ID, conform, file_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

PIECE_BYTES = 32 * 1024 * 1024  # 32 MB: files of no more are read at once, others in pieces of about as much


class MixedFiles(Exception):
    """Raised when files that are read with their dictionaries do not have the same columns."""


class ForeignFile(Exception):
    """Raised when a file can't be read by the ids of its columns."""


@dataclass(frozen=True)
class DataFiles:
    """Reads data files as the table's schema is now, in pieces that fit into memory.

    `dictionaries` tells, once a file was read, which leaves are worth a dictionary. `with_dictionaries` reads texts as
    the dictionaries that they are in the files: a third of the memory, and quicker to write again.

    A file without one of the columns of `needed_ids` is refused: where a migrated table has partition columns that are
    not in its files, a null would be made of their values.
    """

    io: FileIO
    schema: Schema
    needed_ids: frozenset[int] = frozenset()
    with_dictionaries: bool = False
    dictionaries: set[str] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)
    _alike: list[pq.ParquetSchema] = field(default_factory=list)

    def read(self, path: str) -> Iterator[pa.Table]:
        """The rows of a file, in their order."""
        with cast("pa.NativeFile", self.io.new_input(path).open()) as source:
            file = self._opened(source)
            if _size(file.metadata) <= PIECE_BYTES and not self._is_parted(file):
                yield self._conformed(file, file.read(use_threads=False))
                return
            rows = _piece_rows(file.metadata)
            for groups in self._spans(file):
                for batch in file.iter_batches(rows, row_groups=groups, use_threads=False):
                    yield self._conformed(file, pa.Table.from_batches([batch]))

    def _is_parted(self, file: pq.ParquetFile) -> bool:
        """Whether the file has a dictionary for each of several row groups: Arrow can't join those within a map."""
        return bool(self._texts) and file.metadata.num_row_groups > 1

    def _spans(self, file: pq.ParquetFile) -> Iterator[list[int]]:
        """Row groups that are read in one go."""
        groups = list(range(file.metadata.num_row_groups))
        return iter([[group] for group in groups] if self._is_parted(file) else [groups])

    def _opened(self, source: pa.NativeFile) -> pq.ParquetFile:
        small = source.size() <= PIECE_BYTES  # what is read ahead is held until the end
        if not self.dictionaries:
            self._see_dictionaries(pq.ParquetFile(source))
        return pq.ParquetFile(source, pre_buffer=small, read_dictionary=self._texts or None)

    def _see_dictionaries(self, file: pq.ParquetFile) -> None:
        """Remember which leaves the first file has dictionaries for: whoever wrote it looked at their values."""
        if not file.metadata.num_row_groups:
            return
        group = file.metadata.row_group(0)
        found = [column for column in map(group.column, range(group.num_columns)) if column.has_dictionary_page]
        self.dictionaries.update(column.path_in_schema for column in found)
        if self.with_dictionaries and self._is_today(file, file.schema_arrow):
            self._texts.extend(column.path_in_schema for column in found if column.physical_type == "BYTE_ARRAY")

    def read_columns(self, path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of a file that has the table's schema."""
        with self.io.new_input(path).open() as source:
            file = pq.ParquetFile(source)
            for batch in file.iter_batches(_piece_rows(file.metadata), columns=list(columns), use_threads=False):
                yield pa.Table.from_batches([batch]).select(list(columns))

    @cached_property
    def _today(self) -> pa.Schema:
        return file_schema(self.schema, _as_read(schema_to_pyarrow(self.schema, include_field_ids=False)))

    @cached_property
    def _ids(self) -> list[object]:
        return [_identity(one) for one in self._today]

    def _conformed(self, file: pq.ParquetFile, rows: pa.Table) -> pa.Table:
        # Files of one table nearly always have the schema of today: then nothing is touched.
        if self._texts:
            if not self._is_today(file, rows.schema):
                raise MixedFiles
            return rows
        if self._is_today(file, rows.schema):
            return pa.Table.from_arrays(rows.columns, schema=self._today)
        return conform(self._by_ids(rows), self._today)

    def _is_today(self, file: pq.ParquetFile, schema: pa.Schema) -> bool:
        """Whether a file has the table's schema; a file that is like one that has it is not looked at closer."""
        if any(file.schema.equals(known) for known in self._alike):
            return True
        same = schema.equals(self._today) and [_identity(one) for one in schema] == self._ids
        if same:
            self._alike.append(file.schema)
        return bool(same)

    def _by_ids(self, rows: pa.Table) -> pa.Table:
        """The columns that have the same ids, under the names and of the types of today."""
        try:
            written = pyarrow_to_schema(rows.schema)
        except ValueError as error:
            raise ForeignFile(f"its columns have no field ids ({error})") from error
        missing = self.needed_ids - written.field_ids
        if missing:
            names = ", ".join(str(self.schema.find_column_name(one)) for one in sorted(missing))
            raise ForeignFile(f"it has no column {names}, which the table is partitioned by")
        try:
            batches = [_to_requested_schema(self.schema, written, batch) for batch in rows.to_batches()]
        except (ValueError, TypeError, NotImplementedError) as error:
            raise ForeignFile(f"its columns are not those of the table ({error})") from error
        return pa.Table.from_batches(batches) if batches else self._today.empty_table()


def _size(footer: pq.FileMetaData) -> int:
    """Bytes of all values, unpacked."""
    return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))


def _piece_rows(footer: pq.FileMetaData) -> int:
    """How many rows a piece has, at least a few: values are larger in memory than in Parquet, where they repeat."""
    return int(min(64_000, max(16, PIECE_BYTES * footer.num_rows // max(1, 4 * _size(footer)))))


def _identity(field: pa.Field) -> object:
    """The ids of a field and of all inside it."""
    kind = field.type
    inner = []
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        inner = [kind.value_field]
    return (field.metadata or {}).get(FIELD_ID), *map(_identity, inner)


def _as_read(schema: pa.Schema) -> pa.Schema:
    """The types that Parquet's columns are read as: offsets of 32 bits."""
    return pa.schema([pa.field(field.name, _small(field.type), field.nullable) for field in schema])


def _small(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _small(child.type), child.nullable) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(_small(kind.key_type), _small(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_small(kind.value_type))
    return kind
