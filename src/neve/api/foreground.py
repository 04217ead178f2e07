"""What one process of `neve serve` does: a door, or the parts that tend the lake; each tells the board how it is."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, NoReturn

from neve.api.addresses import Addresses
from neve.api.server import running_api, running_receiver, serve
from neve.api.tend import tend
from neve.app.serve.herald import telling
from neve.app.serve.household import Household
from neve.app.serve.part import PartState
from neve.app.service import health_guard
from neve.app.telemetry.place import own_address
from neve.app.telemetry.setup import setup
from neve.app.wiring import build_documents
from neve.lake.store_metrics import watch_store
from neve.work.board import Board

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from contextlib import AbstractAsyncContextManager

    from neve.app.service import ReceiverParts
    from neve.app.settings import Settings
    from neve.app.telemetry.setup import Process
    from neve.lake.lake import Lake

Ready = Callable[[Addresses], None]


def run_receiver(settings: Settings, instance: str, ready: Ready) -> int:
    """Receive until told to stop."""
    opened: list[ReceiverParts] = []

    def details() -> dict[str, object]:
        if not opened:
            return {}
        ailment, organizations = opened[0].ailment, list(opened[0].receiver.usage.report())
        return {**({"error": ailment} if ailment else {}), "organizations": organizations}

    with _process(settings, instance, "receiver") as board:
        return _run_door(board, running_receiver(settings, opened.append), ready, details)


def run_api(settings: Settings, lake: Lake, instance: str, ready: Ready) -> int:
    """Answer queries until told to stop."""
    with _process(settings, instance, "api") as board:
        return _run_door(board, running_api(settings, lake), ready)


def run_tend(settings: Settings, lake: Lake, names: Collection[str], instance: str, ready: Ready) -> int:
    """Tend the lake until told to stop; the exit code."""
    from neve.app.serve.parts import build_parts  # noqa: PLC0415 - every room and its engines, for this process alone
    from neve.ingest.stream.jvm import engine_is_gone  # noqa: PLC0415

    household: Household | None = None
    with _process(settings, instance, "tend") as board, ExitStack() as keys:
        guard = health_guard(settings, keys)

        def build() -> Household:
            nonlocal household
            household = Household(build_parts(settings, lake, names, instance), settings.serve, board)
            return household

        code = asyncio.run(
            tend(settings.serve, build, lambda place: ready(Addresses(health=place)), engine_is_gone, guard)
        )
    if household is None:
        _leave(code)  # parts are still being made: Spark's JVM, which reads from this process, ends with it
    if not household.is_empty:
        _leave(code or 1)
    if _has_threads():
        _leave(code)  # of a job that was given back, which the interpreter would wait for
    return code


def _has_threads() -> bool:
    """Whether there are threads that would keep this process from ending."""
    return any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread())


def _leave(code: int) -> NoReturn:
    """End the process at once, whatever its threads are at."""
    sys.stderr.flush()
    os._exit(code)


def _run_door(
    board: Board,
    doors: AbstractAsyncContextManager[Addresses],
    ready: Ready,
    details: Callable[[], Mapping[str, object]] = dict,
) -> int:
    with telling(board, board.process, details) as tell:

        def opened(addresses: Addresses) -> None:
            tell(PartState.RUNNING)
            ready(addresses)

        asyncio.run(serve(doors, opened, lambda: tell(PartState.DRAINING)))
    return 0


@contextmanager
def _process(settings: Settings, instance: str, name: Process) -> Iterator[Board]:
    """What every process has: its place on the board, its own telemetry, and metrics of what it asks of storage."""
    watch_store(settings.prices)
    with ExitStack() as opened:
        opened.callback(setup(settings.telemetry, name, own_address(settings.receiver)))
        documents = build_documents(settings)
        opened.callback(documents.close)
        yield Board(documents, instance, name)
