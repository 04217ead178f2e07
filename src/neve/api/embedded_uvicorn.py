"""Uvicorn embedded in a process that handles signals and logs itself, and the stop signals of that process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neve.app.serve.tls import count_failed_handshake, open_certificates
from neve.tls.handshake import TlsDoor

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from neve.app.telemetry.tracing import Application
    from neve.tls.config import TlsConfig


HANDSHAKE_SECONDS = 10.0
MAX_HANDSHAKES = 512  # unfinished ones of a port
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """Yield an event that is set on a stop signal of the process."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            with suppress(ValueError):
                loop.remove_signal_handler(number)


async def wait_for_event(event: asyncio.Event, within_seconds: float) -> bool:
    """Return whether an event is set within the timeout."""
    try:
        await asyncio.wait_for(event.wait(), within_seconds)
    except TimeoutError:
        return False
    return True


class _EmbeddedServer(uvicorn.Server):
    """Uvicorn without its signal handlers: signals are handled by the process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serve_application(
    application: Application,
    sock: socket.socket,
    port: str,
    tls: TlsConfig,
    *,
    web_sockets: Any = "none",
    **options: Any,
) -> AsyncIterator[None]:
    """Serve an application while the block runs, then finish the requests in flight.

    `port` names the port in metrics, and with `tls` in errors.
    """
    door = _open_tls(port, tls, options.get("http", HttpToolsProtocol))
    if door is not None:
        options["http"] = door.protocol
    config = uvicorn.Config(
        application,
        loop="asyncio",
        lifespan="off",
        ws=web_sockets,
        ws_max_size=64 * 1024,
        ws_ping_interval=20,
        ws_ping_timeout=20,
        log_config=None,
        access_log=False,
        server_header=False,
        **options,
    )
    server = _EmbeddedServer(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        if door is not None:
            door.close()
        await task


def _open_tls(port: str, tls: TlsConfig, protocol: Any) -> TlsDoor | None:
    certificates = open_certificates(tls, port)
    if certificates is None:
        return None

    def refuse(reason: str, _peer: str) -> None:
        count_failed_handshake(port, reason)

    return TlsDoor(certificates, protocol, HANDSHAKE_SECONDS, MAX_HANDSHAKES, refuse)
