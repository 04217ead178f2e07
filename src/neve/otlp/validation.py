"""Validation of records: checks over whole columns, the filter that drops rows which fail, and rejected records.

A row is dropped with its reason when it can't be parsed, fails a check or can't be decoded. A rejected record
becomes a message of its own, with its resource and scope, so that it can be ingested again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.attributes import find_unreadable_rows
from neve.otlp.decode_result import Intake, Rejected
from neve.otlp.envelope import Envelope, seal_each
from neve.otlp.protobuf import Indices, other_rows, parse_messages
from neve.otlp.values import UnreadableValue
from neve.text import format_bytes

Mask = npt.NDArray[np.bool_]
MAX_INT64 = 2**63 - 1
MAX_ID_BYTES = 32  # bytes of an id in a detail; an id may be as long as its message


@dataclass(frozen=True)
class Check:
    """A reason, the rows that it applies to, and the function that describes one row."""

    reason: str
    failed: Mask
    detail: Callable[[int], str]


def find_failures(checks: list[Check]) -> Iterator[tuple[int, str, str]]:
    """Yield each row that fails a check, with the reason and the detail of the first check that it fails."""
    seen: set[int] = set()
    for check in checks:
        for row in np.flatnonzero(check.failed).tolist():
            if row not in seen:
                seen.add(row)
                yield row, check.reason, check.detail(row)


def check_id(name: str, ids: pa.BinaryArray, width: int) -> Check:
    """Check that ids have their width and are not all zeros."""
    right = pc.and_(pc.equal(pc.binary_length(ids), width), pc.not_equal(ids, bytes(width)))

    def detail(row: int) -> str:
        value = ids[row].as_py()
        text = value[:MAX_ID_BYTES].hex() + ("…" if len(value) > MAX_ID_BYTES else "")
        return f"{name} is {text or 'empty'!r}, expected {width} bytes that are not all zero"

    return Check(f"invalid_{name}", _not(right), detail)


def check_time(name: str, unix_nanos: pa.UInt64Array, intake: Intake, *, needed: bool) -> list[Check]:
    """Check that times are present if needed, fit a 64-bit signed integer and are not far in the future."""
    latest = min(intake.latest_unix_nano, MAX_INT64)
    late = pc.greater(unix_nanos, pa.scalar(latest, pa.uint64())).to_numpy(zero_copy_only=False)

    def in_future(row: int) -> str:
        limit = intake.max_future_nanos // 1_000_000_000
        return f"{name} is {unix_nanos[row].as_py()}, more than {limit} s after it was received"

    def missing(row: int) -> str:
        return f"{name} is {unix_nanos[row].as_py()}, expected the time of the record"

    future = Check("timestamp_in_future", late, in_future)
    if not needed:
        return [future]
    zero = pc.equal(unix_nanos, pa.scalar(0, pa.uint64())).to_numpy(zero_copy_only=False)
    return [Check("missing_time", zero, missing), future]


def check_text(name: str, column: pa.StringArray) -> Check:
    """Check that texts are not empty."""
    empty = pc.equal(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    return Check(f"missing_{name}", empty, lambda row: f"{name} is {column[row].as_py()!r}, expected a name")


def _not(mask: pa.BooleanArray) -> Mask:
    inverted: Mask = ~mask.to_numpy(zero_copy_only=False)
    return inverted


Failure = tuple[int, str, str]  # a row, the reason, the detail
T = TypeVar("T")

MALFORMED = "malformed_record"


@dataclass(frozen=True)
class RecordFilter:
    """Rows that have passed so far, the place of each in the original column, and the rows that were dropped."""

    batch: pa.RecordBatch
    index: Indices
    refused: tuple[Failure, ...] = ()

    @classmethod
    def parse(cls, name: str, column: pa.BinaryArray) -> "RecordFilter":
        """Parse a column as messages `name`, without those that can't be parsed."""
        parsed = parse_messages(name, column)
        return cls(parsed.batch, parsed.index, tuple((row, MALFORMED, bad) for row, bad in parsed.malformed.items()))

    def without(self, refused: Iterable[Failure]) -> "RecordFilter":
        """Return the filter without rejected rows of the batch."""
        out = list(refused)
        if not out:
            return self
        keep = other_rows(self.batch.num_rows, (row for row, *_why in out))
        placed = ((int(self.index[row]), reason, detail) for row, reason, detail in out)
        return RecordFilter(self.batch.take(pa.array(keep)), self.index[keep], (*self.refused, *placed))

    def decode(self, decode: Callable[[pa.RecordBatch], T]) -> tuple["RecordFilter", T]:
        """Decode the rows whose nested values can be read, and return those rows and the result."""
        try:
            return self, decode(self.batch)
        except UnreadableValue:
            readable = self.without((row, MALFORMED, bad) for row, bad in find_unreadable_rows(self.batch).items())
        return readable, decode(readable.batch)


# Each rejected record contains its resource: a large resource and many small records would exceed the memory. Beyond
# this size records are still rejected one by one, without their bytes.
MAX_BYTES = 128 * 1024 * 1024
BYTES_OMITTED = f"its bytes are omitted, because the records before it fill {format_bytes(MAX_BYTES)}"


def reject(envelope: Envelope, refused: Sequence[Failure]) -> list[Rejected]:
    """Reject records of an envelope; a null record has no bytes."""
    rows = np.fromiter((row for row, *_why in refused), np.int64, len(refused))
    return [
        Rejected(reason, detail, int(envelope.message[row]), payload)
        if payload is not None
        else Rejected(reason, f"{detail}; {BYTES_OMITTED}", int(envelope.message[row]), b"")
        for (row, reason, detail), payload in zip(refused, _payloads(envelope.select(rows)), strict=True)
    ]


def count_affordable(sizes: npt.NDArray[np.int64]) -> int:
    """Return the number of leading values that fit the limit."""
    return int(np.searchsorted(np.cumsum(sizes), MAX_BYTES, side="right"))


def value_sizes(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the size of each value; 0 for null."""
    sizes: npt.NDArray[np.int64] = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return sizes


def _payloads(refused: Envelope) -> list[bytes | None]:
    around = sum((value_sizes(column) for column in refused.groups.columns), np.zeros(1, dtype=np.int64))
    sizes = value_sizes(refused.records) + around[refused.group]
    count = min(count_affordable(sizes), len(refused.records) - refused.records.null_count)
    some = refused.select(np.arange(count))
    sealed: list[bytes | None] = seal_each(some.signal, some.records, some.groups.take(some.group)).to_pylist()
    return sealed + [None] * (len(refused.records) - count)
