"""Summaries as Arrow batches and as the arrays that policies are asked with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.policy.traces import Traces
from neve.tail.summary import BITS

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.traces import Bools, Integers, Unsigned
    from neve.tail.summary import Summary

NANOS_PER_MS = 1_000_000
ID_BYTES = 16
LOW_56 = np.uint64((1 << 56) - 1)


def traces_of(rows: pa.Table, summary: Summary, ready_us: Integers) -> Traces:
    """Traces as policies see them."""
    ids = id_bytes(rows.column("trace_id"))
    bits = _bits(rows, summary)
    facts = len(summary.policies.facts)
    nanos = integers(rows, "end_ns") - integers(rows, "start_ns")
    return Traces(
        ids=ids,
        span_count=integers(rows, "span_count"),
        bytes=integers(rows, "spans_bytes"),
        duration_ms=(np.sign(nanos) * (np.abs(nanos) // NANOS_PER_MS)).astype(np.int64),
        running_latency=bits[:, facts:],
        facts=bits[:, :facts],
        ready_us=ready_us,
        keys=tuple(_keys(rows.column(f"key_{place}")) for place in range(len(summary.policies.keys))),
        head_threshold=integers(rows, "head_threshold").astype(np.uint64),
        randomness=_randomness(rows, ids),
    )


def id_bytes(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """The bytes of ids, 16 in a row; shorter ones have zeros before them, of longer ones the last 16 count."""
    array = column.combine_chunks()
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) and array.num_chunks else array
    if not len(array):
        return np.zeros((0, ID_BYTES), np.uint8)
    lengths = np.asarray(pc.binary_length(array))
    if (lengths == ID_BYTES).all():
        fixed = array.cast(pa.binary(ID_BYTES))
        return np.frombuffer(fixed.buffers()[1], np.uint8, len(fixed) * ID_BYTES, fixed.offset * ID_BYTES).reshape(
            -1, ID_BYTES
        )
    padded = b"".join(value.as_py()[-ID_BYTES:].rjust(ID_BYTES, b"\0") for value in array)
    return np.frombuffer(padded, np.uint8).reshape(-1, ID_BYTES)


def integers(rows: pa.Table, name: str) -> Integers:
    """A column of whole numbers, nulls as 0."""
    column = rows.column(name)
    return np.asarray(column.fill_null(0) if column.null_count else column, dtype=np.int64)


def _bits(rows: pa.Table, summary: Summary) -> Bools:
    found = np.zeros((rows.num_rows, summary.bits), np.bool_)
    for place in range(summary.bits):
        word = integers(rows, f"facts_{place // BITS}")
        found[:, place] = (word >> (place % BITS)) & 1
    return found


def _keys(column: pa.ChunkedArray) -> tuple[str, ...]:
    joined = pc.binary_join(column.cast(pa.list_(pa.string())), ",").fill_null("")
    return tuple(joined.to_pylist())


def _randomness(rows: pa.Table, ids: npt.NDArray[np.uint8]) -> Unsigned:
    low = np.ascontiguousarray(ids[:, 8:]).view(">u8").reshape(-1).astype(np.uint64) & LOW_56
    column = rows.column("randomness")
    if column.null_count == len(column):
        return low
    said = np.asarray(column.is_valid())
    return np.where(said, integers(rows, "randomness").astype(np.uint64), low)
