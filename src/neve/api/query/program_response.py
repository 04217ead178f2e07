"""Responses whose bodies query workers write: PromQL, LogQL and TraceQL run as programs."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, fail_after

from neve import __version__
from neve.api.query.endpoint import read_form
from neve.api.query.errors import CONCURRENCY, to_failure
from neve.api.query.metrics import count_refused
from neve.api.query.query_response import QueryThreads, StreamedResponse
from neve.errors import LimitExceeded, QueryError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    import pyarrow as pa
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from neve.api.query.endpoint import Handler
    from neve.api.query.errors import Failure
    from neve.query.engine.program import Program
    from neve.query.execution import RunningQuery
    from neve.query.limits import Limits
    from neve.query.request import Request as QueryRequest
    from neve.query.request import Statistics
    from neve.query.service import QueryService
    from neve.state.scopes import Caller

__all__ = ["BodyWriter", "ProgramEndpoints", "ProgramResponse", "Turns", "count_turns", "describe_build", "handle_form"]

RUNNING = 4  # requests of one key at a time, if it has no limit of its own
WAITING = 30  # requests of one key that wait: dashboards send one for each panel at once
WAIT_SECONDS = 30


class BodyWriter:
    """Writer of a body whose pieces are the rows of the result."""

    piece_bytes = 1024 * 1024

    def begin(self, _query_id: str, _schema: pa.Schema) -> bytes:
        """Return nothing: the first row is the beginning."""
        return b""

    def rows(self, batch: pa.RecordBatch) -> bytes:
        """Return the rows, one after the other."""
        return b"".join(batch.column(0).to_pylist())

    def end(self, _statistics: Statistics) -> bytes:
        """Return nothing: the last row is the end."""
        return b""

    def fail(self, _failure: Failure) -> None:
        """Return none: the connection is closed, so that a truncated body does not look complete."""


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
        busy = LimitExceeded(f"{most} requests of this key run already, and too many wait", limit=CONCURRENCY)
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


def describe_build(version: str) -> dict[str, str]:
    """Return the document of a version, by which Grafana chooses the features of a data source."""
    empty = dict.fromkeys(("branch", "buildUser", "buildDate", "goVersion"), "")
    return {"version": version, "revision": f"neve-{__version__}", **empty}


def count_turns(limits: Limits) -> int:
    """Return the number of requests that a key may run at a time."""
    return min(filter(None, (limits.concurrency, limits.places)), default=RUNNING)


def handle_form(
    respond: Callable[[Request, list[tuple[str, str]], Caller], ASGIApp],
    to_response: Callable[[Exception, Failure], Response],
) -> Handler:
    """Return a handler that reads parameters of path, address and form, and turns errors into responses of the API."""

    async def handler(request: Request, caller: Caller) -> ASGIApp:
        pairs = [*request.path_params.items(), *await read_form(request)]
        try:
            return respond(request, pairs, caller)
        except QueryError as error:
            failure = to_failure(error)
            count_refused(failure)
            return to_response(error, failure)

    return handler


@dataclass(frozen=True)
class ProgramEndpoints:
    """The service, the turns of keys and the threads that all handlers of a query language use."""

    service: QueryService
    turns: Turns = field(default_factory=Turns)
    threads: QueryThreads = field(default_factory=QueryThreads)


class ProgramResponse(StreamedResponse):
    """Response whose body a worker writes, when it is the turn of its key. `to_response` makes errors of the API."""

    def __init__(
        self,
        service: QueryService,
        threads: QueryThreads,
        request: QueryRequest,
        program: Program,
        turns: Turns,
        to_response: Callable[[Exception, Failure], Response],
    ) -> None:
        super().__init__(service, threads, request, BodyWriter())
        self._program = program
        self._turns = turns
        self._to_response = to_response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the turn, then send the result."""
        request = self._request
        limits = self._service.limits_of(request.organization, request.key_id)
        try:
            async with self._turns.take(request.organization, request.key_id, count_turns(limits)):
                await super().__call__(scope, receive, send)
        except LimitExceeded as error:
            await self._refusal(error)(scope, receive, send)

    def start(self) -> RunningQuery:
        """Start the program."""
        return self._service.start_program(self._request, self._program)

    def refuse(self, error: Exception, failure: Failure) -> Response:
        """Return the error in the form of the API."""
        return self._to_response(error, failure)
