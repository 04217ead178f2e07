"""Routes of Tempo's HTTP API. Query workers answer them (`traceql/http/program.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from neve.api.loki.errors import error_response as plain_response
from neve.api.query.endpoint import Endpoint
from neve.api.query.program_response import ProgramEndpoints, ProgramResponse, describe_build, handle_form
from neve.app.query.traceql import add_trace_summaries
from neve.errors import TraceMissing
from neve.lake.calendar import now_utc
from neve.query.engine.program import Program
from neve.query.request import Request as QueryRequest
from neve.traceql.http.answers import PROTOBUF
from neve.traceql.http.parameters import Parameters

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.api.query.errors import Failure
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["FUNCTION", "PREFIX", "TABLES", "tempo_routes"]

PREFIX = "/tempo/api"
FUNCTION = "neve.traceql.http.program:answer"
TABLES = ("spans",)
TRACE_PATHS = frozenset({"trace", "trace_v2"})
VERSION = "2.9.0"  # of Tempo, by which Grafana chooses its features
NOT_FOUND = 404


def error_response(error: Exception, failure: Failure) -> Response:
    """Return an error as plain text. A missing trace is 404."""
    response = plain_response(error, failure)
    if isinstance(error, TraceMissing):
        response.status_code = NOT_FOUND
    return response


class TempoResponse(ProgramResponse):
    """Response with JSON, or with a trace in protobuf."""

    def __init__(self, *given: Any, media_type: str) -> None:
        super().__init__(*given)
        self.media_type = media_type

    def start(self) -> RunningQuery:
        """Start the program. A search also reads trace summaries, where the lake has them."""
        program = self._program
        if program.arguments["path"] == "search":
            program = add_trace_summaries(self._service, program)
        return self._service.start_program(self._request, program)


class TempoEndpoints(ProgramEndpoints):
    """Handlers of Tempo's API."""

    def handle(self, path: str) -> Handler:
        """Return the handler of a path."""

        def respond(request: Request, pairs: list[tuple[str, str]], caller: Caller) -> ASGIApp:
            is_protobuf = path in TRACE_PATHS and PROTOBUF in request.headers.get("accept", "")
            asked, program = self._prepare(path, pairs, caller, is_protobuf=is_protobuf)
            given = (self.service, self.threads, asked, program, self.turns, error_response)
            return TempoResponse(*given, media_type=PROTOBUF if is_protobuf else "application/json")

        return handle_form(respond, error_response)

    def _prepare(
        self, path: str, pairs: list[tuple[str, str]], caller: Caller, *, is_protobuf: bool
    ) -> tuple[QueryRequest, Program]:
        """Return the program of a request, and its entry in the query log."""
        limits = self.service.limits_of(caller.organization, caller.key_id)
        now = int(now_utc().timestamp() * 1_000_000) * 1000
        parameters = Parameters(pairs, now)
        arguments: dict[str, Any] = {
            "path": path,
            "pairs": pairs,
            "now_ns": now,
            "is_protobuf": is_protobuf,
            "seconds": limits.seconds,
            "max_rows": limits.rows,
        }
        program = Program(FUNCTION, arguments, TABLES, _cache_text(path, parameters, is_protobuf=is_protobuf))
        return QueryRequest(describe_request(path, parameters), caller.organization, key_id=caller.key_id), program


def _cache_text(path: str, parameters: Parameters, *, is_protobuf: bool) -> str | None:
    """Return the text that identifies the answer, or `None` if it depends on the current time."""
    if path not in TRACE_PATHS and not (parameters.text("start") and parameters.text("end")):
        return None
    return json.dumps([path, is_protobuf, *parameters.pairs])


def describe_request(path: str, parameters: Parameters) -> str:
    """Return the text of a request for the query log: its query, or its path with an id or a tag."""
    query = parameters.text("q") or parameters.text("query")
    if path in {"search", "query", "query_range"} and query:
        return query
    return " ".join(filter(None, (path, *(parameters.text(name) for name in ("trace_id", "tag", "tags")), query)))


async def answer_echo(_request: Request, _caller: Caller) -> ASGIApp:
    """Answer the health check of Grafana's data source."""
    return PlainTextResponse("echo")


async def answer_build(_request: Request, _caller: Caller) -> ASGIApp:
    """Report a version."""
    return JSONResponse(describe_build(VERSION))


def tempo_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return the routes of Tempo's API."""
    paths = TempoEndpoints(service)

    def door(path: str, answer: str) -> Route:
        return Route(f"{PREFIX}{path}", Endpoint(guard, {"GET": paths.handle(answer)}))

    return [
        door("/traces/{trace_id}", "trace"),
        door("/v2/traces/{trace_id}", "trace_v2"),
        door("/search", "search"),
        door("/search/tags", "tags"),
        door("/search/tag/{tag:path}/values", "values"),
        door("/v2/search/tags", "tags_v2"),
        door("/v2/search/tag/{tag:path}/values", "values_v2"),
        door("/metrics/query_range", "query_range"),
        door("/metrics/query", "query"),
        Route(f"{PREFIX}/echo", Endpoint(guard, {"GET": answer_echo})),
        Route(f"{PREFIX}/status/buildinfo", Endpoint(guard, {"GET": answer_build})),
    ]
