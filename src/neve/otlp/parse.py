"""Parse a column of messages so that one malformed value costs only itself, and many cost only a little each."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError

from neve.otlp.wire import handler, message_class

Indices = npt.NDArray[np.int64]

# The reader into Arrow recurses into groups, which no OTLP message has, and on a hundred thousand of them it ends the
# process. A group takes a byte at least: up to this size a value can't hold enough of them.
SAFE_BYTES = 16 * 1024
FEW = 64  # malformed values that are found by halving


@dataclass(frozen=True)
class Parsed:
    """The rows that could be parsed, where they stood, and what was wrong with the others."""

    batch: pa.RecordBatch
    index: Indices
    malformed: dict[int, str]


def parse(name: str, column: pa.BinaryArray) -> Parsed:
    """Decode every value that can be decoded as the OTLP message `name`."""
    bad = _refused_by_protobuf(name, column, np.flatnonzero(_lengths(column) > SAFE_BYTES))
    good = others(len(column), bad)
    rest = column.take(pa.array(good)) if bad else column
    try:
        return Parsed(handler(name).array_to_record_batch(rest), good, bad)
    except ValueError:
        found = malformed(name, rest)
    bad |= {int(good[row]): detail for row, detail in found.items()}
    good = others(len(column), bad)
    return Parsed(handler(name).array_to_record_batch(column.take(pa.array(good))), good, bad)


def malformed(name: str, column: pa.BinaryArray) -> dict[int, str]:
    """Which values can't be decoded, and why; they must be safe to try.

    Halving finds a few among many with a few tries. A try takes as long as a hundred values, so that many malformed
    values are found by protobuf's own reader, one by one. It refuses what the reader into Arrow refuses, and tags of
    more than five bytes besides.
    """
    bad = _halve(name, column, FEW)
    if len(bad) <= FEW:
        return bad
    bad = _refused_by_protobuf(name, column, range(len(column)))
    good = others(len(column), bad)
    more = _halve(name, column.take(pa.array(good)), len(good))
    return bad | {int(good[row]): detail for row, detail in more.items()}


def others(count: int, rows: Iterable[int]) -> Indices:
    """The rows out of so many that are not among these."""
    keep = np.ones(count, dtype=np.bool_)
    keep[list(rows)] = False
    return np.flatnonzero(keep)


def _halve(name: str, column: pa.BinaryArray, most: int) -> dict[int, str]:
    """The malformed values; the search ends when there are more than `most`."""
    wire = handler(name)
    bad: dict[int, str] = {}
    waiting = [(0, len(column))]
    while waiting and len(bad) <= most:
        start, size = waiting.pop()
        try:
            wire.array_to_record_batch(column.slice(start, size))
        except ValueError as error:
            if size == 1:
                bad[start] = str(error)
            else:
                waiting += [(start + size // 2, size - size // 2), (start, size // 2)]
    return bad


def _refused_by_protobuf(name: str, column: pa.BinaryArray, rows: Iterable[int]) -> dict[int, str]:
    """Which of these rows protobuf's own reader can't read; it knows a bound for everything that is nested."""
    read = message_class(name).FromString
    bad: dict[int, str] = {}
    for row in rows:
        try:
            read(column[row].as_py() or b"")
        except DecodeError as error:
            bad[int(row)] = str(error)
    return bad


def _lengths(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    lengths: npt.NDArray[np.int32] = pc.binary_length(column).fill_null(0).to_numpy()
    return lengths
