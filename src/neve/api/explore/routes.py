"""Routes of the API of traces, services and fields. Query workers answer them (`explore/program.py`)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from neve.api.control.operations import read_query
from neve.api.explore.field_operations import FieldsQuery, HistogramQuery, NearbyQuery, ValuesQuery
from neve.api.explore.operations import LogsQuery, RangeQuery, ServicesQuery
from neve.api.query.endpoint import Endpoint
from neve.api.query.errors import json_response
from neve.api.query.models import bad_request, format_value
from neve.api.query.operations import PREFIX
from neve.api.query.program_response import BodyWriter
from neve.api.query.query_response import QueryThreads, StreamedResponse
from neve.app.query.service_map import add_service_edges
from neve.explore.fields import FIELD_COLUMNS
from neve.explore.program import TABLES
from neve.query.engine.program import Program
from neve.query.request import Request as QueryRequest
from neve.query.sql.dialect import check_condition
from neve.query.sql.identifiers import KNOWN
from neve.query.sql.text_ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from neve.api.query.endpoint import Handler
    from neve.api.query.errors import Failure
    from neve.query.execution import RunningQuery
    from neve.query.service import QueryService
    from neve.receive.authentication import Guard
    from neve.state.scopes import Caller

__all__ = ["explore_routes"]

FUNCTION = "neve.explore.program:answer"
SPAN_ID, RECORD_ID = re.compile(r"[0-9a-f]{16}"), re.compile(r"[0-9a-f]{32}")
COUNT_SECONDS = 30.0  # counts never hold up rows
EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


class ProgramResponse(StreamedResponse):
    """Response whose body a worker writes."""

    def __init__(self, service: QueryService, threads: QueryThreads, request: QueryRequest, program: Program) -> None:
        super().__init__(service, threads, request, BodyWriter())
        self._program = program

    def start(self) -> RunningQuery:
        """Start the program."""
        program = self._program
        if program.arguments["answer"] == "edges":
            program = add_service_edges(self._service, program)
        return self._service.start_program(self._request, program)

    def refuse(self, _error: Exception, failure: Failure) -> Response:
        """Return the error in the form of the query API."""
        return json_response(failure, self._id)


@dataclass(frozen=True)
class ExploreEndpoints:
    """Handlers of the API of traces and services."""

    service: QueryService
    threads: QueryThreads = field(default_factory=QueryThreads)

    async def trace(self, request: Request, caller: Caller) -> ASGIApp:
        """Return one trace as columns."""
        return self._respond("trace", caller, {"trace_id": read_trace_id(request)})

    async def span(self, request: Request, caller: Caller) -> ASGIApp:
        """Return one span in full."""
        span_id: str = request.path_params["span_id"].lower()
        if not SPAN_ID.fullmatch(span_id):
            raise bad_request(f"the span id is {format_value(span_id)}, expected 16 hexadecimal digits")
        return self._respond("span", caller, {"trace_id": read_trace_id(request), "span_id": span_id})

    async def logs(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the logs of a trace."""
        wanted = read_query(request, LogsQuery)
        return self._respond("logs", caller, {"trace_id": read_trace_id(request), **wanted.model_dump()})

    async def decisions(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the sampling decisions about a trace."""
        return self._respond("decisions", caller, {"trace_id": read_trace_id(request)})

    async def services(self, request: Request, caller: Caller) -> ASGIApp:
        """Return services and their operations."""
        return self._respond("services", caller, read_query(request, ServicesQuery).model_dump(mode="json"))

    async def edges(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the calls between services."""
        return self._respond("edges", caller, read_query(request, RangeQuery).model_dump(mode="json"))

    async def fields(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the fields of records."""
        return self._count("fields", caller, read_query(request, FieldsQuery))

    async def values(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the values of fields."""
        return self._count("values", caller, read_query(request, ValuesQuery))

    async def histogram(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the records over time."""
        wanted = read_query(request, HistogramQuery)
        columns = FIELD_COLUMNS[wanted.table]
        if wanted.by and wanted.by not in columns:
            raise bad_request(f"by is {format_value(wanted.by)}, expected one of {', '.join(columns)}")
        if wanted.since is None or wanted.until is None or wanted.since >= wanted.until:
            raise bad_request("until is not after since, expected two times in their order")
        return self._count("histogram", caller, wanted)

    async def nearby(self, request: Request, caller: Caller) -> ASGIApp:
        """Return the logs before and after one."""
        record_id: str = request.path_params["record_id"].lower()
        if not RECORD_ID.fullmatch(record_id):
            raise bad_request(f"the record id is {format_value(record_id)}, expected 32 hexadecimal digits")
        wanted = read_query(request, NearbyQuery)
        if wanted.time is None or not EARLIEST <= wanted.time <= LATEST:
            raise bad_request("time is missing or far off, expected the time of the log")
        return self._respond("nearby", caller, {"record_id": record_id, **wanted.model_dump(mode="json")})

    async def functions(self, _request: Request, _caller: Caller) -> Response:
        """Return the names of the functions that statements may call."""
        return json_response({"functions": sorted(KNOWN)})

    def _count(self, answer: str, caller: Caller, wanted: FieldsQuery) -> ASGIApp:
        """Respond with counts of one table, which have a limit of time of their own."""
        check_condition(wanted.where)
        return self._respond(answer, caller, wanted.arguments, (wanted.table,), COUNT_SECONDS)

    def _respond(
        self,
        answer: str,
        caller: Caller,
        wanted: Mapping[str, Any],
        tables: tuple[str, ...] | None = None,
        seconds: float | None = None,
    ) -> ASGIApp:
        given = {name: value for name, value in wanted.items() if value is not None}
        text = " ".join((answer, *(f"{name}={value}" for name, value in given.items())))
        key = json.dumps([answer, given], sort_keys=True)
        program = Program(FUNCTION, {"answer": answer, **given}, tables or TABLES[answer], key)
        request = QueryRequest(text, caller.organization, key_id=caller.key_id, timeout_seconds=seconds)
        return ProgramResponse(self.service, self.threads, request, program)


def read_trace_id(request: Request) -> str:
    """Return the id of a trace in the path, in any form that people paste; raises `Failure`."""
    given: str = request.path_params["trace_id"]
    trace_id = parse_id(given, "trace_id")
    if trace_id is None or len(trace_id) != 32:
        raise bad_request(f"the trace id is {format_value(given)}, expected 32 hexadecimal digits")
    return trace_id


def explore_routes(service: QueryService, guard: Guard) -> list[Route]:
    """Return the routes of traces and services."""
    paths = ExploreEndpoints(service)

    def door(path: str, handler: Handler) -> Route:
        return Route(f"{PREFIX}{path}", Endpoint(guard, {"GET": handler}))

    return [
        door("/traces/{trace_id}", paths.trace),
        door("/traces/{trace_id}/spans/{span_id}", paths.span),
        door("/traces/{trace_id}/logs", paths.logs),
        door("/traces/{trace_id}/decisions", paths.decisions),
        door("/services", paths.services),
        door("/services/edges", paths.edges),
        door("/fields", paths.fields),
        door("/fields/values", paths.values),
        door("/histogram", paths.histogram),
        door("/logs/{record_id}/nearby", paths.nearby),
        door("/functions", paths.functions),
    ]
