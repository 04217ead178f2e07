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
import pyarrow.compute as pc
import pyarrow.parquet as pq

from neve.errors import InputError
from neve.lake.storage.filesystem import resolve_filesystem
from neve.otap.tables import IDS, PART_ID, STARS

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.fs as pafs

    from neve.lake.config import S3Config
    from neve.otap.folder import OtapFile


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
            raise InputError(f"the footer holds a Thrift value of kind {kind}, which Parquet does not have")

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
        raise InputError("it is no Parquet file, or it was cut off: there is no footer at its end")
    footer: bytes = source.read_at(length, size - TAIL - length)
    source.seek(0)
    return footer


def _find_mistaken_columns(footer: bytes) -> list[int]:
    """Return the positions of columns that the footer declares both as fixed length and as variable length."""
    leaves: list[int] = []
    fixed: dict[int, list[int]] = {}
    told: set[int] = set()
    for path, value, place in ThriftReader(footer).numbers():
        match path:
            case (2, _, 1):  # the type of a schema's leaf
                leaves.append(place)
            case (4, _, 1, column, 3, 1) if value == FIXED:  # the type of a column of a row group
                fixed.setdefault(column, []).append(place)
            case (4, _, 1, column, 3, 16, 1):  # the bytes of its values, without their lengths
                told.add(column)
    return [place for column in fixed.keys() & told for place in (leaves[column], *fixed[column])]


NANOS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


@dataclass(frozen=True)
class FileFacts:
    """Facts about a file, from its footer.

    Times are nanoseconds since 1970 of the star's own time; only root tables have one, and only with rows. `part` and
    `convention` come from the writer, and are empty if it does not state them: the exporter names the part in root
    tables, and Neve names the convention of the ids, too.
    """

    rows: int
    bytes: int
    time_min: int | None
    time_max: int | None
    without_id: int
    part: str
    convention: str
    created_by: str


def read_file_facts(file: OtapFile, filesystem: pafs.FileSystem) -> FileFacts:
    """Read the facts of a file; a column is read only if the footer has no statistics of it."""
    with open_file(file.path, filesystem) as parquet:
        least, most = _time_range(file, parquet)
        columns = parquet.schema_arrow
        return FileFacts(
            rows=parquet.metadata.num_rows,
            bytes=file.size,
            time_min=least,
            time_max=most,
            without_id=_count_without_id(parquet),
            part=file.part or read_part_id(columns),
            convention=_read_metadata(columns, IDS),
            created_by=parquet.metadata.created_by or "",
        )


def read_part_id(columns: pa.Schema) -> str:
    """Return the part that a file declares; only root tables do."""
    return _read_metadata(columns, PART_ID)


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
        words = (str(error).splitlines() or [""])[0]
        raise InputError(f"can't read {path} as Parquet: {words}", hint="fetch or write the file again") from error


def count_nulls(parquet: pq.ParquetFile, name: str) -> int:
    """Count the nulls of a column that is not nested."""
    return sum(_count_group_nulls(parquet, name, group) for group in _groups_with_rows(parquet))


def _read_metadata(columns: pa.Schema, key: str) -> str:
    return str((columns.metadata or {}).get(key.encode(), b"").decode())


def _time_range(file: OtapFile, parquet: pq.ParquetFile) -> tuple[int | None, int | None]:
    if file.table not in STARS:
        return None, None
    name = STARS[file.table].time_column
    if name not in parquet.schema_arrow.names:
        raise InputError(f"there is no column {name}, which {file.table} must have")
    kind = parquet.schema_arrow.field(name).type
    factor = NANOS[kind.unit] if pa.types.is_timestamp(kind) else 1
    bounds = [_bounds(parquet, name, group) for group in _groups_with_rows(parquet)]
    least = [one[0] for one in bounds if one is not None]
    most = [one[1] for one in bounds if one is not None]
    return (min(least) * factor, max(most) * factor) if least else (None, None)


def _bounds(parquet: pq.ParquetFile, name: str, group: int) -> tuple[int, int] | None:
    """Return the smallest and the largest whole number of a column in a row group; None if all are null."""
    statistics = parquet.metadata.row_group(group).column(_leaf_index(parquet, name)).statistics
    if statistics is not None and statistics.has_min_max:
        return statistics.min_raw, statistics.max_raw
    column = parquet.read_row_group(group, columns=[name]).column(name)
    found = pc.min_max(column.cast(pa.int64()))
    return None if found["min"].as_py() is None else (found["min"].as_py(), found["max"].as_py())


def _count_without_id(parquet: pq.ParquetFile) -> int:
    """Count rows without an id.

    If the column is missing, all rows count. A table of attributes needs no ids.
    """
    names = parquet.schema_arrow.names
    if "id" not in names:
        return 0 if "parent_id" in names else parquet.metadata.num_rows
    return count_nulls(parquet, "id")


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
        raise InputError(f"there is no column {PARENT}")
    column = paths.index(PARENT)
    statistics = [
        file.metadata.row_group(group).column(column).statistics for group in range(file.metadata.num_row_groups)
    ]
    return [(told.min, told.max) if told is not None and told.has_min_max else None for told in statistics]
