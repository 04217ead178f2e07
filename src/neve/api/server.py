"""The receiver as a running service: ports open while a block runs, then drain."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from neve.api.embedded_uvicorn import serve_application
from neve.api.health import TrustedCallers, health_application, receiver_probe_routes
from neve.api.otlp_grpc import build_credentials, build_grpc_server
from neve.api.otlp_http import HTTP, build_application
from neve.api.ports import Addresses, format_address, listen, listen_grpc
from neve.api.slow_clients import ConnectionLimits, build_protocol
from neve.app.serve.guards import health_guard
from neve.app.serve.process_group import group_token
from neve.app.serve.receiver import receiver_parts
from neve.app.serve.tls import open_certificates
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

    Without HTTP the receiver has no port of its own for health, and uses that of `serve`. So it does in a group if
    its port requires TLS: the group has neither a name of the certificate nor a certificate of its own.
    """
    async with AsyncExitStack() as stack:
        parts = await stack.enter_async_context(receiver_parts(settings))
        opened(parts)
        place, receiver = None, settings.receiver
        if not receiver.http or (receiver.tls.is_on and group_token()):
            viewers = TrustedCallers(health_guard(settings, stack), group_token())
            place = await stack.enter_async_context(_open_probes(parts, settings.serve, viewers))
        addresses = await stack.enter_async_context(open_receiver_ports(parts))
        yield replace(addresses, health=place or addresses.health)


@asynccontextmanager
async def open_receiver_ports(parts: ReceiverParts) -> AsyncIterator[Addresses]:
    """Open the ports of a receiver while the block runs.

    Both are closed at the same time, each within `receiver.drain_seconds`.
    """
    config, first, second = parts.receiver.config, AsyncExitStack(), AsyncExitStack()
    try:
        grpc = await first.enter_async_context(_open_grpc(parts)) if config.grpc else None
        http = await second.enter_async_context(_open_http(parts)) if config.http else None
        place = f"{config.tls.scheme}://{http}" if http else None
        yield Addresses(http=place, grpc=grpc, health=place)
    finally:
        parts.drain()
        await asyncio.gather(first.aclose(), second.aclose())


@asynccontextmanager
async def _open_probes(parts: ReceiverParts, config: ServeConfig, viewers: TrustedCallers) -> AsyncIterator[str]:
    """Open a port for the health and metrics of a receiver alone."""
    sock = listen(config.host, 0 if group_token() else config.port, "serve.port")
    routes = receiver_probe_routes(parts.receiver.metrics, parts.receiver.pressure, parts.events.pressure, viewers)
    application = health_application(routes, config)
    async with serve_application(application, sock, "serve", config.tls, timeout_graceful_shutdown=1):
        yield f"{config.tls.scheme}://{format_address(config.host, sock.getsockname()[1])}"


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
    async with serve_application(TracingMiddleware(application), sock, "receiver", config.tls, **options):
        yield format_address(config.host, sock.getsockname()[1])


@asynccontextmanager
async def _open_grpc(parts: ReceiverParts) -> AsyncIterator[str]:
    config = parts.receiver.config
    server = build_grpc_server(parts.receiver, parts.guard)
    certificates = open_certificates(config.tls, "receiver")
    credentials = build_credentials(certificates) if certificates else None
    port = listen_grpc(server, config.host, config.grpc_port, credentials)
    await server.start()
    try:
        yield format_address(config.host, port)
    finally:
        await server.stop(config.drain_seconds)
