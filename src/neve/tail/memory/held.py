"""The spans of traces that are not decided yet, as Arrow batches, and how much memory they take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.tables import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neve.tail.memory.ledger import Receipts

RECEIPT = "receipt"
SCHEMA = SPANS.schema.append(pa.field(RECEIPT, pa.int64(), nullable=False))
BATCH_ROWS = 16_384
SMALL_ROWS = BATCH_ROWS // 4
AT_ONCE = 64  # small batches that are put together when there are so many: each costs far more than its values
BATCH_BYTES = 8_192  # that a batch takes besides its values: some hundred buffers, each a little too large


class Held:
    """Batches in the order in which they came: new ones, which no cycle has seen, and those of open traces."""

    def __init__(self) -> None:
        self._new: list[pa.RecordBatch] = []
        self._old: list[pa.RecordBatch] = []
        self.bytes = 0
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Hold some rows; a slice of something larger is copied out of it."""
        if batch.get_total_buffer_size() > 2 * batch.nbytes + BATCH_BYTES:
            batch = batch.take(pa.array(np.arange(batch.num_rows)))
        self._new.append(batch)
        self.rows += batch.num_rows
        self.bytes += size_of(batch)
        small = self._new[-AT_ONCE:]
        if len(small) == AT_ONCE and all(one.num_rows < SMALL_ROWS for one in small):
            self._set(new=[*self._new[:-AT_ONCE], *_joined(small)])

    def new(self) -> pa.Table:
        """The rows that no cycle has seen."""
        return pa.Table.from_batches(self._new, SCHEMA)

    def grow_old(self) -> None:
        """What was new has been seen."""
        self._set(new=[], old=list(_coalesced([*self._old, *self._new])))

    def take(self, keys: pa.BinaryArray) -> pa.Table:
        """The rows of some traces, which are held no longer."""
        found = [batch.filter(mask) for batch, mask in self._where(keys)]
        self.remove(keys)
        return pa.Table.from_batches([batch for batch in found if batch.num_rows], SCHEMA)

    def remove(self, keys: pa.BinaryArray) -> Receipts:
        """Let go of the rows of some traces; their receipts."""
        gone = [batch.column(RECEIPT).filter(mask).to_numpy(zero_copy_only=False) for batch, mask in self._where(keys)]
        self._set(new=list(_without(self._new, keys)), old=list(_without(self._old, keys)))
        return np.concatenate([*gone, np.empty(0, np.int64)]).astype(np.int64)

    def keys(self) -> pa.BinaryArray:
        """The traces that are held, each once."""
        found = [pc.unique(keys_of(batch)) for batch in (*self._old, *self._new)]
        return pc.unique(pa.chunked_array(found, pa.binary())).combine_chunks() if found else pa.array([], pa.binary())

    def state(self) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """What is held; batches never change."""
        return list(self._new), list(self._old)

    def restore(self, state: tuple[list[pa.RecordBatch], list[pa.RecordBatch]]) -> None:
        """Be as before."""
        self._set(*state)

    def _where(self, keys: pa.BinaryArray) -> Iterator[tuple[pa.RecordBatch, pa.BooleanArray]]:
        return ((batch, _among(batch, keys)) for batch in (*self._old, *self._new))

    def _set(self, new: list[pa.RecordBatch], old: list[pa.RecordBatch] | None = None) -> None:
        self._new, self._old = new, self._old if old is None else old
        self.rows = sum(batch.num_rows for batch in (*self._old, *self._new))
        self.bytes = sum(size_of(batch) for batch in (*self._old, *self._new))


def size_of(batch: pa.RecordBatch) -> int:
    """How much memory a batch takes, about."""
    return int(batch.get_total_buffer_size()) + BATCH_BYTES


def keys_of(rows: pa.RecordBatch | pa.Table) -> pa.BinaryArray:
    """One value for the organization and the trace of each row; no organization's name has a zero byte."""
    return pc.binary_join_element_wise(rows.column("organization_id").cast(pa.binary()), rows.column("trace_id"), b"\0")


def _among(batch: pa.RecordBatch, keys: pa.BinaryArray) -> pa.BooleanArray:
    return pc.is_in(keys_of(batch), value_set=keys)


def _without(batches: Iterable[pa.RecordBatch], keys: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
    """Batches without the rows of some traces; those that have none stay as they are."""
    for batch in batches:
        mask = _among(batch, keys)
        if not mask.true_count:
            yield batch
        elif mask.true_count < batch.num_rows:
            yield batch.filter(pc.invert(mask))


def _coalesced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together with their neighbours."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows >= SMALL_ROWS:
            yield from _joined(held)
            held = []
            yield batch
            continue
        if sum(one.num_rows for one in held) + batch.num_rows > BATCH_ROWS:
            yield from _joined(held)
            held = []
        held.append(batch)
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined
