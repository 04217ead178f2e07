"""Read data files as Arrow in the current schema of their table, whatever schema they were written with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import _to_requested_schema, pyarrow_to_schema, schema_to_pyarrow

from neve.lake.write.file_schema import FIELD_ID, build_file_schema, conform_to_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

PIECE_BYTES = 32 * 1024 * 1024  # 32 MB: smaller files are read at once, others in pieces of about this size


def read_columns(io: FileIO, path: str, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a Parquet file by their names in the file, in the current thread."""
    with cast("pa.NativeFile", io.new_input(path).open()) as source:
        return pq.ParquetFile(source).read(columns=list(columns), use_threads=False)


class MixedSchemas(Exception):
    """Raised when files that are read with their dictionaries do not have the same columns."""


class MissingFieldIds(Exception):
    """Raised when a file can't be read by the ids of its columns."""


@dataclass(frozen=True)
class DataFileReader:
    """Reader of data files in the table's current schema, in pieces that fit into memory.

    After the first file, `dictionaries` are the leaves that benefit from a dictionary. `with_dictionaries` reads texts
    as the dictionaries of the files: this takes a third of the memory, and the rows are faster to write again.

    A file without one of the columns of `needed_ids` is rejected: if a migrated table has partition columns that are
    not in its files, their values would become null.
    """

    io: FileIO
    schema: Schema
    needed_ids: frozenset[int] = frozenset()
    with_dictionaries: bool = False
    dictionaries: set[str] = field(default_factory=set)
    _texts: list[str] = field(default_factory=list)
    _alike: list[pq.ParquetSchema] = field(default_factory=list)

    def read(self, path: str) -> Iterator[pa.Table]:
        """Yield the rows of a file, in order."""
        with cast("pa.NativeFile", self.io.new_input(path).open()) as source:
            file = self._open(source)
            if _count_unpacked_bytes(file.metadata) <= PIECE_BYTES and not self._is_split(file):
                yield self._conform(file, file.read(use_threads=False))
                return
            rows = _choose_piece_rows(file.metadata)
            for groups in self._spans(file):
                for batch in file.iter_batches(rows, row_groups=groups, use_threads=False):
                    yield self._conform(file, pa.Table.from_batches([batch]))

    def _is_split(self, file: pq.ParquetFile) -> bool:
        """Return whether the file has dictionaries in several row groups. Arrow can't join those within a map."""
        return bool(self._texts) and file.metadata.num_row_groups > 1

    def _spans(self, file: pq.ParquetFile) -> Iterator[list[int]]:
        """Yield row groups that are read together."""
        groups = list(range(file.metadata.num_row_groups))
        return iter([[group] for group in groups] if self._is_split(file) else [groups])

    def _open(self, source: pa.NativeFile) -> pq.ParquetFile:
        small = source.size() <= PIECE_BYTES  # data that is read ahead stays in memory until the end
        if not self.dictionaries:
            self._detect_dictionaries(pq.ParquetFile(source))
        return pq.ParquetFile(source, pre_buffer=small, read_dictionary=self._texts or None)

    def _detect_dictionaries(self, file: pq.ParquetFile) -> None:
        """Remember the leaves with dictionaries in the first file: its writer chose them by their values."""
        if not file.metadata.num_row_groups:
            return
        group = file.metadata.row_group(0)
        found = [column for column in map(group.column, range(group.num_columns)) if column.has_dictionary_page]
        self.dictionaries.update(column.path_in_schema for column in found)
        if self.with_dictionaries and self._is_current(file, file.schema_arrow):
            self._texts.extend(column.path_in_schema for column in found if column.physical_type == "BYTE_ARRAY")

    def read_columns(self, path: str, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield some columns of a file that has the table's schema."""
        with self.io.new_input(path).open() as source:
            file = pq.ParquetFile(source)
            for batch in file.iter_batches(_choose_piece_rows(file.metadata), columns=list(columns), use_threads=False):
                yield pa.Table.from_batches([batch]).select(list(columns))

    @cached_property
    def _current(self) -> pa.Schema:
        return build_file_schema(self.schema, _to_read_schema(schema_to_pyarrow(self.schema, include_field_ids=False)))

    @cached_property
    def _ids(self) -> list[object]:
        return [_collect_field_ids(one) for one in self._current]

    def _conform(self, file: pq.ParquetFile, rows: pa.Table) -> pa.Table:
        # Files of one table nearly always have the current schema. Then nothing is converted.
        if self._texts:
            if not self._is_current(file, rows.schema):
                raise MixedSchemas
            return rows
        if self._is_current(file, rows.schema):
            return pa.Table.from_arrays(rows.columns, schema=self._current)
        return conform_to_schema(self._by_ids(rows), self._current)

    def _is_current(self, file: pq.ParquetFile, schema: pa.Schema) -> bool:
        """Return whether a file has the table's current schema.

        A schema that was checked before is not checked again.
        """
        if any(file.schema.equals(known) for known in self._alike):
            return True
        same = schema.equals(self._current) and [_collect_field_ids(one) for one in schema] == self._ids
        if same:
            self._alike.append(file.schema)
        return bool(same)

    def _by_ids(self, rows: pa.Table) -> pa.Table:
        """Return the columns with the same ids, with the current names and types."""
        try:
            written = pyarrow_to_schema(rows.schema)
        except ValueError as error:
            raise MissingFieldIds(f"its columns have no field ids ({error})") from error
        missing = self.needed_ids - written.field_ids
        if missing:
            names = ", ".join(str(self.schema.find_column_name(one)) for one in sorted(missing))
            raise MissingFieldIds(f"it has no column {names}, which the table is partitioned by")
        try:
            batches = [_to_requested_schema(self.schema, written, batch) for batch in rows.to_batches()]
        except (ValueError, TypeError, NotImplementedError) as error:
            raise MissingFieldIds(f"its columns are not those of the table ({error})") from error
        return pa.Table.from_batches(batches) if batches else self._current.empty_table()


def _count_unpacked_bytes(footer: pq.FileMetaData) -> int:
    """Return the uncompressed bytes of all values."""
    return sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))


def _choose_piece_rows(footer: pq.FileMetaData) -> int:
    """Return the number of rows of a piece, with a minimum.

    Values are larger in memory than in Parquet, where they repeat.
    """
    return int(min(64_000, max(16, PIECE_BYTES * footer.num_rows // max(1, 4 * _count_unpacked_bytes(footer)))))


def _collect_field_ids(field: pa.Field) -> object:
    """Return the ids of a field and of all fields inside it."""
    kind = field.type
    inner = []
    if pa.types.is_struct(kind):
        inner = list(kind)
    elif pa.types.is_map(kind):
        inner = [kind.key_field, kind.item_field]
    elif pa.types.is_list(kind):
        inner = [kind.value_field]
    return (field.metadata or {}).get(FIELD_ID), *map(_collect_field_ids, inner)


def _to_read_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types that Parquet's columns are read as, with offsets of 32 bits."""
    return pa.schema([pa.field(field.name, _to_small_offsets(field.type), field.nullable) for field in schema])


def _to_small_offsets(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(child.name, _to_small_offsets(child.type), child.nullable) for child in kind])
    if pa.types.is_map(kind):
        return pa.map_(_to_small_offsets(kind.key_type), _to_small_offsets(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_to_small_offsets(kind.value_type))
    return kind
