"""The worker process: its parts in threads under a supervisor, and a port for its health and metrics."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily

from neve.api.embedded_uvicorn import stop_signals, wait_for_event
from neve.api.health import serve_health
from neve.app.serve.config import WORKER
from neve.app.serve.group_monitor import format_metrics
from neve.app.serve.part import PartsHealth, part_document
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.supervisor import Supervisor
    from neve.receive.authentication import Guard

ENGINE_GONE = 70  # exit code of a process that needs a restart
PART = "part"
LOOK_SECONDS = 2.0
BROKEN_SECONDS = 3.0  # to release leases; without an engine there is no work to finish

log = get_logger("neve.serve")


@dataclass
class WorkerHealth:
    """Health of the supervisor in this process; there is none while its parts are being built."""

    supervisor: Supervisor | None = None

    def look(self) -> PartsHealth:
        """Return the health of the parts."""
        if self.supervisor is None:
            return PartsHealth([], ["the parts are starting"])
        return PartsHealth([part_document(WORKER, status) for status in self.supervisor.statuses()])

    def collect_metrics(self) -> bytes:
        """Return the metrics of this process, and the number of restarts of each part."""
        restarts = CounterMetricFamily("neve_serve_part_restarts", "Restarts of a part", labels=[PART])
        for status in self.supervisor.statuses() if self.supervisor else []:
            restarts.add_metric([status.name], status.restarts)
        return generate_latest() + format_metrics([restarts])


async def run_parts(
    config: ServeConfig,
    build: Callable[[], Supervisor],
    ready: Callable[[str], None],
    engine_is_gone: Callable[[], bool] = lambda: False,
    guard: Guard | None = None,
) -> int:
    """Run the parts until SIGTERM or SIGINT, and return the exit code, 0 if all of them ended well.

    A process whose engine is gone can't start another one: it exits, and its parent restarts it. A process that is
    stopped while its parts are being built does not wait for that: the builder thread may still run afterwards. Without
    a guard the port for health and metrics must be on loopback.
    """
    tended = WorkerHealth()
    with stop_signals() as stop:
        async with serve_health(tended, config, guard) as place:
            supervisor = tended.supervisor = await _build_unless_stopped(stop, build)
            if supervisor is None:
                log.info("stopped before the parts were started")
                return 0
            supervisor.start()
            ready(place)
            is_broken = await _wait_for_engine_failure(stop, engine_is_gone)
            log.info("stopping, running work is abandoned" if is_broken else "stopping, running work is finished")
            seconds = min(BROKEN_SECONDS, config.drain_seconds) if is_broken else config.drain_seconds
            ended_well = await asyncio.to_thread(supervisor.stop, within_seconds=seconds)
    log.info("stopped")
    return ENGINE_GONE if is_broken else int(not ended_well)


async def _build_unless_stopped(stop: asyncio.Event, build: Callable[[], Supervisor]) -> Supervisor | None:
    """Return the supervisor; none if the process is asked to stop before it is built."""
    made: Future[Supervisor] = Future()
    made.set_running_or_notify_cancel()

    def make() -> None:
        try:
            made.set_result(build())
        except Exception as error:
            made.set_exception(error)

    # In a thread: engines are started here, which takes time, and the main thread handles the signals. In a thread of
    # its own, since the event loop would wait for its own threads at its end.
    threading.Thread(target=make, name="making parts", daemon=True).start()
    making, stopping = asyncio.wrap_future(made), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((making, stopping), return_when=asyncio.FIRST_COMPLETED)
        return None if stop.is_set() else making.result()
    finally:
        making.cancel()
        stopping.cancel()


async def _wait_for_engine_failure(stop: asyncio.Event, engine_is_gone: Callable[[], bool]) -> bool:
    """Return whether the engine fails before the process is asked to stop."""
    while not await wait_for_event(stop, LOOK_SECONDS):
        if await asyncio.to_thread(engine_is_gone):
            log.error("Spark has failed, this process must be restarted")
            return True
    return False
