"""The server of the query and control API: its port, and the application behind it.

The port opens before the query engine is imported, which takes a CPU second. Requests wait for it, except `/livez`.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from starlette.responses import JSONResponse

from neve.api.access import AccessRules
from neve.api.embedded_uvicorn import serve_application
from neve.api.health import TrustedCallers, build_probe_routes, health_application
from neve.api.ports import Addresses, format_address, listen
from neve.api.slow_clients import ConnectionLimits, build_protocol
from neve.app.serve.guards import health_guard
from neve.app.serve.process_group import group_token
from neve.app.telemetry.tracing import TracingMiddleware
from neve.receive.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.types import ASGIApp, Receive, Scope, Send

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig

DRAIN_SECONDS = 10  # time limit for running queries at the stop
WEBSOCKETS = "websockets-sansio"  # the implementation of uvicorn that live tails use
LIVE_PATH = "/livez"
UNAVAILABLE = 503


@asynccontextmanager
async def open_api(settings: Settings, lake: Lake) -> AsyncIterator[Addresses]:
    """Open the query API while the block runs."""
    async with AsyncExitStack() as opened:
        place = await opened.enter_async_context(open_query_api(settings, lake))
        health = place
        if settings.query.tls.is_on and group_token():
            health = await opened.enter_async_context(_open_probes(settings, opened))
        yield Addresses(query=place, health=health)


@asynccontextmanager
async def _open_probes(settings: Settings, opened: AsyncExitStack) -> AsyncIterator[str]:
    """Open a port on loopback for the group, which has no certificate for the API's port."""
    viewers = TrustedCallers(health_guard(settings, opened), group_token())
    routes = build_probe_routes(viewers, lambda: None, lambda: None, REGISTRY)
    config, sock = settings.serve, listen(settings.serve.host, 0, "serve.port")
    application = health_application(routes, config)
    async with serve_application(application, sock, "serve", config.tls, timeout_graceful_shutdown=1):
        yield f"{config.tls.scheme}://{format_address(config.host, sock.getsockname()[1])}"


@asynccontextmanager
async def open_query_api(settings: Settings, lake: Lake) -> AsyncIterator[str]:
    """Run a server of queries while the block runs, and yield its address when it can answer queries."""
    config = settings.query
    sock = listen(config.host, config.port, "query.port")
    starting = StartingApplication(query_rules(config))
    # Connections are limited as those of the receiver are.
    bounds = build_protocol(ConnectionLimits(settings.receiver, lambda _status, _reason: None))
    async with (
        AsyncExitStack() as opened,  # closed after the server has finished its requests
        serve_application(
            TracingMiddleware(starting),
            sock,
            "query",
            config.tls,
            web_sockets=WEBSOCKETS,
            http=bounds,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        ),
    ):
        try:
            await asyncio.to_thread(_import_application)
            from neve.api.api_application import open_application  # noqa: PLC0415 - imported by the thread

            whole = await open_application(settings, lake, starting.rules, opened)
            starting.start(whole)
        except BaseException:
            starting.start(JSONResponse({"error": "the server did not start"}, UNAVAILABLE))
            raise
        try:
            yield f"{config.tls.scheme}://{format_address(config.host, sock.getsockname()[1])}"
        finally:
            whole.state.streams.close()  # live streams have no end of their own


def _import_application() -> None:
    import neve.api.api_application  # noqa: F401, PLC0415 - takes a CPU second, for which the port is open already


class StartingApplication:
    """Application that answers `/livez` at once, and other requests by the whole application when that is there."""

    def __init__(self, rules: AccessRules) -> None:
        self.rules = rules
        self._whole: ASGIApp | None = None
        self._started = asyncio.Event()

    def start(self, whole: ASGIApp) -> None:
        """Pass requests on, also those that wait."""
        self._whole = whole
        self._started.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if self._whole is None and self._is_live_probe(scope):
            await JSONResponse({"status": "alive"})(scope, receive, send)
            return
        await self._started.wait()
        assert self._whole is not None  # noqa: S101 - set before the event
        await self._whole(scope, receive, send)

    def _is_live_probe(self, scope: Scope) -> bool:
        if scope["type"] != "http" or scope["path"] != LIVE_PATH or scope["method"] != "GET":
            return False
        try:
            self.rules.check(scope["path"], scope["headers"])
        except Refusal:
            return False
        return True


def query_rules(config: QueryConfig) -> AccessRules:
    """Return the access rules of the API's port."""
    return AccessRules("query", config.auth == "open", config.allowed_hosts, config.origin, config.tls)
