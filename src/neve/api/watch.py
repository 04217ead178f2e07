"""The port of those who watch: is it alive, is it well, is it ready, what has it counted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.api.listen import address, listen
from neve.api.quiet import serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.sight import Sight


class Watched(Protocol):
    """What is watched; it is asked in threads, since it may have to ask others."""

    def look(self) -> Sight:
        """How its parts are."""

    def counted(self) -> bytes:
        """What they have counted, in Prometheus's text format."""


@asynccontextmanager
async def watching(watched: Watched, config: ServeConfig) -> AsyncIterator[str]:
    """A server for those who watch, while the block runs; where it is."""
    sock = listen(config.host, config.port, "serve.port")
    async with serving(Starlette(routes=watch_routes(watched)), sock, timeout_graceful_shutdown=1):
        yield f"http://{address(config.host, sock.getsockname()[1])}"


def watch_routes(watched: Watched) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics`."""

    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def healthy(_request: Request) -> Response:
        sight = await asyncio.to_thread(watched.look)
        if problems := sight.ill:
            return JSONResponse({"status": "unhealthy", "problems": problems, "parts": list(sight.parts)}, 503)
        return JSONResponse({"status": "healthy", "parts": list(sight.parts)})

    async def ready(_request: Request) -> Response:
        sight = await asyncio.to_thread(watched.look)
        if problems := sight.unready:
            return JSONResponse({"status": "not ready", "reason": "; ".join(problems)}, 503)
        return JSONResponse({"status": "ready"})

    async def counted(_request: Request) -> Response:
        return Response(await asyncio.to_thread(watched.counted), media_type=CONTENT_TYPE_LATEST)

    return [
        Route("/livez", alive),
        Route("/healthz", healthy),
        Route("/readyz", ready),
        Route("/metrics", counted),
    ]
