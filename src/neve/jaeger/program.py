"""Entry of query workers: answer one request of Jaeger's HTTP API.

Searches are TraceQL, traces come from the table of spans, dependencies from the edges of the service map. Rows of the
result are pieces of the body.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from neve.errors import LimitExceeded, TraceMissing
from neve.explore.edges import read_edges
from neve.explore.source import RecordSource
from neve.jaeger.documents import describe_traces
from neve.jaeger.parameters import KIND_NAMES, NO_SERVICE, Parameters
from neve.model.service_calls import USER
from neve.model.signals import Signal
from neve.otlp.json import to_json as to_otlp_json
from neve.promql.http.documents import to_json
from neve.promql.http.program import pack_pieces
from neve.traceql.http.program import open_spans
from neve.traceql.http.trace_messages import read_trace, read_traces
from neve.traceql.search import find_traces
from neve.traceql.storage.span_reader import match_ids
from neve.traceql.storage.sql import Sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa

    from neve.explore.source import Context as RecordContext
    from neve.promql.http.program import Context
    from neve.traceql.http.trace_messages import TraceMessage
    from neve.traceql.storage.span_reader import SpanReader

__all__ = ["ANSWERS", "answer"]

MAX_SERVICES = 10_000
MAX_OPERATIONS = 10_000
SPANS_PER_SET = 1  # of a match only the id of its trace is used
_NAME = f"coalesce(nullif(service_name, ''), '{NO_SERVICE}')"
# ruff: noqa: S608 - statements are made of constants, all else are parameters


@dataclass(frozen=True, slots=True)
class Request:
    """Parameters, spans of the caller, and the source of other records."""

    parameters: Parameters
    reader: SpanReader
    context: RecordContext
    max_rows: int | None
    has_service_edges: bool = False

    def check_count(self, count: int) -> None:
        """Raise `LimitExceeded` if an answer has more items than the caller may receive."""
        if self.max_rows is not None and count > self.max_rows:
            raise LimitExceeded(f"the result has more than {self.max_rows:,} traces or names", limit="rows")


def answer(arguments: Mapping[str, Any], context: Context) -> Iterator[pa.RecordBatch]:
    """Answer a request: `path`, `pairs`, `now_ns`, `is_v3`, `seconds` (timeout) and `max_rows` (items).

    `has_service_edges` is given if the lake has the service map.
    """
    deadline = None if arguments["seconds"] is None else time.monotonic() + arguments["seconds"]
    pairs = [(name, text) for name, text in arguments["pairs"]]
    parameters = Parameters(pairs, arguments["now_ns"], arguments["is_v3"])
    source = cast("RecordContext", context)  # a worker's context takes parameters of both kinds
    has_edges = bool(arguments.get("has_service_edges"))
    request = Request(parameters, open_spans(context, deadline), source, arguments["max_rows"], has_edges)
    yield from pack_pieces(ANSWERS[arguments["path"]](request))


def answer_services(request: Request) -> Iterator[str]:
    """Answer with the names of services, in order."""
    sql = Sql(f"SELECT DISTINCT {_NAME} AS name FROM spans ORDER BY 1 LIMIT {MAX_SERVICES}")
    names = request.reader.table(sql, request.parameters.list_window()).column(0).to_pylist()
    request.check_count(len(names))
    yield to_json({"services": names} if request.parameters.is_v3 else _wrap(names))


def answer_operations(request: Request) -> Iterator[str]:
    """Answer with the names and kinds of a service's operations, in order."""
    found = _list_operations(request)
    yield to_json({"operations": found} if request.parameters.is_v3 else _wrap(found))


def answer_operation_names(request: Request) -> Iterator[str]:
    """Answer with the names of a service's operations, in order."""
    yield to_json(_wrap(list(dict.fromkeys(one["name"] for one in _list_operations(request)))))


def _list_operations(request: Request) -> list[dict[str, str]]:
    kind = request.parameters.kind()
    sql = Sql(
        "SELECT DISTINCT coalesce(operation_name, '') AS name, coalesce(span_kind, 0)::INTEGER AS kind FROM spans "
        f"WHERE {_NAME} = ? ORDER BY 1, 2 LIMIT {MAX_OPERATIONS}",
        (request.parameters.service(),),
    )
    rows = request.reader.table(sql, request.parameters.list_window()).to_pylist()
    request.check_count(len(rows))
    unknown = "internal" if request.parameters.is_v3 else ""
    found = ({"name": one["name"], "spanKind": KIND_NAMES.get(one["kind"], unknown)} for one in rows)
    return [one for one in found if kind in {"", one["spanKind"]}]


def answer_search(request: Request) -> Iterator[str]:
    """Answer with whole traces, the newest first: by ids, or by conditions that one span fulfils."""
    parameters = request.parameters
    if ids := parameters.trace_ids():
        found, window = [bytes.fromhex(one) for one in ids], None
    else:
        window = parameters.window()
        traces = find_traces(request.reader, parameters.query(), window, parameters.limit(), SPANS_PER_SET)
        found, window = [one.trace_id for one in traces], window.widen()
    request.check_count(len(found))
    if not found and not parameters.is_v3:
        yield to_json(_wrap([]))
        return
    message = read_traces(request.reader, match_ids(found), window)
    if parameters.is_v3:
        yield _write_otlp(message, "no traces match")
        return
    yield from _write_traces(message, found)


def answer_trace(request: Request) -> Iterator[str]:
    """Answer with a trace by its id, of any age."""
    trace_id = request.parameters.trace_id()
    message = read_trace(request.reader, trace_id)
    if request.parameters.is_v3 or not message.message:
        yield _write_otlp(message, f"trace {trace_id} is not stored")
        return
    yield from _write_traces(message, [bytes.fromhex(trace_id)])


def _write_otlp(message: TraceMessage, missing: str) -> str:
    """Return the spans of version 3. Raises `TraceMissing` if there are none."""
    if not message.message:
        raise TraceMissing(missing)
    return f'{{"result":{to_otlp_json(Signal.TRACES, message.message)}}}'


def _write_traces(message: TraceMessage, ids: list[bytes]) -> Iterator[str]:
    """Yield the document of traces, each when it is sent."""
    notes = [message.note] if message.is_partial else []
    traces = describe_traces(TracesData.FromString(message.message), ids, notes)
    yield '{"data":['
    for place, one in enumerate(traces):
        yield ("," if place else "") + to_json(one)
    yield f'],"total":{len(traces)},"limit":0,"offset":0,"errors":null}}'


def answer_dependencies(request: Request) -> Iterator[str]:
    """Answer with the calls between services, and from services to databases, queues and peers without spans."""
    since, until = request.parameters.dependency_window().to_times()
    wanted = request.parameters.text("service")
    calls: dict[tuple[str, str], int] = {}
    for edge in read_edges(RecordSource(request.context, since, until, request.has_service_edges))["edges"]:
        ends = (edge["client"] or NO_SERVICE, edge["server"] or NO_SERVICE)
        is_entry = ends[0] == USER and edge["connection"] == "virtual_node"
        if ends[0] != ends[1] and not is_entry and wanted in {"", *ends}:
            calls[ends] = calls.get(ends, 0) + round(edge["estimated_calls"])
    found = [{"parent": one, "child": other, "callCount": count} for (one, other), count in calls.items()]
    request.check_count(len(found))
    yield to_json(_wrap(found))


def _wrap(items: list[Any]) -> dict[str, Any]:
    return {"data": items, "total": len(items), "limit": 0, "offset": 0, "errors": None}


ANSWERS: dict[str, Callable[[Request], Iterator[str]]] = {
    "services": answer_services,
    "operations": answer_operations,
    "operation_names": answer_operation_names,
    "traces": answer_search,
    "trace": answer_trace,
    "dependencies": answer_dependencies,
}
