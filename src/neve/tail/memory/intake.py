"""The receiver's messages, decoded and fed: what came while the last ones were decoded is decoded together.

A message is answered for when its spans are held in memory. That is all that a sender is promised: what is held when
the process dies is gone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import structlog

from neve.errors import RawZoneError
from neve.otlp import Decoded, Intake
from neve.raw.frame import Kind
from neve.raw.unpack import unpack
from neve.tail.memory.metrics import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.otlp import Rejected
    from neve.raw.frame import Frame

Decode = Callable[[pa.BinaryArray, Intake], Decoded]
GROUP_BYTES = 8 * 1024 * 1024  # of messages as they were sent, that are taken together
PLAIN_BYTES = 32 * 1024 * 1024  # of unpacked ones, that are decoded together

log = structlog.get_logger("neve.tail")


class Fed(Protocol):
    """Who takes rows of the table `spans`."""

    def feed(self, rows: pa.RecordBatch) -> None:
        """Hold some rows; raises an error where that is not possible."""


class HeldAppender:
    """Where the receiver's frames of traces go; used in one event loop."""

    def __init__(self, selector: Fed, name: str, decode: Decode, max_future_nanos: int) -> None:
        self._selector, self._name, self._decode, self._max_future = selector, name, decode, max_future_nanos
        self._waiting: list[tuple[Frame, asyncio.Future[None]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def append(self, frame: Frame) -> None:
        """Return when the frame's spans are held; raises `RawZoneError` when they are not."""
        if frame.kind is not Kind.TRACES:
            raise RawZoneError(f"tail sampling in memory takes traces, not {frame.kind.name.lower()}")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((frame, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        await future

    async def _work(self) -> None:
        try:
            while self._waiting:
                group = self._next()
                error = await asyncio.to_thread(self._take, [frame for frame, _future in group])
                for _frame, future in group:
                    _settle(future, error)
        finally:
            self._worker = None

    def _next(self) -> list[tuple[Frame, asyncio.Future[None]]]:
        size, count = 0, 0
        for frame, _future in self._waiting:
            size, count = size + len(frame.payload), count + 1
            if size >= GROUP_BYTES:
                break
        group, self._waiting = self._waiting[:count], self._waiting[count:]
        return group

    def _take(self, frames: Sequence[Frame]) -> RawZoneError | None:
        """Feed what frames hold; one error for all of them, so that all are sent again."""
        try:
            for organization in dict.fromkeys(frame.organization_id for frame in frames):
                own = [frame for frame in frames if frame.organization_id == organization]
                for messages in _plain(own):
                    intake = Intake(organization, max(frame.received_unix_nano for frame in own), self._max_future)
                    decoded = self._decode(pa.array(messages, pa.binary()), intake)
                    tell_refused(self._name, "receiver", decoded.rejected)
                    self._selector.feed(decoded.batch)
        except Exception as error:  # whatever it is, the sender must not take it for an answer about its data
            log.error("spans can't be held", selector=self._name, error=str(error))
            return RawZoneError(f"the spans can't be held: {type(error).__name__}: {error}")
        return None


def tell_refused(selector: str, source: str, rejected: Sequence[Rejected]) -> None:
    """Count records that could not be accepted; there is no table here that would keep them."""
    for reason, count in Counter(bad.reason for bad in rejected).items():
        REFUSED.labels(selector, reason).inc(count)
        detail = next(bad.detail for bad in rejected if bad.reason == reason)
        log.warning("records were refused", source=source, reason=reason, count=count, first=detail)


def _plain(frames: Sequence[Frame]) -> Iterator[list[bytes]]:
    """Messages unpacked, in lots of a bounded size."""
    held: list[bytes] = []
    for frame in frames:
        held.append(unpack(frame.payload, frame.packing))
        if sum(map(len, held)) >= PLAIN_BYTES:
            yield held
            held = []
    if held:
        yield held


def _settle(future: asyncio.Future[None], error: RawZoneError | None) -> None:
    if future.done():  # its client went away
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
