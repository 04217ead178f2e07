"""Parquet files of OTAP tables: open them, repair footers of otel-arrow's exporter, read facts from the footer.

The exporter (0.51 to 0.62) declares ids of traces and spans that it holds in a dictionary as values of a fixed
length, but writes them with a length before each, as values of variable length are written. Readers that trust the
footer take the lengths for part of the ids. Such a column is recognizable: its footer states the bytes of its
values, which only columns of variable length have. In a copy of the footer it is then declared as variable length.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from neve.errors import InputError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.tables import PART_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs as pafs

    from neve.lake.config import S3Config


LONGEST_VARINT_BITS = 70
MAGIC = b"PAR1"
TAIL = 8  # the length of the footer, and the magic
FIXED, ANY_LENGTH = 7, 6  # Parquet's physical types
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)  # Thrift's compact types

Path = tuple[int, ...]


@dataclass
class ThriftReader:
    """Reader of a struct in Thrift's compact protocol: the path of field ids to each whole number, and its position."""

    data: bytes
    at: int = 0

    def numbers(self) -> Iterator[tuple[Path, int, int]]:
        """Yield every whole number of the struct: its path, its value and its position."""
        return self._struct(())

    def _struct(self, path: Path) -> Iterator[tuple[Path, int, int]]:
        field = 0
        while (head := self._byte()) != STOP:
            step, kind = head >> 4, head & 15
            field = field + step if step else self._zigzag()
            yield from self._value((*path, field), kind)

    def _value(self, path: Path, kind: int, *, in_list: bool = False) -> Iterator[tuple[Path, int, int]]:
        if kind in (TRUE, FALSE):
            self.at += in_list
        elif kind == BYTE:
            self.at += 1
        elif kind in (I16, I32, I64):
            place = self.at
            yield path, self._zigzag(), place
        elif kind == DOUBLE:
            self.at += 8
        elif kind == BINARY:
            length = self._varint()
            self.at += length
        elif kind in (LIST, SET):
            yield from self._list(path)
        elif kind == STRUCT:
            yield from self._struct(path)
        else:
            raise InputError(f"the footer has a Thrift value of kind {kind}, which Parquet does not use")

    def _list(self, path: Path) -> Iterator[tuple[Path, int, int]]:
        head = self._byte()
        size = head >> 4 if head >> 4 != 15 else self._varint()
        for index in range(size):
            yield from self._value((*path, index), head & 15, in_list=True)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, LONGEST_VARINT_BITS, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise IndexError("a number of more than ten bytes")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """Open a Parquet file, and repair its footer if it has the exporter's mistake."""
    footer = _read_footer(source)
    try:
        wrong = _find_mistaken_columns(footer)
    except IndexError as error:
        raise InputError("its footer is damaged") from error
    if not wrong:
        return pq.ParquetFile(source)
    right = bytearray(footer)
    for place in wrong:
        right[place] = ANY_LENGTH << 1  # both types are one byte long, so that nothing else moves
    alone = MAGIC + bytes(right) + len(right).to_bytes(4, "little") + MAGIC
    return pq.ParquetFile(source, metadata=pq.read_metadata(pa.BufferReader(alone)))


def _read_footer(source: pa.NativeFile) -> bytes:
    size = source.size()
    tail = source.read_at(TAIL, max(size - TAIL, 0))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length + TAIL > size:
        raise InputError("it is not a Parquet file, or it is truncated: it has no footer")
    footer: bytes = source.read_at(length, size - TAIL - length)
    source.seek(0)
    return footer


def _find_mistaken_columns(footer: bytes) -> list[int]:
    """Return the positions of columns that the footer declares both as fixed length and as variable length."""
    leaves: list[int] = []
    fixed: dict[int, list[int]] = {}
    with_byte_counts: set[int] = set()
    for path, value, place in ThriftReader(footer).numbers():
        match path:
            case (2, _, 1):  # the type of a schema's leaf
                leaves.append(place)
            case (4, _, 1, column, 3, 1) if value == FIXED:  # the type of a column of a row group
                fixed.setdefault(column, []).append(place)
            case (4, _, 1, column, 3, 16, 1):  # the bytes of its values, without their lengths
                with_byte_counts.add(column)
    return [place for column in fixed.keys() & with_byte_counts for place in (leaves[column], *fixed[column])]


def read_part_id(columns: pa.Schema) -> str:
    """Return the part that a file declares; only root tables do."""
    return str((columns.metadata or {}).get(PART_ID.encode(), b"").decode())


@contextmanager
def open_file(path: str, filesystem: pafs.FileSystem) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file, and close it afterwards.

    A missing, truncated or damaged file raises an error that names it.
    """
    try:
        with filesystem.open_input_file(path) as source:
            yield open_parquet(source)
    except InputError as error:
        raise InputError(f"{path}: {error.message}", hint=error.hint) from error
    except FileNotFoundError as error:
        raise InputError(f"no such file: {path}", hint="it may have been removed meanwhile") from error
    except (pa.ArrowException, OSError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"can't read {path} as Parquet: {reason}", hint="fetch or write the file again") from error


def count_nulls(parquet: pq.ParquetFile, name: str) -> int:
    """Count the nulls of a column that is not nested."""
    return sum(_count_group_nulls(parquet, name, group) for group in _groups_with_rows(parquet))


def _count_group_nulls(parquet: pq.ParquetFile, name: str, group: int) -> int:
    statistics = parquet.metadata.row_group(group).column(_leaf_index(parquet, name)).statistics
    if statistics is not None and statistics.has_null_count:
        return int(statistics.null_count)
    return int(parquet.read_row_group(group, columns=[name]).column(name).null_count)


def _groups_with_rows(parquet: pq.ParquetFile) -> list[int]:
    footer = parquet.metadata
    return [group for group in range(footer.num_row_groups) if footer.row_group(group).num_rows]


def _leaf_index(parquet: pq.ParquetFile, name: str) -> int:
    """Return the index of a column that is not nested, among the leaves of all columns."""
    return next(place for place in range(len(parquet.schema)) if parquet.schema.column(place).path == name)


Bounds = tuple[int, int] | None

PARENT = "parent_id"


@contextmanager
def open_location(path: str, s3: S3Config) -> Iterator[pq.ParquetFile]:
    """Open a file by its URI, and close it afterwards; an unreadable file raises an error that names it."""
    filesystem, inner = resolve_filesystem(path, s3)
    with open_file(inner, filesystem) as file:
        yield file


def parent_bounds(file: pq.ParquetFile) -> list[Bounds]:
    """Return the smallest and the largest parent id of each row group, if the footer has them."""
    paths = [file.schema.column(index).path for index in range(len(file.schema))]
    if PARENT not in paths:
        raise InputError(f"column {PARENT} is missing")
    column = paths.index(PARENT)
    statistics = [
        file.metadata.row_group(group).column(column).statistics for group in range(file.metadata.num_row_groups)
    ]
    return [(one.min, one.max) if one is not None and one.has_min_max else None for one in statistics]
