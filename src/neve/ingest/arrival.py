"""The order of arrival of spans: `ingested_at`, then `arrival_order`.

The number is a count of the rows of a source. Sources that share their `ingested_at` (the files of a run, the
partitions of a topic) differ in the bits above the count: these hold the place of the file, or the time of the message.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neve.model.columns import TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.otlp import Decoded

Ranks = npt.NDArray[np.int64]

LATEST_UNIX_NANO = np.uint64(2**63 - 1)
ARRIVAL_ORDER, INGESTED_AT, REPEATS = "arrival_order", "ingested_at", "dropped_repeats"
COUNT_BITS = 32  # of rows of one source in one batch
MAX_RANK = (1 << 30) - 1
NANOS_PER_MS = 1_000_000


@dataclass
class ArrivalCounter:
    """Counts the rows of each source of a task."""

    _next: Counter[str] = field(default_factory=Counter)

    def number(self, source: str, batch: pa.RecordBatch, ranks: Ranks | None) -> pa.RecordBatch:
        """Return a batch whose rows continue the count of their source, after the rank of each row.

        Rows of other signals than spans have no such column, and are returned as they are.
        """
        if not _is_numbered(batch):
            return batch
        start = self._next[source]
        self._next[source] += batch.num_rows
        places = np.arange(start, start + batch.num_rows, dtype=np.int64)
        if ranks is not None:
            places += np.clip(ranks, -MAX_RANK, MAX_RANK) << COUNT_BITS
        return _replace(batch, ARRIVAL_ORDER, pa.array(places))


def clear_order(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose order of arrival is unknown."""
    return _replace(batch, ARRIVAL_ORDER, pa.nulls(batch.num_rows, pa.int64())) if _is_numbered(batch) else batch


def rank_by_time(times_ms: Ranks, started_unix_nano: int) -> Ranks:
    """Return the ranks of the messages of one partition by their times, which never fall behind an earlier message's.

    They are relative to the start of the batch, so that they are small numbers.

    >>> rank_by_time(np.array([1_000, 900, 1_007]), 2_000_000_000).tolist()
    [-1000, -1000, -993]
    """
    return np.maximum.accumulate(times_ms) - started_unix_nano // NANOS_PER_MS


def set_received(decoded: Decoded, received_unix_nano: Sequence[int]) -> pa.RecordBatch:
    """Return the batch with the time of arrival of each row's message.

    Frames of the raw zone have 64 bits without a sign for it, and columns have one bit less.
    """
    times = np.minimum(np.asarray(received_unix_nano, dtype=np.uint64), LATEST_UNIX_NANO).astype(np.int64)
    received = times[decoded.message.to_numpy()] // 1000
    return _replace(decoded.batch, INGESTED_AT, pa.array(received).cast(TIMESTAMP))


def _is_numbered(batch: pa.RecordBatch) -> bool:
    return ARRIVAL_ORDER in batch.schema.names


def _replace(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, batch.schema.field(place), values)
