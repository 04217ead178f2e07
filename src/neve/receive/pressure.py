"""Whether the raw zone can take more: how much waits to be ingested, and whether its disk works."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.errors import RawZoneError
    from neve.raw.zone import RawZone, Segment

LOOK_SECONDS = 2.0
FAILURE_SECONDS = 10.0  # how long a failure counts: who is never ready gets no request that could show otherwise
STOPPING = "the receiver is stopping"

log = structlog.get_logger("neve.receive")


class Pressure:
    """What is known of the zone's state; looked at now and then, off the event loop."""

    def __init__(
        self,
        zone: RawZone,
        max_backlog_bytes: int,
        min_free_bytes: int = 0,
        settle: Callable[[Sequence[Segment], int], None] = lambda _segments, _mark: None,
        mark: Callable[[], int] = lambda: 0,
    ) -> None:
        self._zone = zone
        self._limit = max_backlog_bytes
        self._min_free_bytes = min_free_bytes
        self._settle, self._mark = settle, mark
        self._free_bytes: int | None = None
        self.backlog_bytes = 0
        self._failure: str | None = None
        self._failed_at = 0.0
        self.draining = False

    @property
    def problem(self) -> str | None:
        """Why the receiver is not ready; none when it is."""
        return STOPPING if self.draining else self.ailment

    @property
    def ailment(self) -> str | None:
        """Why the receiver can't do its work; none when it can, or ends as it was told to."""
        recent = time.monotonic() - self._failed_at < FAILURE_SECONDS
        return self._backlog_problem or (self._failure if recent else None) or self.room_problem

    def check(self) -> None:
        """Raise `Refusal` while too much waits. A broken disk does not count: the next request tries it again."""
        if self.draining:
            raise Refusal(Verdict.UNAVAILABLE, "stopping", STOPPING)
        words = self._backlog_problem
        if words is not None:
            raise Refusal(Verdict.UNAVAILABLE, "backlog", words)

    async def watch(self) -> None:
        """Look, again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Measure the backlog and the room on the disk.

        Where that fails the last measure stands: writing will say whether the zone works.
        """
        mark = self._mark()
        try:
            self._free_bytes = await asyncio.to_thread(self._zone.free_bytes)
            segments = await asyncio.to_thread(self._zone.backlog)
        except (OSError, ValueError) as error:
            log.warning("the backlog can't be measured", zone=self._zone.location, error=str(error))
            return
        before, self.backlog_bytes = self.backlog_bytes, sum(segment.size for segment in segments)
        self._settle(segments, mark)
        if (before > self._limit) != (self.backlog_bytes > self._limit):
            log.warning("the backlog crossed its limit", bytes=self.backlog_bytes, limit=self._limit)

    def failed(self, error: RawZoneError) -> Refusal:
        """Take note that something could not be made durable; what its sender is told."""
        if self._failure is None:
            log.error("the raw zone refuses", error=error.message, hint=error.hint)
        self._failure, self._failed_at = error.message, time.monotonic()
        reason = error.public or "the raw zone refuses"
        return Refusal(Verdict.UNAVAILABLE, "not_durable", f"the message can't be made durable now: {reason}")

    def worked(self) -> None:
        """Take note that something was made durable."""
        if self._failure is not None:
            log.info("the raw zone takes again")
            self._failure = None
        self._free_bytes = None  # there was room; how much is measured soon

    @property
    def room_problem(self) -> str | None:
        """Why requests would be refused for the lack of room; none while there is enough."""
        if self._free_bytes is None or self._free_bytes >= self._min_free_bytes:
            return None
        return (
            f"the disk of the raw zone {self._zone.location} has {self._free_bytes} bytes free, "
            f"raw.min_free_bytes is {self._min_free_bytes}"
        )

    @property
    def _backlog_problem(self) -> str | None:
        if self.backlog_bytes <= self._limit:
            return None
        return f"{self.backlog_bytes} bytes wait to be ingested, raw.max_backlog_bytes is {self._limit}"
