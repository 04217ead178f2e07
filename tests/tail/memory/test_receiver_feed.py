"""Messages of the receiver become fed rows, many at a time."""

from __future__ import annotations

import asyncio
import gzip
from functools import partial
from typing import TYPE_CHECKING

import pytest

from neve.errors import RawZoneError
from neve.ingest.decoder import decode_all
from neve.model.signals import Signal
from neve.raw.frame import Frame, Kind, Packing
from neve.tail.memory import receiver_feed
from neve.tail.memory.receiver_feed import BufferAppender
from tests.telemetry import NOW, logs, traces

if TYPE_CHECKING:
    import pyarrow as pa

DAY = 86_400 * 10**9


class Basket:
    """Takes rows, or fails."""

    def __init__(self) -> None:
        self.fed: list[pa.RecordBatch] = []
        self.error: Exception | None = None

    def feed(self, rows: pa.RecordBatch) -> None:
        """Keep them."""
        if self.error is not None:
            raise self.error
        self.fed.append(rows)


def appender(basket: Basket) -> BufferAppender:
    """One for a selector."""
    return BufferAppender(basket, "tail", partial(decode_all, Signal.TRACES), DAY)


async def all_of(to: BufferAppender, *frames: Frame) -> list[BaseException | None]:
    """What becomes of frames that come at once."""
    return await asyncio.gather(*(to.append(frame) for frame in frames), return_exceptions=True)


def test_messages_are_decoded_together() -> None:
    """Those that come while others are at work; each organization for itself, packed or not."""
    basket = Basket()
    frames = [Frame(Kind.TRACES, "acme", NOW, traces(2, first=2 * number)) for number in range(20)]
    frames += [Frame(Kind.TRACES, "globex", NOW, gzip.compress(traces(1)), packing=Packing.GZIP)]
    assert asyncio.run(all_of(appender(basket), *frames)) == [None] * 21
    assert sum(rows.num_rows for rows in basket.fed) == 41
    assert len(basket.fed) <= 3
    assert {rows.column("organization_id")[0].as_py() for rows in basket.fed} == {"acme", "globex"}


def test_large_messages_are_not_all_unpacked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are decoded in lots of a bounded size."""
    monkeypatch.setattr(receiver_feed, "PLAIN_BYTES", 1000)
    basket = Basket()
    frames = [Frame(Kind.TRACES, "acme", NOW, traces(5, first=5 * number)) for number in range(10)]
    asyncio.run(all_of(appender(basket), *frames))
    assert len(basket.fed) >= 3
    assert sum(rows.num_rows for rows in basket.fed) == 50


def test_what_can_not_be_held_is_not_answered_for() -> None:
    """Its senders are told to send it again; the next messages are taken."""
    basket = Basket()
    basket.error = RuntimeError("no room")
    frame = Frame(Kind.TRACES, "acme", NOW, traces(2))

    async def work() -> None:
        to = appender(basket)
        for error in await all_of(to, frame, frame):
            assert isinstance(error, RawZoneError)
            assert "can't buffer the spans: RuntimeError: no room" in str(error)
        basket.error = None
        await to.append(frame)

    asyncio.run(work())
    assert basket.fed[0].num_rows == 2


def test_only_traces_are_fed() -> None:
    """Anything else has no place here."""
    with pytest.raises(RawZoneError, match="takes traces, not logs"):
        asyncio.run(appender(Basket()).append(Frame(Kind.LOGS, "acme", NOW, logs(1))))


def test_broken_messages_cost_themselves_only() -> None:
    """They are counted and said; the receiver refuses most of them before."""
    basket = Basket()
    frames = [Frame(Kind.TRACES, "acme", NOW, payload) for payload in (b"\xff\xff", traces(3))]
    assert asyncio.run(all_of(appender(basket), *frames)) == [None, None]
    assert sum(rows.num_rows for rows in basket.fed) == 3
