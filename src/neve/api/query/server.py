"""The query API as a running service."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from neve.api.control.routes import control_routes
from neve.api.listen import address, listen
from neve.api.patience import Limits, patient
from neve.api.probes import probes
from neve.api.query.errors import Failure
from neve.api.query.routes import query_routes
from neve.api.quiet import serving
from neve.app.control import open_control
from neve.app.query import query_parts
from neve.app.telemetry.requests import Traced

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from neve.app.control import Control
    from neve.app.settings import Settings
    from neve.lake.lake import Lake

DRAIN_SECONDS = 10  # that queries may take to finish when the server is told to stop


@asynccontextmanager
async def running_queries(settings: Settings, lake: Lake) -> AsyncIterator[str]:
    """A server of queries that runs while the block does; where it is."""
    config = settings.query
    async with query_parts(settings, lake) as parts, _opened(settings, lake) as control:
        sock = listen(config.host, config.port, "query.port")
        application = Starlette(
            # Control first: the last path of queries answers for all that there are not.
            routes=[
                *control_routes(control, parts.guard),
                *query_routes(parts.service, parts.guard),
                *probes(lambda: None, lambda: None, REGISTRY),
            ],
            exception_handlers={HTTPException: _elsewhere},
        )
        # Connections are bounded as those of the receiver are.
        bounds = patient(Limits(settings.receiver, lambda _status, _reason: None))
        async with serving(Traced(application), sock, http=bounds, timeout_graceful_shutdown=DRAIN_SECONDS):
            yield f"http://{address(config.host, sock.getsockname()[1])}"


@asynccontextmanager
async def _opened(settings: Settings, lake: Lake) -> AsyncIterator[Control]:
    with open_control(settings, lake) as control:
        yield control


async def _elsewhere(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    failure = Failure(status, "not_found", f"{request.method} {request.url.path} is not served here")
    return JSONResponse({"error": failure.as_document, "id": None}, status)
