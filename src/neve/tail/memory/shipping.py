"""Spans of kept traces on their way out: stamped, in whole traces, the same batches for all destinations."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.model.tables import SPANS
from neve.tail.decisions import SAMPLED
from neve.tail.export.stamp import stamp
from neve.tail.memory.courier import Parcel
from neve.tail.memory.held import RECEIPT, keys_of
from neve.tail.policy.thresholds import read_threshold
from neve.tail.policy.traces import MAX_THRESHOLD
from neve.tail.policy.tracestate import with_thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.tail.memory.courier import Courier
    from neve.tail.memory.held import Held
    from neve.tail.memory.ledger import Ledger, Receipts

BATCH_SPANS = 20_000  # of kept traces that are brought at once, about
ORDER = [(name, "ascending") for name in ("trace_id", "organization_id", "start_time_unix_nano", "span_id")]


@dataclass(frozen=True)
class Load:
    """Batches to bring everywhere, and the receipts of their rows; without batches, of rows that were let go."""

    receipts: Receipts
    batches: tuple[pa.RecordBatch, ...] = ()


def pack(held: Held, decisions: pa.Table) -> Iterator[Load]:
    """Let go of the spans of decided traces; those of kept ones come out, a bounded number at a time."""
    ours = pc.and_(pc.equal(decisions.column("decision"), SAMPLED), pc.is_null(decisions.column("taken_by")))
    for portion in _portions(decisions.filter(ours)):
        keys = _array(keys_of(portion))
        rows = held.take(keys)
        if rows.num_rows:
            yield Load(rows.column(RECEIPT).to_numpy(), tuple(_batches(rows, portion, keys)))
    yield Load(held.remove(_array(keys_of(decisions))))


class Shipping:
    """Hands loads to the couriers. Ids of batches are of this process alone: cycles begin anew with every one."""

    def __init__(self, couriers: Sequence[Courier], ledger: Ledger) -> None:
        self._couriers, self._ledger = couriers, ledger
        self._run, self._numbers = uuid4().hex[:12], itertools.count()

    def send(self, load: Load) -> None:
        """Put a load on its way; its rows are settled when all of it has arrived everywhere."""
        shipment = Shipment(len(load.batches) * len(self._couriers), lambda: self._ledger.settle(load.receipts))
        for batch in load.batches:
            parcel = Parcel(batch, f"{self._run}-{next(self._numbers):08d}", shipment.arrived)
            for courier in self._couriers:
                courier.put(parcel)


class Shipment:
    """Counts parcels until all have arrived; one that was lost never does."""

    def __init__(self, parcels: int, done: Callable[[], None]) -> None:
        self._left, self._done = parcels, done
        self._lock = threading.Lock()
        if not parcels:
            done()

    def arrived(self) -> None:
        """One more has."""
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done()


def _portions(kept: pa.Table) -> Iterator[pa.Table]:
    """Decisions about traces of a bounded number of spans; a larger trace is alone, or nearly."""
    places = np.cumsum(kept.column("span_count").to_numpy()) // BATCH_SPANS
    edges = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), kept.num_rows]
    return (kept.slice(first, end - first) for first, end in itertools.pairwise(edges) if end > first)


def _batches(rows: pa.Table, kept: pa.Table, keys: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
    """Spans in the order of their traces, with what the decisions say of them; too many come in parts."""
    rows = rows.sort_by(ORDER)
    places = _array(pc.index_in(keys_of(rows), value_set=keys))
    counts = _array(kept.column("adjusted_count")).take(places)
    read = [read_threshold(text or "") for text in kept.column("threshold").to_pylist()]
    known = np.array([MAX_THRESHOLD if value is None else value for value in read], dtype=np.uint64)
    batch = rows.select(SPANS.schema.names).combine_chunks().to_batches()[0]
    stamped = stamp(batch, counts, with_thresholds(batch.column("trace_state"), known[places.to_numpy()]))
    size = BATCH_SPANS if stamped.num_rows > 2 * BATCH_SPANS else stamped.num_rows
    return (stamped.slice(first, size) for first in range(0, stamped.num_rows, size))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
