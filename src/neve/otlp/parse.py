"""Parse a column of messages so that one malformed value costs only itself, and many cost only a little each."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.message import DecodeError, Message

from neve.otlp.wire import ReaderPanic, handler, message_class, read

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
    bad = unsafe(message_class(name), column)
    good = others(len(column), bad)
    rest = column.take(pa.array(good)) if bad else column
    try:
        return Parsed(read(handler(name), rest), good, bad)
    except ValueError:
        found = malformed(name, rest)
    bad |= {int(good[row]): detail for row, detail in found.items()}
    good = others(len(column), bad)
    return Parsed(read(handler(name), column.take(pa.array(good))), good, bad)


def unsafe(kind: type[Message], column: pa.BinaryArray) -> dict[int, str]:
    """Which values are so long that they might harm the reader into Arrow, and are refused by protobuf's own."""
    lengths = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return _refused_by_protobuf(kind, column, np.flatnonzero(lengths > SAFE_BYTES).tolist())


def malformed(name: str, column: pa.BinaryArray) -> dict[int, str]:
    """Which values can't be decoded, and why; none may be too long to be safe.

    A few among many are found by halving. A try takes as long as a hundred values, so that many are found by protobuf's
    own reader, one by one. The two agree but for oddities of which it refuses more, like tags of more than five bytes.
    """
    few = _halve(name, column)
    if few is not None:
        return few
    bad = _refused_by_protobuf(message_class(name), column, range(len(column)))
    good = others(len(column), bad)
    try:
        read(handler(name), column.take(pa.array(good)))
    except ValueError:  # the two disagree about more than is known
        bad |= _refused_by_reader(name, column, good.tolist())
    return bad


def others(count: int, rows: Iterable[int]) -> Indices:
    """The rows out of so many that are not among these."""
    keep = np.ones(count, dtype=np.bool_)
    keep[list(rows)] = False
    return np.flatnonzero(keep)


def _halve(name: str, column: pa.BinaryArray) -> dict[int, str] | None:
    """The malformed values when they are few and the reader says what is wrong."""
    bad: dict[int, str] = {}
    waiting = [(0, len(column))]
    while waiting and len(bad) <= FEW:
        start, size = waiting.pop()
        try:
            read(handler(name), column.slice(start, size))
        except ReaderPanic:
            return None  # each one is written to the log of the process: not again and again
        except ValueError as error:
            if size == 1:
                bad[start] = str(error)
            else:
                waiting += [(start + size // 2, size - size // 2), (start, size // 2)]
    return bad if len(bad) <= FEW else None


def _refused_by_protobuf(kind: type[Message], column: pa.BinaryArray, rows: Iterable[int]) -> dict[int, str]:
    """Which of these rows protobuf's own reader can't read; it knows a bound for everything that is nested."""
    bad: dict[int, str] = {}
    for row in rows:
        try:
            kind.FromString(column[row].as_py() or b"")
        except DecodeError as error:
            bad[row] = str(error)
    return bad


def _refused_by_reader(name: str, column: pa.BinaryArray, rows: Iterable[int]) -> dict[int, str]:
    bad: dict[int, str] = {}
    for row in rows:
        try:
            read(handler(name), column.slice(row, 1))
        except ValueError as error:
            bad[row] = str(error)
    return bad
