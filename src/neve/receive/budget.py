"""Memory budget of requests in progress. A request that does not fit is refused and should be retried.

The size of a gRPC message is unknown until it is complete. Each call therefore reserves the largest message in the
budget before its message is read, and returns what it did not need. All reservations together take at most half of
the budget, so that gRPC never blocks HTTP. Further calls wait for their turn, unread. While others wait, an
organization gets no second turn before them, and a slow client loses its turn.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType


class Budget:
    """Bytes that all requests share. It is thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._used = 0
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """The bytes that are held now."""
        return self._used

    def hold(self) -> Hold:
        """Return the hold of a new request, which is empty."""
        return Hold(self)

    def check(self, size: int) -> None:
        """Raise `Refusal` if so many bytes would not fit now; nothing is reserved."""
        if self._used + size > self.limit:
            raise self._busy(size)

    def take(self, size: int) -> None:
        """Reserve bytes, or raise `Refusal`."""
        with self._lock:
            if self._used + size > self.limit:
                raise self._busy(size)
            self._used += size

    def give(self, size: int) -> None:
        """Return bytes to the budget."""
        with self._lock:
            self._used -= size

    def _busy(self, size: int) -> Refusal:
        message = f"{self._used} bytes are in progress, {size} more exceed the limit of {self.limit}"
        return Refusal(Verdict.BUSY, "over_budget", f"{message} (receiver.max_inflight_bytes)")


class Hold:
    """One request's share of the budget. Bytes are counted as they arrive: an announced size alone reserves nothing."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes that the request holds."""
        return self._size

    def grow(self, size: int) -> None:
        """Reserve more bytes, or raise `Refusal`."""
        self._budget.take(size)
        self._size += size

    def shrink(self, size: int) -> None:
        """Return some bytes to the budget."""
        self._size -= size
        self._budget.give(size)

    def release(self) -> None:
        """Return all bytes to the budget."""
        self.shrink(self._size)

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.release()


CONTESTED_SECONDS = 5.0  # a message must arrive within this time while other messages wait
ROOM_SECONDS, LOOKS = 1.0, 20  # how long, and how often, a call waits for free bytes in the budget


class MessageReservations:
    """Messages that are being read, and calls that wait for their turn."""

    def __init__(self, budget: Budget, message_bytes: int) -> None:
        self.message_bytes = message_bytes
        self.places = max(1, budget.limit // (2 * message_bytes))
        self._reading: dict[asyncio.Timeout, tuple[str, float]] = {}
        self._waiting: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def read(
        self, organization: str, receive: Callable[[], Awaitable[bytes]], hold: Hold, seconds: float
    ) -> bytes:
        """Read a message in its turn; raises `Refusal` if the budget is exhausted or the client is too slow."""
        try:
            async with asyncio.timeout(seconds) as limit, self._turn(organization, limit):
                await self._reserve(hold)
                found = await receive()
        except TimeoutError:
            raise _slow_client(seconds) from None
        hold.shrink(self.message_bytes - len(found))
        return found

    async def _reserve(self, hold: Hold) -> None:
        """Reserve the size of the largest message, and wait for other calls to return bytes if necessary."""
        for _look in range(LOOKS):
            with suppress(Refusal):
                hold.grow(self.message_bytes)
                return
            await asyncio.sleep(ROOM_SECONDS / LOOKS)
        hold.grow(self.message_bytes)

    @asynccontextmanager
    async def _turn(self, organization: str, limit: asyncio.Timeout) -> AsyncIterator[None]:
        async with self._changed:
            self._waiting[organization] += 1
            try:
                if len(self._reading) >= self.places:
                    self._hurry()
                await self._changed.wait_for(lambda: self._may_read(organization))
            finally:
                self._waiting[organization] -= 1
                self._waiting += Counter()  # removes organizations that no longer wait
            self._reading[limit] = (organization, asyncio.get_running_loop().time())
            if self._waiting:
                self._hurry()
        try:
            yield
        finally:
            async with self._changed:
                del self._reading[limit]
                self._changed.notify_all()

    def _may_read(self, organization: str) -> bool:
        if len(self._reading) >= self.places:
            return False
        mine = sum(owner == organization for owner, _since in self._reading.values())
        others_wait = any(other != organization for other in self._waiting)
        return mine < max(1, self.places - 1) or not others_wait

    def _hurry(self) -> None:
        """Shorten the deadlines of messages that are being read while other calls wait."""
        now = asyncio.get_running_loop().time()
        for limit, (_organization, since) in self._reading.items():
            due = max(now, since + CONTESTED_SECONDS)
            if not limit.expired() and (limit.when() or due) >= due:
                limit.reschedule(due)


def _slow_client(seconds: float) -> Refusal:
    return Refusal(
        Verdict.SLOW,
        "slow_body",
        f"the message did not arrive within {seconds:g} s (receiver.body_seconds), or other messages waited for it",
    )
