"""Messages of unknown size are read within the budget, in turns."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from neve.receive import budget
from neve.receive.budget import Budget, MessageReservations
from neve.receive.refusal import Refusal, Verdict

if TYPE_CHECKING:
    from collections.abc import Coroutine

    import pytest

MESSAGE = 100


class Senders:
    """Messages that arrive when they are told to."""

    def __init__(self, limit: int = 8 * MESSAGE) -> None:
        self.budget = Budget(limit)
        self.readings = MessageReservations(self.budget, MESSAGE)
        self.arrived = asyncio.Event()
        self.reading: list[str] = []
        self.most = 0

    async def send(self, organization: str, size: int = 10, seconds: float = 60.0) -> str:
        """Read one message; how it ended."""

        async def receive() -> bytes:
            self.reading.append(organization)
            self.most = max(self.most, self.budget.used)
            await self.arrived.wait()
            return bytes(size)

        with self.budget.hold() as hold:
            try:
                found = await self.readings.read(organization, receive, hold, seconds)
            except Refusal as refusal:
                return refusal.verdict.name
            assert hold._size == len(found) == size
            return "READ"


async def settle() -> None:
    """Let everyone go as far as they can."""
    for _ in range(50):
        await asyncio.sleep(0)


def run(work: Coroutine[object, object, None]) -> None:
    """Do something in a loop."""
    asyncio.run(work)


def test_only_so_many_are_read_at_a_time() -> None:
    """Half of the budget is reserved at most; the others wait, and all are read in the end."""

    async def work() -> None:
        senders = Senders()
        calls = [asyncio.ensure_future(senders.send("acme")) for _ in range(50)]
        await settle()
        assert (len(senders.reading), senders.budget.used) == (4, 4 * MESSAGE)
        senders.arrived.set()
        assert await asyncio.gather(*calls) == ["READ"] * 50
        assert (senders.most, senders.budget.used) == (4 * MESSAGE, 0)

    run(work())


def test_one_organization_does_not_keep_the_others_waiting() -> None:
    """When places are free again, who has one already comes after who has none."""

    async def work() -> None:
        senders = Senders()
        hostile = [asyncio.ensure_future(senders.send("hostile")) for _ in range(20)]
        await settle()
        honest = asyncio.ensure_future(senders.send("honest"))
        await settle()
        assert senders.reading == ["hostile"] * 4
        hostile[0].cancel()
        await settle()
        assert senders.reading[4:] == ["honest"]
        senders.arrived.set()
        assert await honest == "READ"
        await asyncio.gather(*hostile, return_exceptions=True)

    run(work())


def test_slow_senders_lose_their_places_to_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only then: alone a slow one may take all of its time."""
    monkeypatch.setattr(budget, "CONTESTED_SECONDS", 0.0)

    async def work() -> None:
        senders = Senders(2 * MESSAGE)
        slow = asyncio.ensure_future(senders.send("slow"))
        await settle()
        assert not slow.done()
        other = asyncio.ensure_future(senders.send("other"))
        assert await slow == "SLOW"
        await settle()
        assert senders.reading == ["slow", "other"]
        senders.arrived.set()
        assert await other == "READ"

    run(work())


def test_without_room_in_the_budget_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who send over HTTP hold it; the sender is told to come back."""
    monkeypatch.setattr(budget, "ROOM_SECONDS", 0.0)

    async def work() -> None:
        senders = Senders()
        with senders.budget.hold() as http:
            http.grow(8 * MESSAGE - 10)
            assert await senders.send("acme") == Verdict.BUSY.name
        assert senders.reading == []

    run(work())
