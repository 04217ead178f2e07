"""The paths of the query API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio import to_thread
from starlette.routing import Route

from neve.api.query.accept import wanted_format
from neve.api.query.asking import Asking, Threads
from neve.api.query.documents import QueriesDocument, TableDocument, TablesDocument, query_document
from neve.api.query.door import QueryDoor, read_body
from neve.api.query.errors import Failure
from neve.api.query.openapi import description
from neve.api.query.operation import PREFIX
from neve.api.query.question import read_question
from neve.api.query.replies import json_reply
from neve.errors import TableMissing
from neve.lake.scopes import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.door import Handler
    from neve.lake.scopes import Caller
    from neve.query.running import Running
    from neve.query.service import QueryService
    from neve.receive.keys import Guard

INSISTING = 10
INSISTING_SECONDS = 0.1
Result = TypeVar("Result")


@dataclass(frozen=True)
class QueryPaths:
    """What is done at each path."""

    service: QueryService
    threads: Threads = field(default_factory=Threads)

    async def ask(self, request: Request, caller: Caller) -> ASGIApp:
        """Answer a question."""
        question = read_question(await read_body(request))
        form = question.format or wanted_format(request.headers.get("accept"))
        return Asking(self.service, self.threads, question.request(caller), form)

    async def tables(self, _request: Request, caller: Caller) -> Response:
        """All tables."""
        facts = await self._look(lambda: self.service.tables(caller.organization))
        return json_reply(TablesDocument(tables=[TableDocument.model_validate(one) for one in facts]).plain)

    async def table(self, request: Request, caller: Caller) -> Response:
        """One table."""
        name: str = request.path_params["name"]
        try:
            facts = await self._look(lambda: self.service.describe(name, caller.organization))
        except TableMissing as error:
            raise Failure(404, "unknown_table", error.message, hint=error.hint) from error
        return json_reply(TableDocument.model_validate(facts).plain)

    async def queries(self, _request: Request, caller: Caller) -> Response:
        """The queries of the organization that run."""
        found = await self._look(lambda: self.service.running(caller.organization))
        return json_reply(QueriesDocument(queries=[query_document(one) for one in found]).plain)

    async def query(self, request: Request, caller: Caller) -> Response:
        """One query."""
        running = await self._find(request, caller)
        return json_reply(query_document(running).plain, running.id)

    async def cancel(self, request: Request, caller: Caller) -> Response:
        """End a query; one that ended stays as it is."""
        running = await self._find(request, caller)
        if running.key_id != caller.key_id and not caller.may(Scope.ADMIN):
            message = f"the query {running.id} was started with another key of the organization"
            hint = "a key may cancel its own queries, and with the scope admin those of others"
            raise Failure(403, "wrong_owner", message, hint=hint)
        for _ in range(INSISTING):  # an engine that has not begun does not hear it
            if running.state != "running":
                break
            await self._look(running.cancel)
            await anyio.sleep(INSISTING_SECONDS)
        return json_reply(query_document(running).plain, running.id, 202)

    async def describe(self, _request: Request, _caller: Caller) -> Response:
        """The description of all of this."""
        return json_reply(description())

    async def _find(self, request: Request, caller: Caller) -> Running:
        query_id: str = request.path_params["id"]
        running = await self._look(lambda: self.service.find(query_id, caller.organization))
        if running is None:
            hint = "queries are remembered for a while only, and by the server that was asked"
            raise Failure(404, "unknown_query", f"there is no query {query_id[:64]!r}", hint=hint)
        return running

    async def _look(self, read: Callable[[], Result]) -> Result:
        return await to_thread.run_sync(read, limiter=self.threads.looking)


def query_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Every path of the query API, and an answer for those below it that there are not."""
    paths = QueryPaths(service)

    def door(path: str, *, is_public: bool = False, **handlers: Handler) -> Route:
        return Route(f"{PREFIX}{path}", QueryDoor(guard, handlers, is_public))

    return [
        door("/query", POST=paths.ask),
        door("/tables", GET=paths.tables),
        door("/tables/{name}", GET=paths.table),
        door("/queries", GET=paths.queries),
        door("/queries/{id}", GET=paths.query, DELETE=paths.cancel),
        door("/openapi.json", is_public=True, GET=paths.describe),
        door(""),
        door("/{rest:path}"),
    ]
