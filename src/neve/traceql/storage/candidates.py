"""Traces that may match a pipeline: conditions on their spans, and on which of them a trace must have.

Both sides of `>>` and `&&` must be in a trace, so one pass over the spans that fulfil either condition finds the traces
that have both. The spans of the result fulfil the condition of the side that an operator returns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.traceql.language.syntax import Filter, Pipeline, SpansetOperation
from neve.traceql.storage.conditions import narrow
from neve.traceql.storage.sql import Sql, join_all, join_any

if TYPE_CHECKING:
    from neve.traceql.language.syntax import Element

__all__ = ["Candidates", "find_candidates"]

_START = "start_time_unix_nano"


@dataclass(frozen=True, slots=True)
class Candidates:
    """Conditions; `None` is no condition.

    `spans` holds for all spans that matter, `result` for those of the result, and `traces`, which has aggregates, for
    all traces with a result.
    """

    spans: Sql | None
    result: Sql | None
    traces: Sql | None

    def write_traces(self, start_ns: int, end_ns: int) -> Sql:
        """Return the statement of traces with a span of the result in a time range, the newest first."""
        in_range = Sql(f"{_START} >= {int(start_ns)} AND {_START} < {int(end_ns)}")
        wanted = join_all([in_range, self.result]) or in_range
        where = join_all([Sql("trace_id IS NOT NULL"), self.spans]) or in_range
        having = join_all([Sql(f"bool_or({wanted.text})", wanted.parameters), self.traces]) or in_range
        newest = f"max({_START}) FILTER (WHERE {wanted.text})"
        text = (
            f"SELECT trace_id, {newest} AS newest FROM spans WHERE {where.text} GROUP BY trace_id HAVING {having.text}"  # noqa: S608  # parameters
        )
        return Sql(text, (*wanted.parameters, *where.parameters, *having.parameters))


def find_candidates(pipeline: Pipeline) -> Candidates:
    """Return the conditions of a pipeline. Those of its later elements only narrow the result."""
    first, *rest = pipeline.elements
    later = [narrow(one.condition) for one in rest if isinstance(one, Filter)]
    found = _find(first)
    if isinstance(first, Filter):
        both = join_all([found.result, *later])
        return Candidates(both, both, None)
    return Candidates(found.spans, join_all([found.result, *later]), found.traces)


def _find(node: Element | Pipeline) -> Candidates:
    match node:
        case Filter():
            condition = narrow(node.condition)
            has = None if condition is None else Sql(f"bool_or({condition.text})", condition.parameters)
            return Candidates(condition, condition, has)
        case Pipeline():
            return find_traces_of(node)
        case SpansetOperation():
            return _combine(node)
    return Candidates(None, None, None)


def find_traces_of(pipeline: Pipeline) -> Candidates:
    """Return the conditions of a pipeline inside of an operator."""
    found = find_candidates(pipeline)
    if found.traces is None and found.result is not None:
        return Candidates(found.spans, found.result, Sql(f"bool_or({found.result.text})", found.result.parameters))
    return found


def _combine(node: SpansetOperation) -> Candidates:
    left, right = _find(node.left), _find(node.right)
    spans = join_any([left.spans, right.spans])
    both = join_any([left.result, right.result])
    if node.operator == "||":
        return Candidates(spans, both, join_any([left.traces, right.traces]))
    if node.operator == "&&":
        return Candidates(spans, both, join_all([left.traces, right.traces]))
    if node.operator.startswith("!"):
        return Candidates(spans, right.result, right.traces)
    result = both if node.operator.startswith("&") else right.result
    return Candidates(spans, result, join_all([left.traces, right.traces]))
