"""Backpressure by the backlog and the disk of the raw zone, and the share of each organization.

All organizations share one limit of the backlog, so one organization could fill it and all others would be refused.
Each may therefore hold a share of it. Nothing has to be read back for that: a writer's segments are ingested in the
order in which they were written, so the newest of all bytes that this receiver stored are those that still wait.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.logger import get_logger
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.errors import RawZoneError
    from neve.raw.segments import Segment
    from neve.raw.zone import RawZone


MEASURE_SECONDS = 2.0
FAILURE_SECONDS = 10.0  # how long a failure counts: a receiver that is never ready gets no request to recover with
STOPPING = "the receiver is stopping"

log = get_logger("neve.receive")


class Backpressure:
    """State of the raw zone, measured periodically, off the event loop."""

    def __init__(
        self,
        zone: RawZone,
        max_backlog_bytes: int,
        min_free_bytes: int = 0,
        settle: Callable[[Sequence[Segment], int], None] = lambda _segments, _mark: None,
        mark: Callable[[], int] = lambda: 0,
        backlog: Callable[[], Sequence[Segment]] | None = None,
    ) -> None:
        self._zone = zone
        self._find_backlog = backlog or zone.backlog
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
        """The reason why the receiver is not ready, or None if it is ready."""
        return STOPPING if self.draining else self.health_problem

    @property
    def health_problem(self) -> str | None:
        """The reason why the receiver is unhealthy, or None if it is healthy or is shutting down as requested."""
        recent = time.monotonic() - self._failed_at < FAILURE_SECONDS
        return self._backlog_problem or (self._failure if recent else None) or self.space_problem

    def check(self) -> None:
        """Raise `Refusal` while the backlog is too large.

        A broken disk does not count: the next request tries it again.
        """
        if self.draining:
            raise Refusal(Verdict.UNAVAILABLE, "stopping", STOPPING)
        problem = self._backlog_problem
        if problem is not None:
            raise Refusal(Verdict.UNAVAILABLE, "backlog", problem)

    async def watch(self) -> None:
        """Measure periodically until cancelled."""
        while True:
            await self.measure()
            await asyncio.sleep(MEASURE_SECONDS)

    async def measure(self) -> None:
        """Measure the backlog and the free space of the disk.

        If that fails, the last measurement stays valid. The next write shows whether the zone works.
        """
        mark = self._mark()
        try:
            self._free_bytes = await asyncio.to_thread(self._zone.free_bytes)
            segments = await asyncio.to_thread(self._find_backlog)
        except (OSError, ValueError) as error:
            log.warning("measuring the backlog failed", zone=self._zone.location, error=str(error))
            return
        before, self.backlog_bytes = self.backlog_bytes, sum(segment.size for segment in segments)
        self._settle(segments, mark)
        if (before > self._limit) != (self.backlog_bytes > self._limit):
            exceeded = "backlog limit exceeded, requests are rejected"
            event = exceeded if self.backlog_bytes > self._limit else "backlog is below its limit again"
            log.warning(event, bytes=self.backlog_bytes, limit=self._limit)

    def record_failure(self, error: RawZoneError) -> Refusal:
        """Record that a write could not be made durable, and return the refusal for its client."""
        if self._failure is None:
            log.error("writing to the raw zone failed", error=error.message, hint=error.hint)
        self._failure, self._failed_at = error.message, time.monotonic()
        reason = error.public or "writing to the raw zone failed"
        return Refusal(Verdict.UNAVAILABLE, "not_durable", f"the message can't be made durable now: {reason}")

    def record_success(self) -> None:
        """Record that a write became durable."""
        if self._failure is not None:
            log.info("the raw zone recovered")
            self._failure = None
        self._free_bytes = None  # there was free space; its size is measured soon

    @property
    def space_problem(self) -> str | None:
        """The reason why requests are refused for lack of space, or None while there is enough."""
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


MB = 1024 * 1024
MAX_BLOCKS = 10_000  # blocks in which the backlog is recorded
MAX_KNOWN = 10_000  # organizations whose counters are stored
MAX_SHOWN = 20


@dataclass
class SentTotals:
    """Totals that one organization sent since the receiver started."""

    bytes: int = 0
    records: int = 0
    refused: int = 0


@dataclass
class BacklogBlock:
    """Adjacent bytes of the backlog, by organization."""

    size: int = 0
    owners: Counter[str] = field(default_factory=Counter)


class Usage:
    """Counters by organization, used by one thread.

    `share_bytes` is the most that each may have in the backlog, 0 for no limit.
    """

    def __init__(self, share_bytes: int = 0, block_bytes: int = 0) -> None:
        self.share_bytes = share_bytes
        self.added = 0
        self._block_bytes = block_bytes or max(MB, share_bytes // MAX_BLOCKS)
        self._sent: OrderedDict[str, SentTotals] = OrderedDict()
        self._blocks: deque[BacklogBlock] = deque()
        self._waiting: Counter[str] = Counter()
        self._waiting_bytes = 0

    def waiting(self, organization: str) -> int:
        """Return the bytes of an organization that wait to be ingested, of those that this receiver stored."""
        return self._waiting[organization]

    @property
    def largest_waiting(self) -> int:
        """Return the waiting bytes of the organization that has the most."""
        return max(self._waiting.values(), default=0)

    def check(self, organization: str) -> None:
        """Raise `Refusal` while an organization has more than its share in the backlog."""
        found = self._waiting[organization]
        if self.share_bytes and found > self.share_bytes:
            raise Refusal(
                Verdict.BUSY,
                "backlog_share",
                f"{found} bytes of {organization} wait to be ingested, its share of the backlog is {self.share_bytes} "
                "(raw.max_backlog_bytes, receiver.backlog_share)",
            )

    def count_refused(self, organization: str) -> None:
        """Count a refused request."""
        self._of(organization).refused += 1

    def count_stored(self, organization: str, size: int, records: int, stored: int) -> None:
        """Count a stored message: its unpacked size, its records, and its bytes in the raw zone."""
        sent = self._of(organization)
        sent.bytes += size
        sent.records += records
        if not self._blocks or self._blocks[-1].size >= self._block_bytes:
            self._blocks.append(BacklogBlock())
        block = self._blocks[-1]
        block.size += stored
        block.owners[organization] += stored
        self._waiting[organization] += stored
        self._waiting_bytes += stored
        self.added += stored

    def settle(self, waiting_bytes: int) -> None:
        """Drop the oldest bytes until no more are counted than are in the backlog."""
        while self._blocks and self._waiting_bytes - self._blocks[0].size >= waiting_bytes:
            block = self._blocks.popleft()
            self._waiting -= block.owners  # also removes organizations with no bytes left
            self._waiting_bytes -= block.size

    def report(self) -> Iterator[dict[str, object]]:
        """Yield the organizations that sent the most, with their totals and their waiting bytes."""
        known = list(self._sent.items())  # a copy, since another thread may call this
        most = sorted(known, key=lambda item: (-item[1].bytes, item[0]))[:MAX_SHOWN]
        for organization, sent in most:
            yield {"organization": organization, **vars(sent), "backlog_bytes": self._waiting[organization]}

    def _of(self, organization: str) -> SentTotals:
        sent = self._sent.setdefault(organization, SentTotals())
        self._sent.move_to_end(organization)
        if len(self._sent) > MAX_KNOWN:
            self._sent.popitem(last=False)
        return sent
