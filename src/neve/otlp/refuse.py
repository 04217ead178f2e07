"""Refused records as messages of their own, each with its resource and scope, so that it can be read again."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from neve.otlp.batch import Rejected
from neve.otlp.envelope import Envelope, seal_each
from neve.otlp.sieve import Refused

# Each record takes its resource along: a large resource and many small records would make more bytes than there is
# memory. What comes after so many bytes is still refused one by one, without its bytes.
MOST_BYTES = 128 * 1024 * 1024
LEFT_OUT = f"its bytes are left out, because those of the records before it fill {MOST_BYTES >> 20} MB"


def reject(envelope: Envelope, refused: Sequence[Refused]) -> list[Rejected]:
    """Refuse records of an envelope; one that is null has no bytes to give."""
    rows = np.fromiter((row for row, *_why in refused), np.int64, len(refused))
    return [
        Rejected(reason, detail, int(envelope.message[row]), payload)
        if payload is not None
        else Rejected(reason, f"{detail}; {LEFT_OUT}", int(envelope.message[row]), b"")
        for (row, reason, detail), payload in zip(refused, _payloads(envelope.select(rows)), strict=True)
    ]


def affordable(sizes: npt.NDArray[np.int64]) -> int:
    """How many values, from the first on, fill no more than is allowed."""
    return int(np.searchsorted(np.cumsum(sizes), MOST_BYTES, side="right"))


def lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """The size of each value; none for null."""
    sizes: npt.NDArray[np.int64] = pc.binary_length(column).fill_null(0).to_numpy().astype(np.int64)
    return sizes


def _payloads(refused: Envelope) -> list[bytes | None]:
    around = sum((lengths(column) for column in refused.groups.columns), np.zeros(1, dtype=np.int64))
    sizes = lengths(refused.records) + around[refused.group]
    count = min(affordable(sizes), len(refused.records) - refused.records.null_count)
    some = refused.select(np.arange(count))
    sealed: list[bytes | None] = seal_each(some.signal, some.records, some.groups.take(some.group)).to_pylist()
    return sealed + [None] * (len(refused.records) - count)
