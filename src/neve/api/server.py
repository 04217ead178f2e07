"""Doors, writers and watchers as one running service, in one event loop."""

from __future__ import annotations

import asyncio
import signal as signals
import threading
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from neve.api.application import build_application
from neve.api.listen import address, listen, listen_grpc
from neve.api.otlp_grpc import build_grpc_server
from neve.api.otlp_http import HTTP
from neve.api.patience import Limits, patient
from neve.api.query.server import running_queries
from neve.api.quiet import serving
from neve.app.service import receiver_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from neve.app.service import ReceiverParts
    from neve.app.settings import Settings
    from neve.lake.lake import Lake

log = structlog.get_logger("neve.api")


@dataclass(frozen=True)
class Addresses:
    """Where the doors are; none for one that is shut."""

    http: str | None = None
    grpc: str | None = None
    query: str | None = None


@dataclass(frozen=True)
class Doors:
    """Which doors are opened; queries are answered from a lake."""

    receiver: bool = True
    lake: Lake | None = None


async def serve(
    settings: Settings,
    doors: Doors,
    ready: Callable[[Addresses], None],
    beside: Callable[[threading.Event], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; then finish what was begun, seal the raw zone, and return.

    What runs `beside` it runs in a thread of its own, until the event is set that it is given.
    """
    told = threading.Event()
    with _stop_signals() as stop:
        async with _open(settings, doors) as addresses:
            other = asyncio.create_task(asyncio.to_thread(beside, told)) if beside else None
            ready(addresses)
            waiting = asyncio.create_task(stop.wait())
            await asyncio.wait([waiting, *([other] if other else [])], return_when=asyncio.FIRST_COMPLETED)
            log.info("stopping: requests in flight are finished, new ones are not taken")
        told.set()
        if other is not None:
            await other
    log.info("stopped")


@asynccontextmanager
async def _open(settings: Settings, doors: Doors) -> AsyncIterator[Addresses]:
    async with AsyncExitStack() as opened:
        addresses = Addresses()
        if doors.lake is not None:
            place = await opened.enter_async_context(running_queries(settings, doors.lake))
            addresses = replace(addresses, query=place)
        if doors.receiver:
            received = await opened.enter_async_context(running_receiver(settings))
            addresses = replace(received, query=addresses.query)
        yield addresses


@asynccontextmanager
async def running_receiver(settings: Settings) -> AsyncIterator[Addresses]:
    """A receiver that runs while the block does."""
    async with receiver_parts(settings) as parts, running_doors(parts) as addresses:
        yield addresses


@asynccontextmanager
async def running_doors(parts: ReceiverParts) -> AsyncIterator[Addresses]:
    """The doors of a receiver, open while the block runs."""
    async with AsyncExitStack() as doors:
        config = parts.receiver.config
        grpc = await doors.enter_async_context(_grpc(parts)) if config.grpc else None
        http = await doors.enter_async_context(_http(parts)) if config.http else None
        doors.callback(parts.drain)
        yield Addresses(f"http://{http}" if http else None, grpc)


@asynccontextmanager
async def _http(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    application = build_application(parts.receiver, parts.events, parts.guard)
    sock = listen(config.host, config.http_port, "receiver.http_port")

    def refused(status: int, reason: str) -> None:
        parts.receiver.metrics.refused(HTTP, reason)
        parts.receiver.metrics.answered("none", HTTP, str(status))

    options = {
        "http": patient(Limits(config, refused)),
        "timeout_keep_alive": config.idle_seconds,
        "timeout_graceful_shutdown": config.drain_seconds,
    }
    async with serving(application, sock, **options):
        yield address(config.host, sock.getsockname()[1])


@asynccontextmanager
async def _grpc(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    server = build_grpc_server(parts.receiver, parts.guard)
    port = listen_grpc(server, config.host, config.grpc_port)
    await server.start()
    try:
        yield address(config.host, port)
    finally:
        await server.stop(config.drain_seconds)


@contextmanager
def _stop_signals() -> Iterator[asyncio.Event]:
    """An event that is set when the process is told to stop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signals.SIGTERM, signals.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signals.SIGTERM, signals.SIGINT):
            with suppress(ValueError):
                loop.remove_signal_handler(number)
