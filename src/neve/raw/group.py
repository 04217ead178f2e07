"""Group commit: requests that arrive while the last group is being made durable become the next group.

One thread writes. A request is told that it is safe after its group is; a group that fails fails as a whole, and the
next one starts anew. So many small requests share one fsync, and a slow disk makes larger groups, not a longer queue
of fsyncs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from neve.errors import RawZoneError
from neve.raw.frame import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.raw.frame import Frame
    from neve.raw.zone import Segment

IDLE_SECONDS = 0.25  # how often a sink that gets no frames may look at the clock


class Sink(Protocol):
    """Where groups go; used by one thread."""

    @property
    def writer(self) -> str:
        """The name that its segments are kept under."""

    @property
    def open_bytes(self) -> int:
        """How many bytes are durable and in no sealed segment."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Make pieces durable, or raise `RawZoneError` and keep nothing of them."""

    def tick(self) -> None:
        """Look at the clock: seal what is old."""

    def close(self) -> None:
        """Seal what is there."""


@dataclass
class Group:
    """Frames that become durable together."""

    pieces: list[bytes] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    size: int = 0
    born: float = 0.0


class GroupCommit:
    """Makes frames durable, many at a time, for the requests of one event loop."""

    def __init__(self, sink: Sink, *, linger_seconds: float = 0.0) -> None:
        self._sink = sink
        self._linger = linger_seconds
        self._loop = asyncio.get_running_loop()
        self._group = Group()
        self._closed = False
        self._changed = threading.Condition()
        self.groups = 0
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="raw-zone", daemon=True)
        self._thread.start()

    def own_backlog(self, segments: Sequence[Segment]) -> int:
        """How many bytes that this writer made durable are in none of the tables, given the segments that wait."""
        return self._sink.open_bytes + sum(segment.size for segment in segments if segment.writer == self._sink.writer)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes wait for the next group."""
        return self._group.size

    async def append(self, frame: Frame) -> None:
        """Return when the frame is durable; raises `RawZoneError` when it is not."""
        header, payload = encode(frame)
        future: asyncio.Future[None] = self._loop.create_future()
        with self._changed:
            if self._closed:
                raise RawZoneError("the raw zone is closed")
            group = self._group
            group.pieces += (header, payload)
            group.waiting.append(future)
            group.size += len(header) + len(payload)
            if len(group.waiting) == 1:
                group.born = time.monotonic()
                self._changed.notify()
        await future

    async def close(self) -> None:
        """Write what waits, seal, and stop."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while True:
            group, closed = self._take()
            if group.waiting:
                self._commit(group)
            elif closed:
                break
            self._guarded(self._sink.tick)
        self._guarded(self._sink.close)

    def _take(self) -> tuple[Group, bool]:
        """The group that is due, or an empty one when nothing came for a while."""
        with self._changed:
            if not self._group.waiting and not self._closed:
                self._changed.wait(IDLE_SECONDS)
            if self._group.waiting and self._linger and not self._closed:
                due = self._group.born + self._linger
                self._changed.wait_for(lambda: self._closed, timeout=max(0.0, due - time.monotonic()))
            group, self._group = self._group, Group()
            return group, self._closed

    def _commit(self, group: Group) -> None:
        started = time.monotonic()
        error = self._guarded(lambda: self._sink.write(group.pieces))
        self.groups += 1
        self.seconds += time.monotonic() - started
        try:
            self._loop.call_soon_threadsafe(_settle, group.waiting, error)
        except RuntimeError:  # the loop is gone, and with it everyone who waited
            self._closed = True

    def _guarded(self, work: Callable[[], None]) -> RawZoneError | None:
        """Do something to the sink; whatever fails there must not end the thread that everyone waits for."""
        try:
            work()
        except RawZoneError as error:
            return error
        except Exception as error:
            return RawZoneError(f"the raw zone failed: {type(error).__name__}: {error}")
        return None


def _settle(waiting: list[asyncio.Future[None]], error: RawZoneError | None) -> None:
    for future in waiting:
        if future.done():  # its client went away
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
