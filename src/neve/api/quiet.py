"""Uvicorn as a part of a process that has its own idea of signals and logs."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import AsyncIterator, Iterator

    from neve.app.telemetry.requests import Application


class _Server(uvicorn.Server):
    """Without its own idea of signals: they are for the whole process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(application: Application, sock: socket.socket, **options: Any) -> AsyncIterator[None]:
    """An application that is served while the block runs; then requests in flight are finished."""
    config = uvicorn.Config(
        application,
        loop="asyncio",
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        **options,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    while not server.started and not task.done():
        await asyncio.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        await task
