"""Routes of Prometheus' HTTP API. Query workers answer them (`promql/http/program.py`)."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, fail_after
from starlette.routing import Route

from neve import __version__
from neve.api.prometheus.envelope import BodyWriter, error_response, success_response
from neve.api.query.endpoint import Endpoint, read_form
from neve.api.query.errors import CONCURRENCY, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.query_response import QueryThreads, StreamedResponse
from neve.errors import LimitExceeded, QueryError
from neve.lake.calendar import now_utc
from neve.promql.http.parameters import Parameters
from neve.query.engine.program import Program
from neve.query.request import Request as QueryRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from neve.api.query.errors import Failure
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["PREFIX", "prometheus_routes"]

PREFIX = "/prometheus/api/v1"
FUNCTION = "neve.promql.http.program:answer"
TABLES = ("metrics",)
RUNNING = 4  # requests of one key at a time, if it has no limit of its own
WAITING = 30  # requests of one key that wait: dashboards send one for each panel at once
WAIT_SECONDS = 30
# The parameter without which the answer depends on the current time.
END_PARAMETERS = {
    "query": "time",
    "query_range": "end",
    "series": "end",
    "labels": "end",
    "values": "end",
    "query_exemplars": "end",
}


@dataclass(frozen=True)
class Turns:
    """Requests of each key that run at a time. The others wait here, where they occupy no thread."""

    waiting: int = WAITING
    _limiters: WeakValueDictionary[tuple[str, str, int], CapacityLimiter] = field(default_factory=WeakValueDictionary)

    @asynccontextmanager
    async def take(self, organization: str, key_id: str, most: int) -> AsyncIterator[None]:
        """Wait until fewer than `most` requests of the key run.

        Raises `LimitExceeded` if too many wait already, or if this one waited too long.
        """
        key = (organization, key_id, most)
        turn = self._limiters.get(key)
        if turn is None:
            turn = self._limiters[key] = CapacityLimiter(most)
        busy = LimitExceeded(f"{most} PromQL requests of this key run already, and too many wait", limit=CONCURRENCY)
        if not turn.available_tokens and turn.statistics().tasks_waiting >= self.waiting:
            raise busy
        token = object()  # one task may have several requests
        try:
            with fail_after(WAIT_SECONDS):
                await turn.acquire_on_behalf_of(token)
        except TimeoutError:
            raise busy from None
        try:
            yield
        finally:
            turn.release_on_behalf_of(token)


class PrometheusResponse(StreamedResponse):
    """Response whose body a worker writes, when it is the turn of its key."""

    def __init__(
        self, service: QueryService, threads: QueryThreads, request: QueryRequest, program: Program, turns: Turns
    ) -> None:
        super().__init__(service, threads, request, BodyWriter())
        self._program = program
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the turn, then send the result."""
        request = self._request
        limits = self._service.limits_of(request.organization, request.key_id)
        most = min(filter(None, (limits.concurrency, limits.places)), default=RUNNING)
        try:
            async with self._turns.take(request.organization, request.key_id, most):
                await super().__call__(scope, receive, send)
        except LimitExceeded as error:
            await self._refusal(error)(scope, receive, send)

    def start(self) -> RunningQuery:
        """Start the program."""
        return self._service.start_program(self._request, self._program)

    def refuse(self, error: Exception, failure: Failure) -> Response:
        """Return the error in Prometheus' envelope."""
        return error_response(error, failure)


@dataclass(frozen=True)
class PrometheusEndpoints:
    """Handlers of Prometheus' API."""

    service: QueryService
    turns: Turns = field(default_factory=Turns)
    threads: QueryThreads = field(default_factory=QueryThreads)

    def handle(self, path: str) -> Callable[[Request, Caller], Awaitable[ASGIApp]]:
        """Return the handler of a path."""

        async def handler(request: Request, caller: Caller) -> ASGIApp:
            pairs = [*request.path_params.items(), *await read_form(request)]
            try:
                return self._respond(path, pairs, caller)
            except QueryError as error:
                failure = to_failure(error)
                count_refused(failure)
                return error_response(error, failure)

        return handler

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
        }
        program = Program(FUNCTION, arguments, TABLES, _cache_text(path, parameters))
        request = QueryRequest(
            describe_request(path, parameters), caller.organization, timeout_seconds=wanted, key_id=caller.key_id
        )
        return PrometheusResponse(self.service, self.threads, request, program, self.turns)


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
    return success_response({
        "version": "3.5.0",
        "revision": f"neve-{__version__}",
        "branch": "",
        "buildUser": "",
        "buildDate": "",
        "goVersion": "",
    })  # fmt: skip


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
