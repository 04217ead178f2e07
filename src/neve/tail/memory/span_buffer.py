"""Buffer of the spans of undecided traces, as Arrow batches, with the memory that they take.

Each fed row has a receipt. Its feed is notified when all its rows are decided, and delivered if kept, so that a feed
that can be replayed (Kafka) knows which offset to commit.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.columns import TIMESTAMP
from neve.model.tables import SPANS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    Receipts = npt.NDArray[np.int64]

NO_RECEIPT = -1  # receipt of rows without a callback


class FeedLedger:
    """Thread-safe counter of the unsettled rows of each feed."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._left: dict[int, tuple[int, Callable[[], None]]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._left)

    def open(self, rows: int, done: Callable[[], None] | None) -> int:
        """Return a receipt for some rows, and call `done` when all are settled, or at once if there are none."""
        if done is None:
            return NO_RECEIPT
        if not rows:
            done()
            return NO_RECEIPT
        with self._lock:
            receipt = next(self._numbers)
            self._left[receipt] = rows, done
        return receipt

    def settle(self, receipts: Receipts) -> None:
        """Settle rows, given by their receipts."""
        finished = []
        known, counts = np.unique(receipts[receipts != NO_RECEIPT], return_counts=True)
        with self._lock:
            for receipt, count in zip(known.tolist(), counts.tolist(), strict=True):
                left, done = self._left[receipt]
                self._left[receipt] = left - count, done
                if left == count:
                    del self._left[receipt]
                    finished.append(done)
        for done in finished:
            done()


RECEIPT = "receipt"
SCHEMA = SPANS.schema.append(pa.field(RECEIPT, pa.int64(), nullable=False))
BATCH_ROWS = 16_384
SMALL_ROWS = BATCH_ROWS // 4
SMALL_BATCHES = 64  # small batches that are merged when there are this many: each costs far more than its values
BATCH_BYTES = 8_192  # overhead of a batch: about a hundred buffers, each slightly too large


class SpanBuffer:
    """Batches in the order of arrival: new ones, which no cycle has seen, and those of open traces."""

    def __init__(self) -> None:
        self._new: list[pa.RecordBatch] = []
        self._old: list[pa.RecordBatch] = []
        self.bytes = 0
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows, which are copied if they are a slice of larger buffers."""
        if batch.get_total_buffer_size() > 2 * batch.nbytes + BATCH_BYTES:
            batch = batch.take(pa.array(np.arange(batch.num_rows)))
        self._new.append(batch)
        self.rows += batch.num_rows
        self.bytes += measure_batch(batch)
        small = self._new[-SMALL_BATCHES:]
        if len(small) == SMALL_BATCHES and all(one.num_rows < SMALL_ROWS for one in small):
            self._set(new=[*self._new[:-SMALL_BATCHES], *_concat_batches(small)])

    def new(self) -> pa.Table:
        """Return the rows that no cycle has seen."""
        return pa.Table.from_batches(self._new, SCHEMA)

    def mark_seen(self) -> None:
        """Mark all rows as seen by a cycle."""
        self._set(new=[], old=list(_coalesce_batches([*self._old, *self._new])))

    def take(self, keys: pa.BinaryArray) -> pa.Table:
        """Remove and return the rows of some traces."""
        found = [batch.filter(mask) for batch, mask in self._where(keys)]
        self.remove(keys)
        return pa.Table.from_batches([batch for batch in found if batch.num_rows], SCHEMA)

    def remove(self, keys: pa.BinaryArray) -> Receipts:
        """Remove the rows of some traces, and return their receipts."""
        gone = [batch.column(RECEIPT).filter(mask).to_numpy(zero_copy_only=False) for batch, mask in self._where(keys)]
        self._set(new=list(_remove_traces(self._new, keys)), old=list(_remove_traces(self._old, keys)))
        return np.concatenate([*gone, np.empty(0, np.int64)]).astype(np.int64)

    def keys(self) -> pa.BinaryArray:
        """Return the distinct keys of the buffered traces."""
        found = [pc.unique(build_trace_keys(batch)) for batch in (*self._old, *self._new)]
        return pc.unique(pa.chunked_array(found, pa.binary())).combine_chunks() if found else pa.array([], pa.binary())

    def state(self) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Return the current batches, which are immutable, for `restore`."""
        return list(self._new), list(self._old)

    def restore(self, state: tuple[list[pa.RecordBatch], list[pa.RecordBatch]]) -> None:
        """Restore an earlier state."""
        self._set(*state)

    def _where(self, keys: pa.BinaryArray) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        return ((batch, _match_keys(batch, keys)) for batch in (*self._old, *self._new))

    def _set(self, new: list[pa.RecordBatch], old: list[pa.RecordBatch] | None = None) -> None:
        self._new, self._old = new, self._old if old is None else old
        self.rows = sum(batch.num_rows for batch in (*self._old, *self._new))
        self.bytes = sum(measure_batch(batch) for batch in (*self._old, *self._new))


def measure_batch(batch: pa.RecordBatch) -> int:
    """Return the approximate memory of a batch."""
    return int(batch.get_total_buffer_size()) + BATCH_BYTES


def build_trace_keys(rows: pa.RecordBatch | pa.Table) -> pa.BinaryArray:
    """Return a key of organization and trace for each row, separated by a zero byte, which no organization contains."""
    return pc.binary_join_element_wise(rows.column("organization_id").cast(pa.binary()), rows.column("trace_id"), b"\0")


def _match_keys(batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.BooleanArray:
    return pc.is_in(build_trace_keys(batch), value_set=keys)


def _remove_traces(batches: Iterable[pa.RecordBatch], keys: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
    """Yield batches without the rows of some traces, and unchanged if they have none."""
    for batch in batches:
        mask = _match_keys(batch, keys)
        if not mask.true_count:
            yield batch
        elif mask.true_count < batch.num_rows:
            yield batch.filter(pc.invert(mask))


def _coalesce_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Merge small batches with their neighbours."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows >= SMALL_ROWS:
            yield from _concat_batches(held)
            held = []
            yield batch
            continue
        if sum(one.num_rows for one in held) + batch.num_rows > BATCH_ROWS:
            yield from _concat_batches(held)
            held = []
        held.append(batch)
    yield from _concat_batches(held)


def _concat_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


ARRIVAL_COLUMN, ORDER_COLUMN = "ingested_at", "arrival_order"


def select_rows(rows: pa.Table | pa.RecordBatch, organization: str, now_us: int) -> tuple[pa.Table, int]:
    """Return the rows for a selector, each with its arrival time, and the number of rows without a trace id.

    If the selector is for one organization, rows of others belong to other selectors and are removed.
    """
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    table = table.select(SPANS.schema.names).cast(SPANS.schema)
    if organization:
        table = table.filter(pc.equal(table.column("organization_id"), organization))
    traced = pc.fill_null(pc.greater(pc.binary_length(table.column("trace_id")), 0), False)
    lost = table.num_rows - (pc.sum(traced).as_py() or 0)
    table = table.filter(traced) if lost else table
    arrived = table.column(ARRIVAL_COLUMN)
    if arrived.null_count:
        now = pa.scalar(now_us, pa.int64()).cast(TIMESTAMP)
        table = table.set_column(
            table.schema.get_field_index(ARRIVAL_COLUMN), ARRIVAL_COLUMN, pc.fill_null(arrived, now)
        )
    return table, lost


def number_rows(rows: pa.Table, first: int) -> pa.Table:
    """Return rows with their places in the order of arrival, counted over all feeds from `first`."""
    place = rows.schema.get_field_index(ORDER_COLUMN)
    numbers = pa.chunked_array([pa.array(np.arange(first, first + rows.num_rows, dtype=np.int64))])
    return rows.set_column(place, rows.schema.field(place), numbers)


def split_rows(rows: pa.Table, receipt: int, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split rows into batches of about a maximum size."""
    parts = -(-rows.nbytes // most_bytes) or 1
    most = max(1, min(BATCH_ROWS, -(-rows.num_rows // parts)))
    receipts = pa.repeat(pa.scalar(receipt, pa.int64()), rows.num_rows)
    table = rows.append_column(SCHEMA.field(RECEIPT), receipts)
    return (batch for batch in table.to_batches(max_chunksize=most) if batch.num_rows)
