"""Answers of Tempo's HTTP API, by path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neve.promql.http.documents import to_json
from neve.traceql.evaluation.span_batch import SCOPES
from neve.traceql.http.documents import describe_instant, describe_series, describe_trace
from neve.traceql.http.parameters import BadRequest
from neve.traceql.http.tags import INTRINSIC_NAMES, MAX_VALUES, list_names, list_values, parse_tag
from neve.traceql.http.trace_messages import read_trace, write_trace
from neve.traceql.metrics.engine import evaluate_metrics
from neve.traceql.metrics.intervals import Intervals
from neve.traceql.search import search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neve.traceql.http.parameters import Parameters
    from neve.traceql.storage.span_reader import SpanReader

__all__ = ["ANSWERS", "Body", "Request"]

DEFAULT_TRACES, MAX_TRACES = 20, 1000
DEFAULT_SPANS, MAX_SPANS = 3, 100
DEFAULT_EXEMPLARS, MAX_EXEMPLARS = 100, 1000
PROTOBUF = "application/protobuf"


@dataclass(frozen=True, slots=True)
class Request:
    """Parameters, spans of the caller, and whether the client wants protobuf."""

    parameters: Parameters
    reader: SpanReader
    is_protobuf: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """Items of a document, each written when it is sent, between its head and its tail; or the bytes of a message."""

    head: str = ""
    items: Sequence[Any] = ()
    write: Callable[[Any], str] = to_json
    tail: str = ""
    message: bytes | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield the body."""
        if self.message is not None:
            yield self.message
            return
        yield self.head.encode()
        for place, one in enumerate(self.items):
            yield ("," if place else "").encode() + self.write(one).encode(errors="replace")
        yield self.tail.encode()


def answer_trace(request: Request) -> Body:
    """Answer with a trace, by the first version of the API."""
    return _answer_trace(request, is_v2=False)


def answer_trace_v2(request: Request) -> Body:
    """Answer with a trace, by the second version of the API."""
    return _answer_trace(request, is_v2=True)


def _answer_trace(request: Request, *, is_v2: bool) -> Body:
    trace_id = request.parameters.trace_id()
    trace = read_trace(request.reader, trace_id)
    return Body(message=write_trace(trace, trace_id, is_v2=is_v2, is_protobuf=request.is_protobuf))


def answer_search(request: Request) -> Body:
    """Answer with traces."""
    parameters = request.parameters
    limit = parameters.count("limit", DEFAULT_TRACES, MAX_TRACES) or DEFAULT_TRACES
    spans = parameters.count("spss", DEFAULT_SPANS, MAX_SPANS) or MAX_SPANS
    found = search(request.reader, parameters.query(), parameters.window(), limit, spans)
    metrics = to_json({"inspectedTraces": len(found), "completedJobs": 1, "totalJobs": 1})
    return Body('{"traces":[', found, lambda one: to_json(describe_trace(one)), f'],"metrics":{metrics}}}')


def answer_tags(request: Request) -> Body:
    """Answer with the names of all attributes."""
    found = {name for _, names in _list_scopes(request, intrinsics=False) for name in names}
    return Body('{"tagNames":[', sorted(found), tail="]}")


def answer_tags_v2(request: Request) -> Body:
    """Answer with the names of attributes by scope."""
    scopes = [{"name": scope, "tags": names} for scope, names in _list_scopes(request, intrinsics=True) if names]
    return Body('{"scopes":[', scopes, tail="]}")


def _list_scopes(request: Request, *, intrinsics: bool) -> Iterator[tuple[str, list[str]]]:
    parameters = request.parameters
    wanted = parameters.text("scope")
    if wanted not in {"", "none", "all", "intrinsic", *SCOPES}:
        raise BadRequest(f"scope is {wanted[:100]!r}, expected one of {', '.join(SCOPES)}, intrinsic")
    condition, window = parameters.lenient_filter(), parameters.window()
    for scope in SCOPES:
        if wanted in {"", "none", "all", scope}:
            yield scope, list_names(request.reader, scope, condition, window)
    if intrinsics and wanted in {"", "none", "all", "intrinsic"}:
        yield "intrinsic", INTRINSIC_NAMES


def answer_values(request: Request) -> Body:
    """Answer with the values of a tag without types."""
    values = _list_values(request, is_scoped=False)
    return Body('{"tagValues":[', list(dict.fromkeys(one["value"] for one in values)), tail="]}")


def answer_values_v2(request: Request) -> Body:
    """Answer with the values of an attribute and their types."""
    return Body('{"tagValues":[', _list_values(request, is_scoped=True), tail="]}")


def _list_values(request: Request, *, is_scoped: bool) -> list[dict[str, Any]]:
    parameters = request.parameters
    attribute = parse_tag(parameters.text("tag"), is_scoped=is_scoped)
    limit = parameters.count("limit", MAX_VALUES, MAX_VALUES) or MAX_VALUES
    return list_values(request.reader, attribute, parameters.lenient_filter(), parameters.window(), limit)


def answer_range(request: Request) -> Body:
    """Answer with series at each step."""
    parameters = request.parameters
    intervals = parameters.intervals()
    exemplars = parameters.count("exemplars", DEFAULT_EXEMPLARS, MAX_EXEMPLARS)
    found = evaluate_metrics(request.reader, parameters.query(), intervals, exemplars)
    return Body('{"series":[', found, lambda one: to_json(describe_series(one, intervals)), '],"metrics":{}}')


def answer_instant(request: Request) -> Body:
    """Answer with one value for each series."""
    window = request.parameters.window()
    intervals = Intervals.whole(window.start_ns, window.end_ns)
    found = evaluate_metrics(request.reader, request.parameters.query(), intervals)
    return Body('{"series":[', describe_instant(found), tail='],"metrics":{}}')


ANSWERS: dict[str, Callable[[Request], Body]] = {
    "trace": answer_trace,
    "trace_v2": answer_trace_v2,
    "search": answer_search,
    "tags": answer_tags,
    "tags_v2": answer_tags_v2,
    "values": answer_values,
    "values_v2": answer_values_v2,
    "query_range": answer_range,
    "query": answer_instant,
}
