"""Routes of Jaeger's HTTP API, its first version and version 3. Query workers answer them (`jaeger/program.py`)."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from neve.api.loki.errors import error_response as plain_response
from neve.api.query.endpoint import Endpoint
from neve.api.query.program_response import ProgramEndpoints, ProgramResponse, handle_form
from neve.app.query.service_map import add_service_edges
from neve.errors import TraceMissing
from neve.explore.program import TABLES as EXPLORE_TABLES
from neve.jaeger.parameters import Parameters
from neve.lake.calendar import now_utc
from neve.query.engine.program import Program
from neve.query.request import Request as QueryRequest

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.api.query.errors import Failure
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["FUNCTION", "PREFIX", "jaeger_routes"]

PREFIX = "/jaeger/api"
FUNCTION = "neve.jaeger.program:answer"
TABLES = ("spans",)
LISTS = frozenset({"services", "operations", "operation_names"})
MINUTE_NS = 60 * 10**9
NOT_FOUND = 404
# Parameters that name what a request is about, in the query log.
_LOGGED = ("service", "operation", "tags", "tag", "trace_id", "traceID")


def error_response(error: Exception, failure: Failure, *, is_v3: bool) -> Response:
    """Return an error in the form of Jaeger's API. A missing trace is 404."""
    plain = plain_response(error, failure)
    status = NOT_FOUND if isinstance(error, TraceMissing) else plain.status_code
    message = bytes(plain.body).decode()
    document: dict[str, Any] = {"error": {"httpCode": status, "message": message}}
    if not is_v3:
        document = {"data": None, "total": 0, "limit": 0, "offset": 0, "errors": [{"code": status, "msg": message}]}
    response = JSONResponse(document, status, {"cache-control": "no-store"})
    response.headers.update(failure.headers)
    return response


class JaegerEndpoints(ProgramEndpoints):
    """Handlers of Jaeger's API."""

    def handle(self, path: str, *, is_v3: bool) -> Handler:
        """Return the handler of a path."""
        to_error = partial(error_response, is_v3=is_v3)

        def respond(_request: Request, pairs: list[tuple[str, str]], caller: Caller) -> ASGIApp:
            asked, program = self._prepare(path, pairs, caller, is_v3=is_v3)
            return ProgramResponse(self.service, self.threads, asked, program, self.turns, to_error)

        return handle_form(respond, to_error)

    def _prepare(
        self, path: str, pairs: list[tuple[str, str]], caller: Caller, *, is_v3: bool
    ) -> tuple[QueryRequest, Program]:
        """Return the program of a request, and its entry in the query log."""
        limits = self.service.limits_of(caller.organization, caller.key_id)
        now = int(now_utc().timestamp() * 1_000_000) * 1000
        arguments: dict[str, Any] = {
            "path": path,
            "pairs": pairs,
            "now_ns": now,
            "is_v3": is_v3,
            "seconds": limits.seconds,
            "max_rows": limits.rows,
        }
        parameters = Parameters(pairs, now, is_v3)
        tables = EXPLORE_TABLES["edges"] if path == "dependencies" else TABLES
        program = Program(FUNCTION, arguments, tables, _cache_text(path, parameters))
        if path == "dependencies":
            program = add_service_edges(self.service, program)
        return QueryRequest(describe_request(path, parameters), caller.organization, key_id=caller.key_id), program


def _cache_text(path: str, parameters: Parameters) -> str | None:
    """Return the text that identifies the answer, or `None` if it depends on the current time.

    Lists of services and operations end at a whole minute, so that text has the minute.
    """
    minute = None
    if path in LISTS:
        minute = -(-parameters.now_ns // MINUTE_NS)
    elif path != "trace":
        needed = ("endTs", "lookback") if path == "dependencies" else ("start", "end")
        if not all(parameters.text(name) for name in needed):
            return None
    return json.dumps(["jaeger", path, parameters.is_v3, minute, *parameters.pairs])


def describe_request(path: str, parameters: Parameters) -> str:
    """Return the text of a request for the query log: its path, and what it is about."""
    found = (f"{name}={text}" for name in _LOGGED if (text := parameters.text(name)))
    return " ".join(("jaeger", path, *found))


def jaeger_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return the routes of Jaeger's API."""
    paths = JaegerEndpoints(service)

    def door(path: str, answer: str, *, is_v3: bool = False) -> Route:
        return Route(f"{PREFIX}{path}", Endpoint(guard, {"GET": paths.handle(answer, is_v3=is_v3)}))

    return [
        door("/services", "services"),
        door("/services/{service:path}/operations", "operation_names"),
        door("/operations", "operations"),
        door("/traces", "traces"),
        door("/traces/{trace_id}", "trace"),
        door("/dependencies", "dependencies"),
        door("/v3/services", "services", is_v3=True),
        door("/v3/operations", "operations", is_v3=True),
        door("/v3/traces", "traces", is_v3=True),
        door("/v3/traces/{trace_id}", "trace", is_v3=True),
    ]
