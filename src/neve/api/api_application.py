"""The application of the query and control API: its routes, its access rules and its responses to bad requests.

Imports the query engine, so the server imports this module when its port is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from neve.api.access import LONGEST_SHOWN, AccessRules, build_guarded_application
from neve.api.control.routes import control_routes
from neve.api.health import TrustedCallers, build_probe_routes
from neve.api.prometheus.routes import prometheus_routes
from neve.api.query.errors import Failure, json_response, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.operations import PREFIX
from neve.api.query.routes import query_routes
from neve.app.control import open_control
from neve.app.query import query_parts
from neve.app.serve.process_group import group_token

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.types import Scope

    from neve.app.control import Control
    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.receive.refusal import Refusal


async def open_application(settings: Settings, lake: Lake, rules: AccessRules, opened: AsyncExitStack) -> Starlette:
    """Open the query service and the control, which `opened` closes, and build the application on them."""
    parts = await opened.enter_async_context(query_parts(settings, lake))
    control = opened.enter_context(open_control(settings, lake))
    promql = settings.query.promql
    return build_api_application(parts.service, control, parts.guard, rules, group_token(), promql=promql)


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


def _refusal_response(refusal: Refusal, _scope: Scope) -> JSONResponse:
    failure = to_failure(refusal)
    failure.headers["connection"] = "close"
    count_refused(failure)
    return json_response(failure)


def _not_found(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} is not served here"
    hint = f"{PREFIX}/openapi.json lists the available paths"
    return json_response(Failure(error.status_code, "not_found", words, hint=hint, headers=error.headers))
