"""The application of the query and control API and the page: routes, access rules, responses to bad requests.

Imports the query engine, so the server imports this module when its port is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY
from starlette.middleware import Middleware

from neve.api.access import LONGEST_SHOWN, AccessRules, build_guarded_application
from neve.api.alerting.routes import AlertingEndpoints, alerting_routes
from neve.api.control.routes import control_routes
from neve.api.explore.routes import explore_routes
from neve.api.health import TrustedCallers, build_probe_routes
from neve.api.jaeger.routes import jaeger_routes
from neve.api.loki.routes import loki_routes
from neve.api.page.files import PageFiles, SecurityHeaders
from neve.api.page.job_events import job_event_routes
from neve.api.page.live import LiveStreams, live_routes
from neve.api.page.sign_in import sign_in_routes
from neve.api.page.views import view_routes
from neve.api.prometheus.routes import prometheus_routes
from neve.api.query.errors import Failure, json_response, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.operations import PREFIX
from neve.api.query.routes import query_routes
from neve.api.tempo.routes import tempo_routes
from neve.api.tenant.routes import tenant_routes
from neve.app.control import open_control
from neve.app.query.service import query_parts
from neve.app.serve.process_group import group_token
from neve.app.wiring import build_documents

if TYPE_CHECKING:
    from collections.abc import Collection
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
    from neve.state.sessions import Sessions

HTTPS = "https://"

LANGUAGES = ("promql", "logql", "traceql", "jaeger")  # each is also the name of a setting


async def open_application(settings: Settings, lake: Lake, rules: AccessRules, opened: AsyncExitStack) -> Starlette:
    """Open the query service and the control, which `opened` closes, and build the application on them."""
    parts = await opened.enter_async_context(query_parts(settings, lake))
    control = opened.enter_context(open_control(settings, lake))
    documents = build_documents(settings)
    opened.callback(documents.close)
    alerting = AlertingEndpoints(documents, settings.rules.destinations)
    languages = {name for name in LANGUAGES if getattr(settings.query, name)}
    return build_api_application(
        parts.service,
        control,
        parts.guard,
        rules,
        group_token(),
        alerting,
        languages=languages,
        sessions=parts.sessions,
    )


def build_api_application(  # noqa: PLR0913 - the parts of the application
    service: QueryService,
    control: Control,
    guard: Guard,
    rules: AccessRules,
    group_token: str = "",
    alerting: AlertingEndpoints | None = None,
    *,
    languages: Collection[str] = LANGUAGES,
    sessions: Sessions | None = None,
) -> Starlette:
    """Build the application with every path of the API's port; those of other languages by `languages`."""
    streams = LiveStreams()
    # Events of jobs before the path of one job; control first: the last query route matches all unknown paths.
    routes = [
        *job_event_routes(control, guard, streams),
        *control_routes(control, guard),
        *tenant_routes(service, control, guard),
        *live_routes(service, guard, streams),
        *view_routes(control, guard),
        *sign_in_routes(guard, sessions, is_secure=rules.tls.is_on or rules.origin.startswith(HTTPS)),
        *explore_routes(service, guard),
        *(prometheus_routes(service, guard) if "promql" in languages else ()),
        *(alerting_routes(alerting, guard) if "promql" in languages and alerting is not None else ()),
        *(loki_routes(service, guard) if "logql" in languages else ()),
        *(tempo_routes(service, guard) if "traceql" in languages else ()),
        *(jaeger_routes(service, guard) if "jaeger" in languages else ()),
        *query_routes(service, guard),
        *build_probe_routes(TrustedCallers(guard, group_token), lambda: None, lambda: None, REGISTRY),
    ]
    page = PageFiles.load()

    def respond_elsewhere(request: Request, error: HTTPException) -> Response:
        return page.respond(request) or _not_found(request, error)

    application = build_guarded_application(routes, rules, _refusal_response, respond_elsewhere)
    application.user_middleware.insert(0, Middleware(SecurityHeaders))  # outermost: refused requests get them too
    application.state.streams = streams  # a drain ends them
    return application


def _refusal_response(refusal: Refusal, _scope: Scope) -> JSONResponse:
    failure = to_failure(refusal)
    failure.headers["connection"] = "close"
    count_refused(failure)
    return json_response(failure)


def _not_found(request: Request, error: HTTPException) -> Response:
    words = f"{request.method} {request.url.path[:LONGEST_SHOWN]} was not found"
    hint = f"{PREFIX}/openapi.json lists the available paths"
    return json_response(Failure(error.status_code, "not_found", words, hint=hint, headers=error.headers))
