"""Doors, writers and watchers as one running service, in one event loop."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from neve.api.addresses import Addresses
from neve.api.application import build_application
from neve.api.listen import address, listen, listen_grpc
from neve.api.otlp_grpc import build_grpc_server
from neve.api.otlp_http import HTTP
from neve.api.patience import Limits, patient
from neve.api.probes import Viewers, probe_routes
from neve.api.query.server import running_queries
from neve.api.quiet import serving
from neve.api.signals import stop_signals
from neve.api.watch import health_application
from neve.app.serve.instance import group_token
from neve.app.service import health_guard, receiver_parts
from neve.app.telemetry.requests import Traced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from neve.app.serve.config import ServeConfig
    from neve.app.service import ReceiverParts
    from neve.app.settings import Settings
    from neve.lake.lake import Lake

log = structlog.get_logger("neve.api")


async def serve(
    doors: AbstractAsyncContextManager[Addresses],
    ready: Callable[[Addresses], None],
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Keep doors open until SIGTERM or SIGINT; then finish what was begun, seal the raw zone, and return."""
    with stop_signals() as stop:
        async with doors as addresses:
            ready(addresses)
            await stop.wait()
            stopping()
            log.info("stopping: requests in flight are finished, new ones are not taken")
    log.info("stopped")


@asynccontextmanager
async def running_api(settings: Settings, lake: Lake) -> AsyncIterator[Addresses]:
    """The query API, open while the block runs."""
    async with running_queries(settings, lake) as place:
        yield Addresses(query=place, health=place)


@asynccontextmanager
async def running_receiver(
    settings: Settings, opened: Callable[[ReceiverParts], None] = lambda _parts: None
) -> AsyncIterator[Addresses]:
    """A receiver that runs while the block does; those who watch it are given its parts when they are there.

    Without HTTP it has no port of its own for them, and takes that of `serve`.
    """
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(receiver_parts(settings))
        opened(parts)
        place = None
        if not settings.receiver.http:
            viewers = Viewers(health_guard(settings, stack), group_token())
            place = await stack.enter_async_context(_probes(parts, settings.serve, viewers))
        addresses = await stack.enter_async_context(running_doors(parts))
        yield replace(addresses, health=addresses.health or place)


@asynccontextmanager
async def running_doors(parts: ReceiverParts) -> AsyncIterator[Addresses]:
    """The doors of a receiver, open while the block runs; both are closed at once, each in `receiver.drain_seconds`."""
    config, first, second = parts.receiver.config, AsyncExitStack(), AsyncExitStack()
    try:
        grpc = await first.enter_async_context(_grpc(parts)) if config.grpc else None
        http = await second.enter_async_context(_http(parts)) if config.http else None
        place = f"http://{http}" if http else None
        yield Addresses(http=place, grpc=grpc, health=place)
    finally:
        parts.drain()
        await asyncio.gather(first.aclose(), second.aclose())


@asynccontextmanager
async def _probes(parts: ReceiverParts, config: ServeConfig, viewers: Viewers) -> AsyncIterator[str]:
    """A port for health and metrics of a receiver, alone."""
    sock = listen(config.host, config.port, "serve.port")
    routes = probe_routes(parts.receiver.metrics, parts.receiver.pressure, parts.events.pressure, viewers)
    async with serving(health_application(routes, config), sock, timeout_graceful_shutdown=1):
        yield f"http://{address(config.host, sock.getsockname()[1])}"


@asynccontextmanager
async def _http(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    application = build_application(parts.receiver, parts.events, parts.guard, group_token())
    sock = listen(config.host, config.http_port, "receiver.http_port")

    def refused(status: int, reason: str) -> None:
        parts.receiver.metrics.refused(HTTP, reason)
        parts.receiver.metrics.answered("none", HTTP, str(status))

    options = {
        "http": patient(Limits(config, refused)),
        "timeout_keep_alive": config.idle_seconds,
        "timeout_graceful_shutdown": config.drain_seconds,
    }
    async with serving(Traced(application), sock, **options):
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
