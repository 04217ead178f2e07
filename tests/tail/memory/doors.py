"""The receiver's doors around parts that a test has."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from neve.api.embedded_uvicorn import serve_application
from neve.api.otlp_grpc import build_grpc_server
from neve.api.otlp_http import build_application
from neve.api.ports import listen, listen_grpc

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from neve.app.serve.receiver import ReceiverParts

HOST = "127.0.0.1"


@asynccontextmanager
async def open_doors(parts: ReceiverParts) -> AsyncIterator[tuple[int, int]]:
    """Both doors, as the settings want them; their ports, 0 for one that is shut."""
    config, ports = parts.receiver.config, [0, 0]
    async with AsyncExitStack() as doors:
        if config.http:
            sock = listen(HOST, 0, "receiver.http_port")
            ports[0] = sock.getsockname()[1]
            await doors.enter_async_context(
                serve_application(
                    build_application(parts.receiver, parts.events, parts.guard), sock, "receiver", config.tls
                )
            )
        if config.grpc:
            server = build_grpc_server(parts.receiver, parts.guard)
            ports[1] = listen_grpc(server, HOST, 0)
            await server.start()
            doors.push_async_callback(server.stop, config.drain_seconds)
        doors.callback(parts.drain)
        yield ports[0], ports[1]
