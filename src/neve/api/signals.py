"""Signals that tell a process to stop, in an event loop."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """An event that is set when the process is told to stop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in NUMBERS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in NUMBERS:
            with suppress(ValueError):
                loop.remove_signal_handler(number)


async def happens(event: asyncio.Event, within_seconds: float) -> bool:
    """Whether an event is set within some time."""
    try:
        await asyncio.wait_for(event.wait(), within_seconds)
    except TimeoutError:
        return False
    return True
