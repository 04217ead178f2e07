"""The query API as a running service."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from neve.api.listen import address, listen
from neve.api.patience import Limits, patient
from neve.api.query.errors import Failure
from neve.api.query.routes import query_routes
from neve.api.quiet import serving
from neve.app.query import query_parts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from neve.app.settings import Settings
    from neve.lake.lake import Lake

DRAIN_SECONDS = 10  # that queries may take to finish when the server is told to stop


@asynccontextmanager
async def running_queries(settings: Settings, lake: Lake) -> AsyncIterator[str]:
    """A server of queries that runs while the block does; where it is."""
    config = settings.query
    async with query_parts(settings, lake) as parts:
        sock = listen(config.host, config.port, "query.port")
        application = Starlette(
            routes=[*query_routes(parts.service, parts.guard), *_probes()],
            exception_handlers={HTTPException: _elsewhere},
        )
        # Connections are bounded as those of the receiver are.
        bounds = patient(Limits(settings.receiver, lambda _status, _reason: None))
        async with serving(application, sock, http=bounds, timeout_graceful_shutdown=DRAIN_SECONDS):
            yield f"http://{address(config.host, sock.getsockname()[1])}"


async def _elsewhere(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    failure = Failure(status, "not_found", f"{request.method} {request.url.path} is not served here")
    return JSONResponse({"error": failure.as_document, "id": None}, status)


def _probes() -> list[Route]:
    async def alive(_request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    async def counted(_request: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/healthz", alive), Route("/metrics", counted)]
