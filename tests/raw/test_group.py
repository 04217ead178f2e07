"""Group commit: who is told what when a sink fails."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from neve.errors import RawZoneError
from neve.raw.frame import Frame, Kind
from neve.raw.writer import GroupCommit
from tests.receive.doubles import MemorySink

if TYPE_CHECKING:
    from collections.abc import Sequence


class SlowSink(MemorySink):
    """A sink that waits for leave to write, and remembers how its groups were."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.leave = threading.Event(), threading.Event()
        self.groups: list[int] = []
        self.closed = False

    def write(self, pieces: Sequence[bytes]) -> None:
        """Wait, then keep or fail."""
        self.began.set()
        self.leave.wait()
        self.groups.append(len(pieces) // 2)
        super().write(pieces)

    def tick(self) -> None:
        """A clock that is broken, too, must not stop the writer."""
        raise OSError("no clock")

    def close(self) -> None:
        """Remember."""
        self.closed = True


def frame(number: int) -> Frame:
    """A frame that can be told from others."""
    return Frame(Kind.LOGS, "acme", number, b"payload")


@pytest.mark.parametrize(
    ("error", "words"),
    [(RawZoneError("the disk is full"), "the disk is full"), (ValueError("a bug"), "ValueError: a bug")],
    ids=["known", "unknown"],
)
def test_a_group_fails_as_a_whole_and_the_next_does_not(error: Exception, words: str) -> None:
    """Everyone in it is told, whatever it was that failed; the writer lives on."""

    async def work() -> None:
        sink = SlowSink()
        writer = GroupCommit(sink)
        first = asyncio.create_task(writer.append(frame(0)))
        await asyncio.to_thread(sink.began.wait)  # it is being written, and these three wait for the next group
        others = [asyncio.create_task(writer.append(frame(number))) for number in (1, 2, 3)]
        await asyncio.sleep(0)
        assert writer.waiting_bytes > 0
        sink.error = error
        sink.leave.set()
        told = await asyncio.gather(first, *others, return_exceptions=True)
        assert all(isinstance(one, RawZoneError) and words in str(one) for one in told)
        sink.error = None
        await writer.append(frame(4))
        await writer.close()
        assert sink.groups == [1, 3, 1]
        assert [found.received_unix_nano for found in sink.frames] == [4]
        assert sink.closed

    asyncio.run(work())


def test_what_waits_is_written_before_the_end_and_nothing_after() -> None:
    """Closing keeps what was taken."""

    async def work() -> None:
        sink = MemorySink()
        writer = GroupCommit(sink, linger_seconds=30)
        waiting = asyncio.create_task(writer.append(frame(1)))
        await asyncio.sleep(0)
        await writer.close()
        await waiting
        assert [found.received_unix_nano for found in sink.frames] == [1]
        with pytest.raises(RawZoneError, match="closed"):
            await writer.append(frame(2))

    asyncio.run(work())


def test_a_client_that_went_away_harms_nobody() -> None:
    """Its frame is written with the others, who are told."""

    async def work() -> None:
        sink = SlowSink()
        writer = GroupCommit(sink)
        gone, stays = (asyncio.create_task(writer.append(frame(number))) for number in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        sink.leave.set()
        await stays
        await writer.close()
        assert [found.received_unix_nano for found in sink.frames] == [1, 2]

    asyncio.run(work())
