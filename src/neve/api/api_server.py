"""The server of the query and control API: its application, its access rules and its port."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from neve.api.access import LONGEST_SHOWN, AccessRules, build_guarded_application
from neve.api.control.routes import control_routes
from neve.api.embedded_uvicorn import serve_application
from neve.api.health import TrustedCallers, build_probe_routes
from neve.api.ports import Addresses, format_address, listen
from neve.api.prometheus.routes import prometheus_routes
from neve.api.query.errors import Failure, json_response, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.operations import PREFIX
from neve.api.query.routes import query_routes
from neve.api.slow_clients import ConnectionLimits, build_protocol
from neve.app.control import open_control
from neve.app.query import query_parts
from neve.app.serve.process_group import group_token
from neve.app.telemetry.tracing import TracingMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.types import Scope

    from neve.app.control import Control
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.receive.refusal import Refusal

DRAIN_SECONDS = 10  # time limit for running queries at the stop


@asynccontextmanager
async def open_api(settings: Settings, lake: Lake) -> AsyncIterator[Addresses]:
    """Open the query API while the block runs."""
    async with open_query_api(settings, lake) as place:
        yield Addresses(query=place, health=place)


@asynccontextmanager
async def open_query_api(settings: Settings, lake: Lake) -> AsyncIterator[str]:
    """Run a server of queries while the block runs, and yield its address."""
    config = settings.query
    async with query_parts(settings, lake) as parts, _open_control(settings, lake) as control:
        sock = listen(config.host, config.port, "query.port")
        rules, promql = query_rules(config), config.promql
        application = build_api_application(parts.service, control, parts.guard, rules, group_token(), promql=promql)
        # Connections are limited as those of the receiver are.
        bounds = build_protocol(ConnectionLimits(settings.receiver, lambda _status, _reason: None))
        async with serve_application(
            TracingMiddleware(application), sock, http=bounds, timeout_graceful_shutdown=DRAIN_SECONDS
        ):
            yield f"http://{format_address(config.host, sock.getsockname()[1])}"


def build_api_application(
    service: QueryService,
    control: Control,
    guard: Guard,
    rules: AccessRules,
    group_token: str = "",
    *,
    promql: bool = True,
) -> Starlette:
    """Build the application with every path of the API's port; those of Prometheus only with `promql`."""
    # Control first: the last query route matches all unknown paths.
    routes = [
        *control_routes(control, guard),
        *(prometheus_routes(service, guard) if promql else ()),
        *query_routes(service, guard),
        *build_probe_routes(TrustedCallers(guard, group_token), lambda: None, lambda: None, REGISTRY),
    ]
    return build_guarded_application(routes, rules, _refusal_response, _not_found)


def query_rules(config: QueryConfig) -> AccessRules:
    """Return the access rules of the API's port."""
    return AccessRules("query", config.auth == "open", config.allowed_hosts)


@asynccontextmanager
async def _open_control(settings: Settings, lake: Lake) -> AsyncIterator[Control]:
    with open_control(settings, lake) as control:
        yield control


def _refusal_response(refusal: Refusal, _scope: Scope) -> JSONResponse:
    failure = to_failure(refusal)
    failure.headers["connection"] = "close"
    count_refused(failure)
    return json_response(failure)


def _not_found(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} is not served here"
    hint = f"{PREFIX}/openapi.json lists the available paths"
    return json_response(Failure(error.status_code, "not_found", words, hint=hint, headers=error.headers))
