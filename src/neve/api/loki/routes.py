"""Routes of Loki's HTTP API. Query workers answer them (`logql/http/program.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute

from neve.api.loki.errors import error_response
from neve.api.loki.tail import TailEndpoint
from neve.api.query.endpoint import Endpoint
from neve.api.query.program_response import ProgramEndpoints, ProgramResponse, describe_build, handle_form
from neve.app.query.logql import add_log_tables
from neve.lake.calendar import now_utc
from neve.logql.http.documents import CATEGORIES
from neve.logql.http.parameters import Parameters
from neve.query.engine.program import Program
from neve.query.request import Request as QueryRequest

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["FUNCTION", "PREFIX", "TABLES", "loki_routes"]

PREFIX = "/loki/api/v1"
FUNCTION = "neve.logql.http.program:answer"
TABLES = ("logs",)
ENCODING_FLAGS = "x-loki-response-encoding-flags"
VERSION = "3.5.0"  # of Loki, by which Grafana chooses its features


class LokiResponse(ProgramResponse):
    """Response with JSON."""

    def start(self) -> RunningQuery:
        """Start the program. Lists and sizes of streams also read tables about streams, where the lake has them."""
        return self._service.start_program(self._request, add_log_tables(self._service, self._program))


class LokiEndpoints(ProgramEndpoints):
    """Handlers of Loki's API."""

    def handle(self, path: str) -> Handler:
        """Return the handler of a path."""

        def respond(request: Request, pairs: list[tuple[str, str]], caller: Caller) -> ASGIApp:
            flags = [one.strip() for one in request.headers.get(ENCODING_FLAGS, "").split(",")]
            asked, program = self.prepare(path, pairs, caller, has_categories=CATEGORIES in flags)
            return LokiResponse(self.service, self.threads, asked, program, self.turns, error_response)

        return handle_form(respond, error_response)

    def prepare(
        self, path: str, pairs: list[tuple[str, str]], caller: Caller, *, has_categories: bool
    ) -> tuple[QueryRequest, Program]:
        """Return the program of a request, and its entry in the query log."""
        limits = self.service.limits_of(caller.organization, caller.key_id)
        now = int(now_utc().timestamp() * 1_000_000) * 1000
        arguments: dict[str, Any] = {
            "path": path,
            "pairs": pairs,
            "now_ns": now,
            "has_categories": has_categories,
            "seconds": limits.seconds,
            "max_rows": limits.rows,
        }
        parameters = Parameters(pairs, now)
        cache_text = _cache_text(path, parameters, has_categories=has_categories)
        program = Program(FUNCTION, arguments, TABLES, cache_text)
        request = QueryRequest(describe_request(path, parameters), caller.organization, key_id=caller.key_id)
        return request, program


def _cache_text(path: str, parameters: Parameters, *, has_categories: bool) -> str | None:
    """Return the text that identifies the answer, or `None` if it depends on the current time."""
    needed = ("time",) if path == "query" else ("start", "end")
    if path == "tail" or not all(parameters.text(name) for name in needed):
        return None
    return json.dumps([path, has_categories, *parameters.pairs])


def describe_request(path: str, parameters: Parameters) -> str:
    """Return the text of a request for the query log: its query, or its path and its selectors."""
    if path.startswith(("query", "tail")):
        return parameters.text("query")
    names = {"name", "query", "match[]", "match"}
    return " ".join([path, *(text for key, text in parameters.pairs if key in names and text)])


async def answer_build(_request: Request, _caller: Caller) -> ASGIApp:
    """Report a version."""
    return JSONResponse(describe_build(VERSION))


async def refuse_plain_tail(_request: Request, _caller: Caller) -> ASGIApp:
    """Report that a tail needs a WebSocket."""
    return PlainTextResponse("the live tail is a WebSocket: send the header `Upgrade: websocket`\n", 400)


async def answer_ready(_request: Request, _caller: Caller) -> ASGIApp:
    """Report that queries are served."""
    return PlainTextResponse("ready\n")


def loki_routes(service: QueryService, guard: Guard) -> list[BaseRoute]:
    """Return the routes of Loki's API."""
    paths = LokiEndpoints(service)

    def door(path: str, answer: str, *methods: str) -> Route:
        handler = paths.handle(answer)
        return Route(f"{PREFIX}{path}", Endpoint(guard, dict.fromkeys(methods or ("GET", "POST"), handler)))

    return [
        door("/query", "query"),
        door("/query_range", "query_range"),
        door("/labels", "labels"),
        door("/label", "labels"),
        door("/label/{name}/values", "values"),
        door("/series", "series"),
        door("/index/stats", "stats"),
        door("/index/volume", "volume"),
        door("/index/volume_range", "volume_range"),
        door("/detected_labels", "detected_labels"),
        door("/detected_fields", "detected_fields"),
        door("/detected_field/{name}/values", "field_values"),
        door("/patterns", "patterns"),
        WebSocketRoute(f"{PREFIX}/tail", TailEndpoint(paths, guard)),
        Route(f"{PREFIX}/tail", Endpoint(guard, {"GET": refuse_plain_tail})),
        Route(f"{PREFIX}/status/buildinfo", Endpoint(guard, {"GET": answer_build})),
        Route("/ready", Endpoint(guard, {"GET": answer_ready}, is_public=True)),
    ]
