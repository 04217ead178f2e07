"""The processes of `neve serve`: receiver, API and worker; each reports its state to the status board."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

from neve.api.embedded_uvicorn import stop_signals
from neve.api.ports import Addresses
from neve.app.serve.guards import health_guard
from neve.app.serve.part import PartState
from neve.app.serve.status_reporter import report_part
from neve.app.serve.supervisor import Supervisor
from neve.app.telemetry.config import find_receiver_address
from neve.app.telemetry.tracing import start_telemetry
from neve.app.wiring import build_documents
from neve.jobs.status_board import StatusBoard
from neve.lake.storage.metrics import register_storage_metrics
from neve.local_folders import remove_secret_files
from neve.logger import get_logger
from neve.time_slices import SHORT_NANOSECONDS, request_time_slices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from neve.app.serve.receiver import ReceiverParts
    from neve.app.settings import Settings
    from neve.app.telemetry.tracing import ProcessName
    from neve.lake.lake import Lake

Ready = Callable[[Addresses], None]

# Collections of a generation of objects before one of the next older. A parsed statement is garbage that only a scan of
# all objects finds, and every thread waits for it: short scans (after 100,000 new objects, not a million) come often.
YOUNG_COLLECTIONS, OLD_COLLECTIONS = 5, 2
API_NICENESS = 3  # an acknowledgement takes little CPU time, and does not wait for queries

log = get_logger("neve.api")


def run_receiver(settings: Settings, instance: str, ready: Ready) -> int:
    """Run the receiver until asked to stop."""
    from neve.api.server import open_receiver  # noqa: PLC0415 - each process imports only what it runs

    request_time_slices(SHORT_NANOSECONDS)  # before any thread starts
    opened: list[ReceiverParts] = []

    def details() -> dict[str, object]:
        if not opened:
            return {}
        ailment, organizations = opened[0].ailment, list(opened[0].receiver.usage.report())
        return {**({"error": ailment} if ailment else {}), "organizations": organizations}

    with _process(settings, instance, "receiver") as board:
        return _run_server(board, open_receiver(settings, opened.append), ready, details)


def run_api(settings: Settings, lake: Lake, instance: str, ready: Ready) -> int:
    """Run the API until asked to stop."""
    from neve.api.api_server import open_api  # noqa: PLC0415 - as above

    gc.set_threshold(gc.get_threshold()[0], YOUNG_COLLECTIONS, OLD_COLLECTIONS)
    os.nice(API_NICENESS)  # the processes that run queries inherit it, and the time slices
    request_time_slices(SHORT_NANOSECONDS)
    with _process(settings, instance, "api") as board:
        return _run_server(board, open_api(settings, lake), lambda addresses: ready(_settle(addresses)))


def _settle(addresses: Addresses) -> Addresses:
    """Exempt what was imported and built until now from scans for garbage: it stays."""
    gc.collect()
    gc.freeze()
    return addresses


def run_worker(settings: Settings, lake: Lake, names: Collection[str], instance: str, ready: Ready) -> int:
    """Run the parts of the worker process until asked to stop, and return the exit code."""
    # Before its many imports: receiver and API open their ports first. The JVM and Spark's Python workers inherit it.
    os.nice(settings.serve.background_niceness)
    from neve.api.maintenance_process import run_parts  # noqa: PLC0415 - as above
    from neve.app.serve.parts import build_parts  # noqa: PLC0415
    from neve.ingest.spark_crashes import has_engine_ended  # noqa: PLC0415

    supervisor: Supervisor | None = None
    with _process(settings, instance, "tend") as board, ExitStack() as keys:
        guard = health_guard(settings, keys)

        def build() -> Supervisor:
            nonlocal supervisor
            supervisor = Supervisor(build_parts(settings, lake, names, instance), settings.serve, board)
            return supervisor

        code = asyncio.run(
            run_parts(settings.serve, build, lambda place: ready(Addresses(health=place)), has_engine_ended, guard)
        )
    if supervisor is None:
        exit_now(code)  # parts are still being built: Spark's JVM, which reads from this process, ends with it
    if not supervisor.is_empty:
        exit_now(code or 1)
    if _has_threads():
        exit_now(code)  # the interpreter would wait for the threads of a released job
    return code


def _has_threads() -> bool:
    """Return whether there are threads that would keep this process from exiting."""
    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


def exit_now(code: int) -> NoReturn:
    """Exit at once, whatever the threads are doing, and without taking the interpreter apart.

    That takes half a CPU second of a large process. The JVM of Spark ends when it reads the end of its input.
    """
    remove_secret_files()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def serve(
    doors: AbstractAsyncContextManager[Addresses],
    ready: Callable[[Addresses], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Keep the ports open until SIGTERM or SIGINT; then finish the requests, seal the raw zone, and return."""
    with stop_signals() as stop:
        async with doors as addresses:
            ready(addresses)
            await stop.wait()
            stopping()
            log.info("stopping, requests in flight are finished and new ones are rejected")
    log.info("stopped")


def _run_server(
    board: StatusBoard,
    doors: AbstractAsyncContextManager[Addresses],
    ready: Ready,
    details: Callable[[], Mapping[str, object]] = dict,
) -> int:
    with report_part(board, board.process, details) as report:

        def announce(addresses: Addresses) -> None:
            report(PartState.RUNNING)
            ready(addresses)

        asyncio.run(serve(doors, announce, lambda: report(PartState.DRAINING)))
    return 0


@contextmanager
def _process(settings: Settings, instance: str, name: ProcessName) -> Iterator[StatusBoard]:
    """Set up what all processes share: the status board, telemetry, and metrics of storage calls."""
    register_storage_metrics(settings.prices)
    with ExitStack() as opened:
        opened.callback(start_telemetry(settings.telemetry, name, find_receiver_address(settings.receiver)))
        documents = build_documents(settings)
        opened.callback(documents.close)
        yield StatusBoard(documents, instance, name)
