"""The port for health checks and metrics of all parts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from starlette.responses import JSONResponse

from neve.api.access import LONGEST_SHOWN, AccessRules, guarded_application
from neve.api.listen import address, listen
from neve.api.probes import HEALTHY, READY, Report, Viewers, health_routes, refused
from neve.api.quiet import serving
from neve.errors import ConfigError
from neve.model.network import is_loopback
from neve.receive.keys import OpenDoor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from neve.app.serve.config import ServeConfig
    from neve.app.serve.sight import Sight
    from neve.receive.keys import Guard

PATHS = ("/livez", "/healthz", "/readyz", "/metrics")


class Watched(Protocol):
    """What is watched; it is asked in threads, since it may have to ask others."""

    def look(self) -> Sight:
        """How its parts are."""

    def counted(self) -> bytes:
        """What they have counted, in Prometheus's text format."""


@asynccontextmanager
async def watching(watched: Watched, config: ServeConfig, guard: Guard | None = None) -> AsyncIterator[str]:
    """A server of health and metrics, while the block runs; where it is. Without a guard it must be on loopback."""
    if guard is None and not is_loopback(config.host):
        raise ConfigError(f"serve.host is {config.host!r}, expected a loopback address where nothing checks keys")
    sock = listen(config.host, config.port, "serve.port")
    application = health_application(watch_routes(watched, Viewers(guard or OpenDoor(""))), config)
    async with serving(application, sock, timeout_graceful_shutdown=1):
        yield f"http://{address(config.host, sock.getsockname()[1])}"


def health_application(routes: Sequence[Route], config: ServeConfig) -> Starlette:
    """An application of health checks and metrics alone, with the rules of `serve.host`."""
    rules = AccessRules("serve", is_open=is_loopback(config.host))
    return guarded_application(routes, rules, lambda refusal, _scope: refused(refusal), _elsewhere)


def watch_routes(watched: Watched, viewers: Viewers) -> list[Route]:
    """`/livez`, `/healthz`, `/readyz` and `/metrics`."""

    async def healthy() -> Report:
        sight = await asyncio.to_thread(watched.look)
        parts = {"parts": list(sight.parts)}
        return (
            replace(HEALTHY, details=parts) if not sight.ill else Report("unhealthy", {"problems": sight.ill, **parts})
        )

    async def ready() -> Report:
        sight = await asyncio.to_thread(watched.look)
        return Report("not ready", {"reason": "; ".join(sight.unready)}) if sight.unready else READY

    async def count() -> bytes:
        return await asyncio.to_thread(watched.counted)

    return health_routes(viewers, healthy, ready, count)


def _elsewhere(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} is not served here: GET {', '.join(PATHS)}"
    return JSONResponse({"error": words}, error.status_code, headers=error.headers)
