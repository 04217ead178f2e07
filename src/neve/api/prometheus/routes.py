"""Routes of Prometheus' HTTP API. Query workers answer them (`promql/http/program.py`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from neve.api.prometheus.envelope import error_response, success_response
from neve.api.query.endpoint import Endpoint
from neve.api.query.program_response import ProgramEndpoints, ProgramResponse, describe_build, handle_form
from neve.app.query.promql import add_tables
from neve.lake.calendar import now_utc
from neve.promql.http.parameters import Parameters
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

__all__ = ["PREFIX", "prometheus_routes"]

PREFIX = "/prometheus/api/v1"
FUNCTION = "neve.promql.http.program:answer"
TABLES = ("metrics",)
# The parameter without which the answer depends on the current time.
END_PARAMETERS = {
    "query": "time",
    "query_range": "end",
    "series": "end",
    "labels": "end",
    "values": "end",
    "query_exemplars": "end",
}


class PrometheusResponse(ProgramResponse):
    """Response that also reads the tables of series and of rules, where the lake has them."""

    def start(self) -> RunningQuery:
        """Start the program."""
        return self._service.start_program(self._request, add_tables(self._service, self._program))


class PrometheusEndpoints(ProgramEndpoints):
    """Handlers of Prometheus' API."""

    def handle(self, path: str) -> Handler:
        """Return the handler of a path."""
        return handle_form(lambda _request, pairs, caller: self._respond(path, pairs, caller), error_response)

    def _respond(self, path: str, pairs: list[tuple[str, str]], caller: Caller) -> ASGIApp:
        limits = self.service.limits_of(caller.organization, caller.key_id)
        parameters = Parameters(pairs, int(now_utc().timestamp() * 1000))
        wanted = parameters.duration("timeout") / 1000 if parameters.text("timeout") else None
        arguments: dict[str, Any] = {
            "path": path,
            "pairs": pairs,
            "now_ms": parameters.now_ms,
            "seconds": min(filter(None, (wanted, limits.seconds)), default=None),
            "max_rows": limits.rows,
            "reads_ahead": not (limits.scan_bytes or limits.daily_bytes or limits.key_daily_bytes),
        }
        program = Program(FUNCTION, arguments, TABLES, _cache_text(path, parameters))
        request = QueryRequest(
            describe_request(path, parameters), caller.organization, timeout_seconds=wanted, key_id=caller.key_id
        )
        return PrometheusResponse(self.service, self.threads, request, program, self.turns, error_response)


def _cache_text(path: str, parameters: Parameters) -> str | None:
    """Return the text that identifies the answer, or `None` if it depends on the current time."""
    end = END_PARAMETERS.get(path)
    if end is None or not parameters.text(end):
        return None
    return json.dumps([path, *(pair for pair in parameters.pairs if pair[0] != "timeout")])


def describe_request(path: str, parameters: Parameters) -> str:
    """Return the text of a request for the query log: its expression, or its path and its selectors."""
    if path.startswith("query"):
        return parameters.text("query")
    name = parameters.text("name")
    selectors = (text for key, text in parameters.pairs if key == "match[]")
    return " ".join(filter(None, (f"label {path}" if name else path, name, *selectors)))


async def answer_build(_request: Request, _caller: Caller) -> ASGIApp:
    """Report a version. Grafana chooses its features of the language by it."""
    return success_response(describe_build("3.5.0"))


def prometheus_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return the routes of Prometheus' API."""
    paths = PrometheusEndpoints(service)

    def door(path: str, answer: str, *methods: str) -> Route:
        handler = paths.handle(answer)
        return Route(f"{PREFIX}{path}", Endpoint(guard, dict.fromkeys(methods or ("GET",), handler)))

    return [
        door("/query", "query", "GET", "POST"),
        door("/query_range", "query_range", "GET", "POST"),
        door("/query_exemplars", "query_exemplars", "GET", "POST"),
        door("/series", "series", "GET", "POST"),
        door("/labels", "labels", "GET", "POST"),
        door("/label/{name}/values", "values"),
        door("/metadata", "metadata"),
        Route(f"{PREFIX}/status/buildinfo", Endpoint(guard, {"GET": answer_build})),
    ]
