"""Time ranges of traces from the table `trace_summaries`, so that a search reads few spans.

The table only narrows: which traces match, and in which order, is found in spans. So rows that lag behind cost time,
and no results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.traceql.language.fields import Attribute, Binary, Static, Type
from neve.traceql.language.syntax import Filter, Pipeline, SpansetOperation
from neve.traceql.storage.span_reader import MARGIN_NS, Window, match_ids
from neve.traceql.storage.sql import Sql, join_all, join_any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.traceql.language.fields import Field
    from neve.traceql.language.syntax import Element
    from neve.traceql.storage.span_reader import SpanReader

__all__ = ["find_extent", "find_recent", "narrow_traces"]

REACH_NS = 24 * MARGIN_NS  # a trace that began earlier is read in the whole range
_ERROR = 2
_ROOTS = {"rootServiceName": "root_service_name", "rootName": "root_operation_name"}
_HAS_SERVICE = "len(list_filter(services, s -> s.service_name = ?)) > 0"


def find_recent(reader: SpanReader, condition: Sql | None, window: Window, count: int) -> Window:
    """Return the end of a time range in which about so many traces fulfil a condition and have their last span."""
    if not reader.has_summaries:
        return window
    bounds = f"last_start_unix_nano >= {window.start_ns} AND start_time_unix_nano < {window.end_ns}"
    where = join_all([Sql(bounds), condition]) or Sql(bounds)
    text = (
        f"SELECT count(*) AS traces, min(last_start) AS oldest FROM (SELECT last_start_unix_nano AS last_start "  # noqa: S608  # parameters
        f"FROM trace_summaries WHERE {where.text} ORDER BY last_start DESC LIMIT {int(count)}) AS newest"
    )
    found = reader.table(Sql(text, where.parameters), _reach(window)).to_pylist()[0]
    if found["traces"] < count:
        return window
    return Window(max(window.start_ns, min(found["oldest"], window.end_ns - 1)), window.end_ns)


def find_extent(reader: SpanReader, ids: Sequence[bytes], window: Window) -> Window:
    """Return the part of a time range that has the spans of some traces, with those that summaries have not seen.

    It is all of the range if a trace is unknown.
    """
    if not reader.has_summaries or not ids:
        return window
    chosen = match_ids(ids)
    text = (
        "SELECT count(DISTINCT trace_id) AS traces, min(start_time_unix_nano) AS first, "  # noqa: S608  # parameters
        f"max(end_time_unix_nano) AS last FROM trace_summaries WHERE {chosen.text}"
    )
    found = reader.table(Sql(text, chosen.parameters), _reach(window)).to_pylist()[0]
    if found["traces"] < len(set(ids)):
        return window
    first, last = found["first"], found["last"] + 1
    new = reader.find_new_spans(window)
    if new is not None:
        first, last = min(first, new.start_ns), max(last, new.end_ns)
    return Window(max(window.start_ns, first), max(min(window.end_ns, last), window.start_ns))


def _reach(window: Window) -> Window:
    return Window(window.start_ns - REACH_NS, window.end_ns)


def narrow_traces(node: Element | Pipeline) -> Sql | None:
    """Return a condition on trace summaries that traces with a result fulfil, as far as one is known."""
    match node:
        case Pipeline():
            filters = [one for one in node.elements if isinstance(one, Filter)]
            first = [node.elements[0]] if isinstance(node.elements[0], SpansetOperation | Pipeline) else []
            return join_all([narrow_traces(one) for one in (*first, *filters)])
        case Filter():
            return _narrow_field(node.condition)
        case SpansetOperation(operator="||"):
            return join_any([narrow_traces(node.left), narrow_traces(node.right)])
        case SpansetOperation() if node.operator.startswith("!"):
            return narrow_traces(node.right)
        case SpansetOperation():
            return join_all([narrow_traces(node.left), narrow_traces(node.right)])
    return None


def _narrow_field(node: Field) -> Sql | None:
    match node:
        case Binary(operator="&&"):
            return join_all([_narrow_field(node.left), _narrow_field(node.right)])
        case Binary(operator="||"):
            return join_any([_narrow_field(node.left), _narrow_field(node.right)])
        case Binary(operator="=", left=Attribute() as left, right=Static() as right):
            return _narrow_equality(left, right)
    return None


def _narrow_equality(left: Attribute, right: Static) -> Sql | None:
    if left.scope == "intrinsic":
        if left.name == "status" and right.type is Type.STATUS and right.value == _ERROR:
            return Sql("error_count > 0")
        if left.name in _ROOTS and right.type is Type.STRING:
            return Sql(f"{_ROOTS[left.name]} = ?", (right.value,))
    elif left.scope == "resource" and left.name == "service.name" and right.type is Type.STRING:
        return Sql(_HAS_SERVICE, (right.value,))
    return None
