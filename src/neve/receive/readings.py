"""Room for messages whose size nobody knows before they are whole, as gRPC has them.

Each call reserves the largest message in the budget before its message is read, and gives back what it did not need.
All reservations together take at most half of the budget, so that gRPC never keeps HTTP out; further calls wait for
their turn, unread. While others wait, an organization gets no second turn before them, and a sender that takes long
loses its turn, so that slow clients can't keep the others waiting.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from neve.receive.budget import Budget, Hold

CONTESTED_SECONDS = 5.0  # that a message may take to arrive while others wait for its place
ROOM_SECONDS, LOOKS = 1.0, 20  # how long, and how often, room in the budget is waited for


class Readings:
    """The messages that are being read, and those that wait to be."""

    def __init__(self, budget: Budget, message_bytes: int) -> None:
        self.message_bytes = message_bytes
        self.places = max(1, budget.limit // (2 * message_bytes))
        self._reading: dict[asyncio.Timeout, tuple[str, float]] = {}
        self._waiting: Counter[str] = Counter()
        self._changed = asyncio.Condition()

    async def read(
        self, organization: str, receive: Callable[[], Awaitable[bytes]], hold: Hold, seconds: float
    ) -> bytes:
        """Read a message in its turn; raises `Refusal` where there is no room, or its sender is too slow."""
        try:
            async with asyncio.timeout(seconds) as limit, self._turn(organization, limit):
                await self._reserve(hold)
                found = await receive()
        except TimeoutError:
            raise _slow(seconds) from None
        hold.shrink(self.message_bytes - len(found))
        return found

    async def _reserve(self, hold: Hold) -> None:
        """Take the room of the largest message, which others may be about to give back."""
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
                self._waiting += Counter()  # forget who waits no longer
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
        """Give those who read no more time than is fair to those who wait."""
        now = asyncio.get_running_loop().time()
        for limit, (_organization, since) in self._reading.items():
            due = max(now, since + CONTESTED_SECONDS)
            if not limit.expired() and (limit.when() or due) >= due:
                limit.reschedule(due)


def _slow(seconds: float) -> Refusal:
    return Refusal(
        Verdict.SLOW,
        "slow_body",
        f"the message was not there after {seconds:g} s (receiver.body_seconds), or others waited for its place",
    )
