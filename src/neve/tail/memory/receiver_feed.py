"""Feed a selector in memory from the receiver: decode traces in groups and buffer their spans.

A request is acknowledged when its spans are in memory. Spans in memory are lost if the process dies.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from neve.errors import RawZoneError
from neve.logger import get_logger
from neve.otlp import Decoded, Intake
from neve.raw.compression import decompress_payload
from neve.raw.frame import Kind
from neve.tail.metrics import REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.otlp import Rejected
    from neve.raw.frame import Frame

Decode = Callable[[pa.BinaryArray, Intake], Decoded]
GROUP_BYTES = 8 * 1024 * 1024  # of messages as they were sent, for one group
PLAIN_BYTES = 32 * 1024 * 1024  # of decompressed messages that are decoded together

log = get_logger("neve.tail")


class SpanSink(Protocol):
    """Consumer of rows of the table `spans`."""

    def feed(self, rows: pa.RecordBatch) -> None:
        """Buffer some rows, or raise an error if that is not possible."""


class BufferAppender:
    """Appender that feeds the receiver's trace frames to a selector, for use in one event loop."""

    def __init__(self, selector: SpanSink, name: str, decode: Decode, max_future_nanos: int) -> None:
        self._selector, self._name, self._decode, self._max_future = selector, name, decode, max_future_nanos
        self._waiting: list[tuple[Frame, asyncio.Future[None]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def append(self, frame: Frame) -> None:
        """Return when the frame's spans are buffered.

        Raises `RawZoneError` if they can't be.
        """
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
                error = await asyncio.to_thread(self._feed, [frame for frame, _future in group])
                for _frame, future in group:
                    _resolve_future(future, error)
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

    def _feed(self, frames: Sequence[Frame]) -> RawZoneError | None:
        """Feed the spans of frames, and return one error for all frames, so that all are sent again."""
        try:
            for organization in dict.fromkeys(frame.organization_id for frame in frames):
                own = [frame for frame in frames if frame.organization_id == organization]
                for messages in _unpack_frames(own):
                    intake = Intake(organization, max(frame.received_unix_nano for frame in own), self._max_future)
                    decoded = self._decode(pa.array(messages, pa.binary()), intake)
                    count_rejected(self._name, "receiver", decoded.rejected)
                    self._selector.feed(decoded.batch)
        except Exception as error:  # any error: the client must not interpret it as a rejection of its data
            log.error("can't buffer spans", selector=self._name, error=str(error))
            return RawZoneError(f"can't buffer the spans: {type(error).__name__}: {error}")
        return None


def count_rejected(selector: str, source: str, rejected: Sequence[Rejected]) -> None:
    """Count and log rejected records, as there is no quarantine table in memory."""
    for reason, count in Counter(bad.reason for bad in rejected).items():
        REFUSED.labels(selector, reason).inc(count)
        detail = next(bad.detail for bad in rejected if bad.reason == reason)
        log.warning("records rejected", source=source, reason=reason, count=count, first=detail)


def _unpack_frames(frames: Sequence[Frame]) -> Iterator[list[bytes]]:
    """Yield decompressed messages in lists of bounded size."""
    held: list[bytes] = []
    for frame in frames:
        held.append(decompress_payload(frame.payload, frame.packing))
        if sum(map(len, held)) >= PLAIN_BYTES:
            yield held
            held = []
    if held:
        yield held


def _resolve_future(future: asyncio.Future[None], error: RawZoneError | None) -> None:
    if future.done():  # the client has disconnected
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
