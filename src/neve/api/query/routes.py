"""The routes of the query API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import to_thread
from starlette.routing import Route

from neve.api.openapi import build_description
from neve.api.query.endpoint import Endpoint, read_body
from neve.api.query.errors import Failure, json_response
from neve.api.query.formats import negotiate_format
from neve.api.query.models import (
    QueriesDocument,
    Questions,
    TableDocument,
    TablesDocument,
    bad_request,
    format_value,
    query_document,
    read_model,
    read_question,
)
from neve.api.query.operations import PREFIX
from neve.api.query.query_response import BatchResponse, QueryResponse, QueryThreads
from neve.errors import TableMissing
from neve.state.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

CLIENT_HEADER, PAGE_CLIENT = "neve-client", "page"
CANCEL_ATTEMPTS = 10
CANCEL_PAUSE_SECONDS = 0.1
Result = TypeVar("Result")


@dataclass(frozen=True)
class QueryEndpoints:
    """Handlers of the query API."""

    service: QueryService
    threads: QueryThreads = field(default_factory=QueryThreads)

    async def ask(self, request: Request, caller: Caller) -> ASGIApp:
        """Run a query."""
        question = read_question(await read_body(request))
        form = question.format or negotiate_format(request.headers.get("accept"))
        is_from_page = request.headers.get(CLIENT_HEADER) == PAGE_CLIENT
        asked = question.request(caller, is_from_page=is_from_page)
        return QueryResponse(self.service, self.threads, asked, form)

    async def ask_all(self, request: Request, caller: Caller) -> ASGIApp:
        """Run several queries."""
        questions = read_model(await read_body(request), Questions).questions
        for one in questions:
            if one.format not in (None, "columns"):
                raise bad_request(f"format is {format_value(one.format)}, expected columns in a batch")
        is_from_page = request.headers.get(CLIENT_HEADER) == PAGE_CLIENT
        asked = [one.request(caller, is_from_page=is_from_page) for one in questions]
        return BatchResponse([QueryResponse(self.service, self.threads, one, "columns") for one in asked])

    async def tables(self, _request: Request, caller: Caller) -> Response:
        """Return all tables."""
        facts = await self._look(lambda: self.service.tables(caller.organization))
        return json_response(TablesDocument(tables=[TableDocument.model_validate(one) for one in facts]).plain)

    async def table(self, request: Request, caller: Caller) -> Response:
        """Return one table."""
        name: str = request.path_params["name"]
        try:
            facts = await self._look(lambda: self.service.describe(name, caller.organization))
        except TableMissing as error:
            raise Failure(404, "unknown_table", error.message, hint=error.hint) from error
        return json_response(TableDocument.model_validate(facts).plain)

    async def queries(self, _request: Request, caller: Caller) -> Response:
        """Return the running queries of the organization."""
        found = await self._look(lambda: self.service.running(caller.organization))
        return json_response(QueriesDocument(queries=[query_document(one) for one in found]).plain)

    async def query(self, request: Request, caller: Caller) -> Response:
        """Return one query."""
        running = await self._find(request, caller)
        return json_response(query_document(running).plain, running.id)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """Cancel a query; an ended one is not changed."""
        running = await self._find(request, caller)
        if running.key_id != caller.key_id and not caller.may(Scope.ADMIN):
            message = f"the query {running.id} was started with another key of the organization"
            hint = "a key can cancel its own queries, and with the scope admin those of other keys"
            raise Failure(403, "wrong_owner", message, hint=hint)
        for _ in range(CANCEL_ATTEMPTS):  # an engine that has not started ignores it
            if running.state != "running":
                break
            await self._look(running.cancel)
            await anyio.sleep(CANCEL_PAUSE_SECONDS)
        return json_response(query_document(running).plain, running.id, 202)

    async def describe(self, _request: Request, _caller: Caller) -> Response:
        """Return the OpenAPI description."""
        return json_response(build_description())

    async def _find(self, request: Request, caller: Caller) -> RunningQuery:
        query_id: str = request.path_params["id"]
        running = await self._look(lambda: self.service.find(query_id, caller.organization))
        if running is None:
            hint = "a server lists only its own queries, for a limited time"
            raise Failure(404, "unknown_query", f"there is no query {query_id[:64]!r}", hint=hint)
        return running

    async def _look(self, read: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(read, limiter=self.threads.looking)


def query_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return every route of the query API, and a response for unknown paths below it."""
    paths = QueryEndpoints(service)

    def door(path: str, *, is_public: bool = False, **handlers: Handler) -> Route:
        return Route(f"{PREFIX}{path}", Endpoint(guard, handlers, is_public))

    return [
        door("/query", POST=paths.ask),
        door("/query/batch", POST=paths.ask_all),
        door("/tables", GET=paths.tables),
        door("/tables/{name}", GET=paths.table),
        door("/queries", GET=paths.queries),
        door("/queries/{id}", GET=paths.query, DELETE=paths.cancel),
        door("/openapi.json", is_public=True, GET=paths.describe),
        door(""),
        door("/{rest:path}"),
    ]
