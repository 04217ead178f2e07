"""Deliveries beside decisions: nobody waits for a destination that is away, and a slow one is given a moment."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.tail.memory import delivery as courier_module
from neve.tail.memory.delivery import DeliveryQueue, QueuedBatch
from tests.tail.lakes import Span
from tests.tail.memory.feeds import Place, rows_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pytest

    from neve.tail.export.destination import Delivery

BATCH = rows_of([Span(1, 1)]).to_batches()[0]


@dataclass
class Slow(Place):
    """A destination that takes its time."""

    seconds: float = 0.05

    def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
        """Take a batch, slowly."""
        time.sleep(self.seconds)
        return super().deliver(batch, batch_id)


def parcels(count: int, arrived: list[int]) -> list[QueuedBatch]:
    """So many parcels that tell when they have arrived."""
    return [QueuedBatch(BATCH, f"b{number}", lambda number=number: arrived.append(number)) for number in range(count)]  # type: ignore[misc]


def test_a_slow_destination_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has more for it than may wait, waits."""
    monkeypatch.setattr(courier_module, "FULL_QUEUE_WAIT_SECONDS", 600)
    arrived: list[int] = []
    place = Slow()
    courier = DeliveryQueue(place, "tail", 30_000)
    courier.start()
    assert all(courier.enqueue(parcel) for parcel in parcels(12, arrived))
    courier.stop(600)
    assert arrived == list(range(12))
    assert (courier.lost_spans, courier.waiting_bytes, place.closed) == (0, 0, True)


def test_one_that_is_away_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may wait does, the rest is lost and counted; when it is back it gets what waited."""
    monkeypatch.setattr(courier_module, "FULL_QUEUE_WAIT_SECONDS", 3600)  # whoever waits for room does not end
    arrived: list[int] = []
    place = Place(away=True, after_seconds=3600)
    courier = DeliveryQueue(place, "tail", 30_000)
    courier.enqueue(parcels(1, arrived)[0])
    assert courier.deliver().error
    courier.start()
    taken = [courier.enqueue(parcel) for parcel in parcels(10, arrived)]
    assert taken.count(False) == courier.lost_spans > 5
    assert courier.is_full
    place.away = False
    courier.stop(600)
    assert len(arrived) == 11 - courier.lost_spans
    assert courier.waiting_spans == 0


def test_a_producer_that_waits_hears_that_the_destination_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for space while a delivery is under way, and not for its whole time when that fails."""
    monkeypatch.setattr(courier_module, "FULL_QUEUE_WAIT_SECONDS", 3600)
    under_way, producer_waits = threading.Event(), threading.Event()

    class Failing(Place):
        """Fails when a producer waits for space."""

        def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
            under_way.set()
            producer_waits.wait(600)
            return super().deliver(batch, batch_id)

    courier = DeliveryQueue(Failing(away=True, after_seconds=3600), "tail", 1)
    wait = courier._changed.wait

    def announce_wait(seconds: float | None = None) -> bool:
        producer_waits.set()
        return wait(seconds)

    monkeypatch.setattr(courier._changed, "wait", announce_wait)
    first, second = parcels(2, [])
    assert courier.enqueue(first)
    courier.start()
    assert under_way.wait(600)
    assert not courier.enqueue(second)
    assert courier.lost_spans == 1


def test_a_delivery_that_breaks_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in a destination ends neither the thread nor the queue."""
    monkeypatch.setattr(courier_module, "UNAVAILABLE_PAUSE_SECONDS", 0.05)

    class Broken(Place):
        """Fails in an unforeseen way, once."""

        def deliver(self, batch: pa.RecordBatch, batch_id: str) -> Delivery:
            if not self.got and not self.closed:
                self.closed = True
                raise ZeroDivisionError
            return super().deliver(batch, batch_id)

    arrived: list[int] = []
    courier = DeliveryQueue(Broken(), "tail", 10**6)
    courier.enqueue(parcels(1, arrived)[0])
    courier.start()
    deadline = time.monotonic() + 600
    while not arrived and time.monotonic() < deadline:
        time.sleep(0.02)
    courier.stop(600)
    assert arrived == [0]
