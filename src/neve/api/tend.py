"""The process that tends the lake: its parts in threads, and a port for those who watch."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily

from neve.api.signals import happens, stop_signals
from neve.api.watch import watching
from neve.app.serve.choice import TEND
from neve.app.serve.exposition import text_of
from neve.app.serve.sight import Sight, plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.household import Household
    from neve.receive.keys import Guard

ENGINE_GONE = 70  # the exit code of a process that needs to be started again
PART = "part"
LOOK_SECONDS = 2.0
BROKEN_SECONDS = 3.0  # to let go of leases; without an engine there is nothing to finish

log = structlog.get_logger("neve.serve")


@dataclass
class Tended:
    """The household of this process as it is watched; there is none while its parts are being made."""

    household: Household | None = None

    def look(self) -> Sight:
        """How its parts are."""
        if self.household is None:
            return Sight([], ["the parts are being made"])
        return Sight([plain(TEND, status) for status in self.household.statuses()])

    def counted(self) -> bytes:
        """What this process has counted, and how often each of its parts was started again."""
        restarts = CounterMetricFamily("neve_serve_part_restarts", "times that a part was started again", labels=[PART])
        for status in self.household.statuses() if self.household else []:
            restarts.add_metric([status.name], status.restarts)
        return generate_latest() + text_of([restarts])


async def tend(
    config: ServeConfig,
    build: Callable[[], Household],
    ready: Callable[[str], None],
    engine_is_gone: Callable[[], bool] = lambda: False,
    guard: Guard | None = None,
) -> int:
    """Run a household until SIGTERM or SIGINT; the exit code, 0 where all of it ended well.

    A process whose engine is gone gets no other: it ends, and whoever started it starts it again. One that is told to
    stop while its household is made does not wait for that: who made it may still be at it afterwards. Without a guard
    its port for health and metrics must be on loopback.
    """
    tended = Tended()
    with stop_signals() as stop:
        async with watching(tended, config, guard) as place:
            household = tended.household = await _made_before(stop, build)
            if household is None:
                log.info("stopped: the parts were not made yet")
                return 0
            household.start()
            ready(place)
            is_broken = await _broken_before(stop, engine_is_gone)
            log.info("stopping: what was begun is given up" if is_broken else "stopping: what was begun is finished")
            seconds = min(BROKEN_SECONDS, config.drain_seconds) if is_broken else config.drain_seconds
            ended_well = await asyncio.to_thread(household.stop, within_seconds=seconds)
    log.info("stopped")
    return ENGINE_GONE if is_broken else int(not ended_well)


async def _made_before(stop: asyncio.Event, build: Callable[[], Household]) -> Household | None:
    """The household; none where the process is told to stop before it is made."""
    made: Future[Household] = Future()
    made.set_running_or_notify_cancel()

    def make() -> None:
        try:
            made.set_result(build())
        except Exception as error:
            made.set_exception(error)

    # In a thread: engines are started here, which takes time, and in the first one takes the signals. In one of its
    # own, since the loop would wait for its own threads at its end.
    threading.Thread(target=make, name="making parts", daemon=True).start()
    making, stopping = asyncio.wrap_future(made), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((making, stopping), return_when=asyncio.FIRST_COMPLETED)
        return None if stop.is_set() else making.result()
    finally:
        making.cancel()
        stopping.cancel()


async def _broken_before(stop: asyncio.Event, engine_is_gone: Callable[[], bool]) -> bool:
    """Whether the engine is gone before the process is told to stop."""
    while not await happens(stop, LOOK_SECONDS):
        if await asyncio.to_thread(engine_is_gone):
            log.error("engine is gone: this process has to be started again")
            return True
    return False
