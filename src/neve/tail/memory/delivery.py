"""Delivery of kept spans from memory: batches of whole traces, in a bounded queue and thread for each destination.

All destinations get the same batches, in order, while the process lives.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.logger import get_logger
from neve.model.tables import SPANS
from neve.tail import metrics
from neve.tail.decisions import SAMPLED
from neve.tail.export.destination import Delivery, DeliveryResult, DestinationUnavailable
from neve.tail.memory.span_buffer import RECEIPT, build_trace_keys, measure_batch
from neve.tail.metrics import UNAVAILABLE
from neve.tail.policy.evaluate.thresholds import read_threshold, stamp_adjusted_count, write_thresholds
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.tail.export.destination import Destination
    from neve.tail.memory.span_buffer import FeedLedger, Receipts, SpanBuffer


FULL_QUEUE_WAIT_SECONDS = 5.0  # maximum wait for space in the queue of a destination that is slow, but available
UNAVAILABLE_PAUSE_SECONDS = 5.0  # pause after a destination was unavailable, if it requests none

log = get_logger("neve.tail")


@dataclass(frozen=True)
class QueuedBatch:
    """Batch in a delivery queue, with `on_delivered` as the callback after its delivery."""

    batch: pa.RecordBatch
    batch_id: str
    on_delivered: Callable[[], None]


class DeliveryQueue:
    """Bounded delivery queue of one destination, whose producers never wait for an unavailable destination."""

    def __init__(self, destination: Destination, selector: str, most_bytes: int) -> None:
        self.destination = destination
        self._selector, self._most = selector, most_bytes
        self._queue: deque[QueuedBatch] = deque()
        self._changed = threading.Condition()
        self._delivery_lock = threading.Lock()  # one thread at a time delivers
        self._thread: threading.Thread | None = None
        self._error: DestinationUnavailable | None = None
        self._stuck = self._stopped = False
        self.waiting_bytes = 0
        self.lost_spans = 0

    @property
    def is_full(self) -> bool:
        """True if the queue is more than half full."""
        return self.waiting_bytes > self._most // 2

    @property
    def waiting_spans(self) -> int:
        """Number of queued spans."""
        with self._changed:
            return sum(item.batch.num_rows for item in self._queue)

    def enqueue(self, item: QueuedBatch) -> bool:
        """Queue a batch, or count it as lost and return false if there is no space.

        A slow destination is given some time to make space. After that failed once, producers don't wait again until
        the destination has accepted a batch.
        """
        size = measure_batch(item.batch)
        if self._thread is None and self._is_over(size) and not self._error:
            self.deliver()
        deadline = time.monotonic() + FULL_QUEUE_WAIT_SECONDS
        with self._changed:
            while self._is_over(size):
                left = deadline - time.monotonic()
                if self._error or self._stuck or self._thread is None or left <= 0:
                    self._stuck = True
                    return self._count_loss(item)
                self._changed.wait(left)
            self._queue.append(item)
            self._count(size)
            self._changed.notify_all()
        return True

    def deliver(self) -> DeliveryResult:
        """Deliver queued batches until the queue is empty or the destination is unavailable."""
        total, count = Delivery(), 0
        with self._delivery_lock:
            self._error = None
            while (item := self._peek()) is not None:
                try:
                    delivery = self.destination.deliver(item.batch, item.batch_id)
                except DestinationUnavailable as error:
                    self._mark_unavailable(error)
                    UNAVAILABLE.labels(self._selector, self.destination.name).inc()
                    log.warning("destination is unavailable", destination=self.destination.name, error=error.message)
                    break
                self._complete(item, delivery)
                total, count = total + delivery, count + 1
        return DeliveryResult(self.destination.name, None, count, total, self._error)

    def start(self) -> None:
        """Start to deliver batches in a separate thread."""
        self._thread = threading.Thread(target=self._run, name=f"tail-{self.destination.name}", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Deliver queued batches for a limited time, then abort a delivery that waits for its next attempt."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)
        self.destination.close()
        if self._thread is not None:
            self._thread.join(seconds)
            self._thread = None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._queue)
                is_last = self._stopped  # a stop during an attempt that fails is followed by one more attempt
            try:
                self.deliver()
            except Exception:  # a bug in one destination must not end its deliveries
                log.exception("delivery failed", destination=self.destination.name)
                self._mark_unavailable(DestinationUnavailable("the delivery failed; the log has the reason"))
            with self._changed:
                if is_last and (self._error or not self._queue):
                    return
                if self._error:
                    self._changed.wait_for(
                        lambda: self._stopped, self._error.after_seconds or UNAVAILABLE_PAUSE_SECONDS
                    )

    def _mark_unavailable(self, error: DestinationUnavailable) -> None:
        """Remember that the destination is unavailable, and wake producers that wait for space in the queue."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _is_over(self, size: int) -> bool:
        return bool(self._queue) and self.waiting_bytes + size > self._most

    def _peek(self) -> QueuedBatch | None:
        with self._changed:
            return self._queue[0] if self._queue else None

    def _complete(self, item: QueuedBatch, delivery: Delivery) -> None:
        with self._changed:
            self._queue.popleft()
            self._count(-measure_batch(item.batch))
            self._stuck = False
            self._changed.notify_all()
        if delivery.rejected:
            log.error(
                "destination rejected spans",
                destination=self.destination.name,
                rejected=delivery.rejected,
                accepted=delivery.accepted,
                said=delivery.messages,
            )
        item.on_delivered()

    def _count_loss(self, item: QueuedBatch) -> bool:
        self.lost_spans += item.batch.num_rows
        metrics.LOST.labels(self._selector, self.destination.name).inc(item.batch.num_rows)
        return False

    def _count(self, size: int) -> None:
        self.waiting_bytes += size
        metrics.WAITING.labels(self._selector, self.destination.name).set(self.waiting_bytes)


BATCH_SPANS = 20_000  # approximate number of spans of kept traces in a batch
SORT_ORDER = [(name, "ascending") for name in ("trace_id", "organization_id", "start_time_unix_nano", "span_id")]


@dataclass(frozen=True)
class DecidedSpans:
    """Batches for all destinations with the receipts of their rows, or only the receipts of discarded rows."""

    receipts: Receipts
    batches: tuple[pa.RecordBatch, ...] = ()


def take_decided_spans(held: SpanBuffer, decisions: pa.Table) -> Iterator[DecidedSpans]:
    """Remove the spans of decided traces from the buffer, and yield those of kept traces in bounded portions."""
    ours = pc.and_(pc.equal(decisions.column("decision"), SAMPLED), pc.is_null(decisions.column("taken_by")))
    for portion in _split_decisions(decisions.filter(ours)):
        keys = _to_array(build_trace_keys(portion))
        rows = held.take(keys)
        if rows.num_rows:
            yield DecidedSpans(rows.column(RECEIPT).to_numpy(), tuple(_build_batches(rows, portion, keys)))
    yield DecidedSpans(held.remove(_to_array(build_trace_keys(decisions))))


class DeliveryDispatcher:
    """Distribution of decided spans to the delivery queues.

    Batch ids are unique to this process, as each process numbers its cycles from the start.
    """

    def __init__(self, queues: Sequence[DeliveryQueue], ledger: FeedLedger) -> None:
        self._queues, self._ledger = queues, ledger
        self._run, self._numbers = uuid4().hex[:12], itertools.count()

    def send(self, decided: DecidedSpans) -> None:
        """Queue batches for all destinations, and settle their rows after every delivery has succeeded."""
        pending = PendingDelivery(
            len(decided.batches) * len(self._queues), lambda: self._ledger.settle(decided.receipts)
        )
        for batch in decided.batches:
            item = QueuedBatch(batch, f"{self._run}-{next(self._numbers):08d}", pending.count_delivery)
            for queue in self._queues:
                queue.enqueue(item)


class PendingDelivery:
    """Countdown of deliveries that calls back after the last, and never if a batch was lost."""

    def __init__(self, items: int, done: Callable[[], None]) -> None:
        self._left, self._done = items, done
        self._lock = threading.Lock()
        if not items:
            done()

    def count_delivery(self) -> None:
        """Count one delivery."""
        with self._lock:
            self._left -= 1
            last = self._left == 0
        if last:
            self._done()


def _split_decisions(kept: pa.Table) -> Iterator[pa.Table]:
    """Split decisions into portions of a bounded number of spans, in which a larger trace is (nearly) alone."""
    places = np.cumsum(kept.column("span_count").to_numpy()) // BATCH_SPANS
    edges = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), kept.num_rows]
    return (kept.slice(first, end - first) for first, end in itertools.pairwise(edges) if end > first)


def _build_batches(rows: pa.Table, kept: pa.Table, keys: pa.BinaryArray) -> Iterator[pa.RecordBatch]:
    """Yield spans sorted by trace and stamped with their decisions, in several batches if there are many."""
    rows = rows.sort_by(SORT_ORDER)
    places = _to_array(pc.index_in(build_trace_keys(rows), value_set=keys))
    counts = _to_array(kept.column("adjusted_count")).take(places)
    read = [read_threshold(text or "") for text in kept.column("threshold").to_pylist()]
    known = np.array([MAX_THRESHOLD if value is None else value for value in read], dtype=np.uint64)
    batch = rows.select(SPANS.schema.names).combine_chunks().to_batches()[0]
    stamped = stamp_adjusted_count(
        batch, counts, write_thresholds(batch.column("trace_state"), known[places.to_numpy()])
    )
    size = BATCH_SPANS if stamped.num_rows > 2 * BATCH_SPANS else stamped.num_rows
    return (stamped.slice(first, size) for first in range(0, stamped.num_rows, size))


def _to_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
