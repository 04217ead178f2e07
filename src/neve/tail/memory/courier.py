"""Kept spans on their way to one destination: a queue within a bound, brought in order while the process lives."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from neve.tail.export.port import Delivery, DestinationAway
from neve.tail.export.pump import PumpResult
from neve.tail.memory import metrics
from neve.tail.memory.held import size_of
from neve.tail.metrics import AWAY

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from neve.tail.export.port import Destination

PATIENCE_SECONDS = 5.0  # how long decisions wait for room at a destination that is slow, but not away
REST_SECONDS = 5.0  # how long one that is away is left alone, where it does not say

log = structlog.get_logger("neve.tail")


@dataclass(frozen=True)
class Parcel:
    """A batch to bring; `arrived` is told when it is there."""

    batch: pa.RecordBatch
    batch_id: str
    arrived: Callable[[], None]


class Courier:
    """Brings parcels to a destination. Whoever puts some never waits for one that is away."""

    def __init__(self, destination: Destination, selector: str, most_bytes: int) -> None:
        self.destination = destination
        self._selector, self._most = selector, most_bytes
        self._queue: deque[Parcel] = deque()
        self._changed = threading.Condition()
        self._turn = threading.Lock()  # one thread at a time delivers
        self._thread: threading.Thread | None = None
        self._away: DestinationAway | None = None
        self._stuck = self._stopped = False
        self.waiting_bytes = 0
        self.lost_spans = 0

    @property
    def is_full(self) -> bool:
        """Whether more than half of what may wait does."""
        return self.waiting_bytes > self._most // 2

    @property
    def waiting_spans(self) -> int:
        """How many spans wait."""
        with self._changed:
            return sum(parcel.batch.num_rows for parcel in self._queue)

    def put(self, parcel: Parcel) -> bool:
        """Queue a parcel; false where it could not be held, which is counted.

        A destination that takes, but slowly, is given a moment; once that was in vain, not before it took something.
        """
        size = size_of(parcel.batch)
        if self._thread is None and self._is_over(size) and not self._away:
            self.bring()
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._changed:
            while self._is_over(size):
                left = deadline - time.monotonic()
                if self._away or self._stuck or self._thread is None or left <= 0:
                    self._stuck = True
                    return self._lose(parcel)
                self._changed.wait(left)
            self._queue.append(parcel)
            self._count(size)
            self._changed.notify_all()
        return True

    def bring(self) -> PumpResult:
        """Deliver what waits, until nothing does or the destination is away."""
        total, count = Delivery(), 0
        with self._turn:
            self._away = None
            while (parcel := self._first()) is not None:
                try:
                    delivery = self.destination.deliver(parcel.batch, parcel.batch_id)
                except DestinationAway as error:
                    self._away = error
                    AWAY.labels(self._selector, self.destination.name).inc()
                    log.warning("destination is away", destination=self.destination.name, error=error.message)
                    break
                self._took(parcel, delivery)
                total, count = total + delivery, count + 1
        return PumpResult(self.destination.name, None, count, total, self._away)

    def start(self) -> None:
        """Bring parcels from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"tail-{self.destination.name}", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Bring what waits, for so long at most; a delivery that waits for its next attempt then gives up."""
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
            try:
                self.bring()
            except Exception:  # a bug of one destination must not end its deliveries
                log.exception("a delivery failed", destination=self.destination.name)
                self._away = DestinationAway("the delivery failed; the log says why")
            with self._changed:
                if self._stopped and (self._away or not self._queue):
                    return
                if self._away:
                    self._changed.wait_for(lambda: self._stopped, self._away.after_seconds or REST_SECONDS)

    def _is_over(self, size: int) -> bool:
        return bool(self._queue) and self.waiting_bytes + size > self._most

    def _first(self) -> Parcel | None:
        with self._changed:
            return self._queue[0] if self._queue else None

    def _took(self, parcel: Parcel, delivery: Delivery) -> None:
        with self._changed:
            self._queue.popleft()
            self._count(-size_of(parcel.batch))
            self._stuck = False
            self._changed.notify_all()
        if delivery.rejected:
            log.error(
                "destination refused spans for good",
                destination=self.destination.name,
                rejected=delivery.rejected,
                accepted=delivery.accepted,
                said=delivery.messages,
            )
        parcel.arrived()

    def _lose(self, parcel: Parcel) -> bool:
        self.lost_spans += parcel.batch.num_rows
        metrics.LOST.labels(self._selector, self.destination.name).inc(parcel.batch.num_rows)
        return False

    def _count(self, size: int) -> None:
        self.waiting_bytes += size
        metrics.WAITING.labels(self._selector, self.destination.name).set(self.waiting_bytes)
