"""Writer of a zone with group commit: requests that arrive during a sync become the next group.

One thread writes. A request is acknowledged after its group is durable. A group fails as a whole, and the next
one is not affected. So many small requests share one fsync, and a slow disk makes larger groups, not a longer queue of
fsyncs.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from neve.errors import RawZoneError
from neve.raw.backlog_report import ReportedBacklog
from neve.raw.frame import encode
from neve.raw.segments import MIN_LINGER_SECONDS, LocalSink, ObjectSink
from neve.raw.zone import RawZone

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.lake.config import S3Config
    from neve.raw.config import RawConfig
    from neve.raw.frame import Frame
    from neve.raw.segments import Segment


IDLE_SECONDS = 0.25  # interval of ticks of a sink that gets no frames


class Sink(Protocol):
    """Destination of groups. One thread uses it."""

    @property
    def writer(self) -> str:
        """The name of the folder of its segments."""

    @property
    def open_bytes(self) -> int:
        """Durable bytes that are in no sealed segment."""

    def write(self, pieces: Sequence[bytes]) -> None:
        """Make pieces durable. If that fails, raise `RawZoneError` and keep none of them."""

    def tick(self) -> None:
        """Seal segments that are old."""

    def close(self) -> None:
        """Seal the open segment."""


@dataclass
class Group:
    """Frames that become durable together."""

    pieces: list[bytes] = field(default_factory=list)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)
    size: int = 0
    born: float = 0.0


class GroupCommit:
    """Group commit of frames for the requests of one event loop."""

    def __init__(self, sink: Sink, *, linger_seconds: float = 0.0) -> None:
        self.sink = sink
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
        """Return the durable bytes of this writer that are not in the tables yet, given the waiting segments."""
        return self.sink.open_bytes + sum(segment.size for segment in segments if segment.writer == self.sink.writer)

    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait for the next group."""
        return self._group.size

    async def append(self, frame: Frame) -> None:
        """Wait until the frame is durable. Raises `RawZoneError` if it can't be made durable."""
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
        """Write the waiting frames, seal the segment and stop."""
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
            self._run_safely(self.sink.tick)
        self._run_safely(self.sink.close)

    def _take(self) -> tuple[Group, bool]:
        """Return the next group that is due, or an empty one after an idle interval."""
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
        error = self._run_safely(lambda: self.sink.write(group.pieces))
        self.groups += 1
        self.seconds += time.monotonic() - started
        try:
            self._loop.call_soon_threadsafe(_resolve_futures, group.waiting, error)
        except RuntimeError:  # the loop is closed, so no request waits any more
            self._closed = True

    def _run_safely(self, work: Callable[[], None]) -> RawZoneError | None:
        """Run an operation of the sink. An error there must not end the thread that all requests wait for."""
        try:
            work()
        except RawZoneError as error:
            return error
        except Exception as error:
            return RawZoneError(f"the raw zone failed: {type(error).__name__}: {error}")
        return None


def _resolve_futures(waiting: list[asyncio.Future[None]], error: RawZoneError | None) -> None:
    for future in waiting:
        if future.done():  # the client disconnected
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)


def find_backlog_reader(zone: RawZone, writer: GroupCommit) -> Callable[[], list[Segment]]:
    """Return the function that finds what waits in a zone: by a listing on a disk, by reports in object storage."""
    sink = writer.sink
    return ReportedBacklog(zone, sink).read if isinstance(sink, ObjectSink) else zone.backlog


def open_writer(config: RawConfig, s3: S3Config, name: str) -> GroupCommit:
    """Open a new writer of the zone `name`. Must be called in a running event loop."""
    zone = RawZone.of(config.location, s3, name)
    linger = config.linger_ms / 1000
    if not zone.is_local:
        return GroupCommit(ObjectSink(zone.location, s3), linger_seconds=max(linger, MIN_LINGER_SECONDS))
    zone.recover()
    sink = LocalSink(
        Path(zone.location),
        segment_bytes=config.segment_bytes,
        segment_seconds=config.segment_seconds,
        min_free_bytes=config.min_free_bytes,
    )
    return GroupCommit(sink, linger_seconds=linger)
