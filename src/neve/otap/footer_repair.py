"""Footers of otel-arrow's exporter, read for what the pages hold.

The exporter (0.51 to 0.62) declares ids of traces and spans that it holds in a dictionary as values of a fixed length,
and writes them with a length before each, as values of any length are written. Readers that believe the footer take the
lengths for part of the ids. Such a column gives itself away: its footer tells the bytes of its values, which only
columns of any length have. In a copy of the footer it is then declared as what it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from neve.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"PAR1"
TAIL = 8  # the length of the footer, and the magic
FIXED, ANY_LENGTH = 7, 6  # Parquet's physical types
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)  # Thrift's compact types

Path = tuple[int, ...]


@dataclass
class Thrift:
    """Walks a struct of Thrift's compact protocol; tells the path of field ids to each whole number, and its place."""

    data: bytes
    at: int = 0

    def numbers(self) -> Iterator[tuple[Path, int, int]]:
        """Every whole number of the struct: its path, its value and its place."""
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
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """A Parquet file, with its footer put right where the exporter's mistake is in it."""
    footer = _footer(source)
    try:
        wrong = _mistaken(footer)
    except IndexError as error:
        raise InputError("its footer is damaged") from error
    if not wrong:
        return pq.ParquetFile(source)
    right = bytearray(footer)
    for place in wrong:
        right[place] = ANY_LENGTH << 1  # both types are one byte long, so that nothing else moves
    alone = MAGIC + bytes(right) + len(right).to_bytes(4, "little") + MAGIC
    return pq.ParquetFile(source, metadata=pq.read_metadata(pa.BufferReader(alone)))


def _footer(source: pa.NativeFile) -> bytes:
    size = source.size()
    tail = source.read_at(TAIL, max(size - TAIL, 0))
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length + TAIL > size:
        raise InputError("it is no Parquet file, or it was cut off: there is no footer at its end")
    footer: bytes = source.read_at(length, size - TAIL - length)
    source.seek(0)
    return footer


def _mistaken(footer: bytes) -> list[int]:
    """Where the footer says of a column that its values have a fixed length, and of the same that they have not."""
    leaves: list[int] = []
    fixed: dict[int, list[int]] = {}
    told: set[int] = set()
    for path, value, place in Thrift(footer).numbers():
        match path:
            case (2, _, 1):  # the type of a schema's leaf
                leaves.append(place)
            case (4, _, 1, column, 3, 1) if value == FIXED:  # the type of a column of a row group
                fixed.setdefault(column, []).append(place)
            case (4, _, 1, column, 3, 16, 1):  # the bytes of its values, without their lengths
                told.add(column)
    return [place for column in fixed.keys() & told for place in (leaves[column], *fixed[column])]
