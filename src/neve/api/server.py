"""The receiver as a running service: ports open while a block runs, then drain."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.api.embedded_uvicorn import serve_application
from neve.api.health import TrustedCallers, health_application, receiver_probe_routes
from neve.api.otlp_grpc import build_grpc_server
from neve.api.otlp_http import HTTP, build_application
from neve.api.ports import Addresses, format_address, listen, listen_grpc
from neve.api.slow_clients import ConnectionLimits, build_protocol
from neve.app.serve.guards import health_guard
from neve.app.serve.process_group import group_token
from neve.app.serve.receiver import receiver_parts
from neve.app.telemetry.tracing import TracingMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.receiver import ReceiverParts
    from neve.app.settings import Settings


@asynccontextmanager
async def open_receiver(
    settings: Settings, opened: Callable[[ReceiverParts], None] = lambda _parts: None
) -> AsyncIterator[Addresses]:
    """Run a receiver while the block runs; the health routes get its parts when they are ready.

    Without HTTP the receiver has no port of its own for health, and uses that of `serve`.
    """
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(receiver_parts(settings))
        opened(parts)
        place = None
        if not settings.receiver.http:
            viewers = TrustedCallers(health_guard(settings, stack), group_token())
            place = await stack.enter_async_context(_open_probes(parts, settings.serve, viewers))
        addresses = await stack.enter_async_context(open_receiver_ports(parts))
        yield replace(addresses, health=addresses.health or place)


@asynccontextmanager
async def open_receiver_ports(parts: ReceiverParts) -> AsyncIterator[Addresses]:
    """Open the ports of a receiver while the block runs.

    Both are closed at the same time, each within `receiver.drain_seconds`.
    """
    config, first, second = parts.receiver.config, AsyncExitStack(), AsyncExitStack()
    try:
        grpc = await first.enter_async_context(_open_grpc(parts)) if config.grpc else None
        http = await second.enter_async_context(_open_http(parts)) if config.http else None
        place = f"http://{http}" if http else None
        yield Addresses(http=place, grpc=grpc, health=place)
    finally:
        parts.drain()
        await asyncio.gather(first.aclose(), second.aclose())


@asynccontextmanager
async def _open_probes(parts: ReceiverParts, config: ServeConfig, viewers: TrustedCallers) -> AsyncIterator[str]:
    """Open a port for the health and metrics of a receiver alone."""
    sock = listen(config.host, config.port, "serve.port")
    routes = receiver_probe_routes(parts.receiver.metrics, parts.receiver.pressure, parts.events.pressure, viewers)
    async with serve_application(health_application(routes, config), sock, timeout_graceful_shutdown=1):
        yield f"http://{format_address(config.host, sock.getsockname()[1])}"


@asynccontextmanager
async def _open_http(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    application = build_application(parts.receiver, parts.events, parts.guard, group_token())
    sock = listen(config.host, config.http_port, "receiver.http_port")

    def count_refusal(status: int, reason: str) -> None:
        parts.receiver.metrics.count_refusal(HTTP, reason)
        parts.receiver.metrics.count_response("none", HTTP, str(status))

    options = {
        "http": build_protocol(ConnectionLimits(config, count_refusal)),
        "timeout_keep_alive": config.idle_seconds,
        "timeout_graceful_shutdown": config.drain_seconds,
    }
    async with serve_application(TracingMiddleware(application), sock, **options):
        yield format_address(config.host, sock.getsockname()[1])


@asynccontextmanager
async def _open_grpc(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    server = build_grpc_server(parts.receiver, parts.guard)
    port = listen_grpc(server, config.host, config.grpc_port)
    await server.start()
    try:
        yield format_address(config.host, port)
    finally:
        await server.stop(config.drain_seconds)
