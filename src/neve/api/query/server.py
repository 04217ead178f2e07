"""The query API as a running service."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client import REGISTRY

from neve.api.access import LONGEST_SHOWN, AccessRules, guarded_application
from neve.api.control.routes import control_routes
from neve.api.listen import address, listen
from neve.api.patience import Limits, patient
from neve.api.probes import Viewers, probes
from neve.api.query.errors import Failure, failure_of
from neve.api.query.metrics import count_refused
from neve.api.query.operation import PREFIX
from neve.api.query.replies import json_reply
from neve.api.query.routes import query_routes
from neve.api.quiet import serving
from neve.app.control import open_control
from neve.app.query import query_parts
from neve.app.serve.instance import group_token
from neve.app.telemetry.requests import Traced

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
    from neve.receive.keys import Guard
    from neve.receive.refusal import Refusal

DRAIN_SECONDS = 10  # that queries may take to finish when the server is told to stop


@asynccontextmanager
async def running_queries(settings: Settings, lake: Lake) -> AsyncIterator[str]:
    """A server of queries that runs while the block does; where it is."""
    config = settings.query
    async with query_parts(settings, lake) as parts, _opened(settings, lake) as control:
        sock = listen(config.host, config.port, "query.port")
        application = query_application(parts.service, control, parts.guard, query_rules(config), group_token())
        # Connections are bounded as those of the receiver are.
        bounds = patient(Limits(settings.receiver, lambda _status, _reason: None))
        async with serving(Traced(application), sock, http=bounds, timeout_graceful_shutdown=DRAIN_SECONDS):
            yield f"http://{address(config.host, sock.getsockname()[1])}"


def query_application(
    service: QueryService, control: Control, guard: Guard, rules: AccessRules, group_token: str = ""
) -> Starlette:
    """Every path of the API's port."""
    # Control first: the last path of queries answers for all that there are not.
    routes = [
        *control_routes(control, guard),
        *query_routes(service, guard),
        *probes(Viewers(guard, group_token), lambda: None, lambda: None, REGISTRY),
    ]
    return guarded_application(routes, rules, _refuse, _elsewhere)


def query_rules(config: QueryConfig) -> AccessRules:
    """The rules of the API's port."""
    return AccessRules("query", config.auth == "open", config.allowed_hosts)


@asynccontextmanager
async def _opened(settings: Settings, lake: Lake) -> AsyncIterator[Control]:
    with open_control(settings, lake) as control:
        yield control


def _refuse(refusal: Refusal, _scope: Scope) -> JSONResponse:
    failure = failure_of(refusal)
    failure.headers["connection"] = "close"
    count_refused(failure)
    return json_reply(failure)


def _elsewhere(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} is not served here"
    hint = f"{PREFIX}/openapi.json describes what is"
    return json_reply(Failure(error.status_code, "not_found", words, hint=hint, headers=error.headers))
