"""Queries: lines of log queries, values of metric queries at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from neve.errors import EvaluationFailed, InvalidExpression
from neve.logql.language.parser import parse
from neve.logql.language.syntax import Grouping, LogQuery, Query, RangeAggregation, ZeroAsNan
from neve.logql.pipeline.compilation import compile_stages, run_stages
from neve.logql.range_aggregations import aggregate_ranges
from neve.logql.samples import extract_samples
from neve.logql.storage.line_groups import Buckets
from neve.promql.annotations import Annotations
from neve.promql.engine import Result, finish_matrix, finish_vector
from neve.promql.evaluator import Evaluator, Options, QueryTimes
from neve.promql.language.syntax import Aggregate, Binary, Call, Evaluated, Node
from neve.promql.matrix import Matrix, Scalar
from neve.promql.series import MemorySource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.logql.pipeline.entry import Entry, Hints
    from neve.logql.storage.line_groups import Measure
    from neve.logql.storage.log_source import GroupedLines
    from neve.promql.series import Integers

__all__ = ["Engine", "LogSource", "LogWindow", "run_log_query"]

MAX_LINES = 5000  # of one answer, as Loki
MIN_BUCKET_NS = 1_000_000_000  # lines of shorter intervals are not counted together


@dataclass(frozen=True, slots=True)
class LogWindow:
    """Times of lines in nanoseconds, [start, end), and their order."""

    start_ns: int
    end_ns: int
    is_forward: bool = True


class LogSource(Protocol):
    """Port to the storage."""

    def read(self, query: LogQuery, window: LogWindow, limit: int | None) -> Iterator[list[Entry]]:
        """Yield batches of lines that match the selector of a query, in order of time.

        `limit` is the number of lines that the caller needs. A source that can't run all stages yields more.
        """

    def read_groups(self, query: LogQuery, hints: Hints, window: LogWindow, measure: Measure) -> GroupedLines | None:
        """Return lines by the labels that a metric query needs, or `None` if the source does not group them."""


@dataclass(frozen=True, slots=True)
class Engine:
    """LogQL over a source of lines."""

    source: LogSource
    options: Options = field(default_factory=Options)

    def query_logs(self, query: LogQuery, window: LogWindow, limit: int) -> list[Entry]:
        """Return the first lines of a log query in the order of the window."""
        return run_log_query(self.source, query, window, limit)

    def query(self, text: str, time_ns: int) -> Result:
        """Return the value of a metric query at one time.

        Raises `InvalidExpression`, `EvaluationFailed` or `LimitExceeded`.
        """
        node = _parse_metric(text)
        times = np.array([time_ns], np.int64)
        evaluator = self._start(QueryTimes(time_ns // 1_000_000, time_ns // 1_000_000, 0), times)
        with np.errstate(all="ignore"):
            value = evaluator.evaluate(self._resolve(node, evaluator, times))
        if isinstance(value, Scalar):
            return Result("scalar", [], scalar=(time_ns // 1_000_000, float(value.values[0])))
        if not isinstance(value, Matrix):
            raise TypeError("expected a vector")
        return finish_vector(value, evaluator, text)

    def query_range(self, text: str, start_ns: int, end_ns: int, step_ns: int) -> Result:
        """Return the value of a metric query at each step from start to end, both inclusive.

        Raises `InvalidExpression`, `EvaluationFailed` or `LimitExceeded`.
        """
        node = _parse_metric(text)
        _check_range(node)
        count = (end_ns - start_ns) // step_ns + 1
        times = start_ns + np.arange(max(count, 0), dtype=np.int64) * step_ns
        if not len(times):
            return Result("matrix", [])
        bounds = QueryTimes(start_ns // 1_000_000, end_ns // 1_000_000, step_ns // 1_000_000)
        evaluator = self._start(bounds, times)
        with np.errstate(all="ignore"):
            value = evaluator.evaluate(self._resolve(node, evaluator, times))
        return finish_matrix(value, evaluator, text)

    def _start(self, query: QueryTimes, times_ns: Integers) -> Evaluator:
        budget = self.options.make_budget()
        budget.charge(len(times_ns))
        times = times_ns // 1_000_000
        return Evaluator(MemorySource(), self.options, query, times, Annotations(), budget)

    def _resolve(self, node: Query, evaluator: Evaluator, times_ns: Integers) -> Node:
        """Return the tree with the values of its range aggregations, which PromQL evaluates."""
        if isinstance(node, RangeAggregation | ZeroAsNan):
            return Evaluated(self._evaluate_leaf(node, evaluator, times_ns))
        if isinstance(node, Aggregate):
            inside: Query = node.expression
            if node.operator == "sum" and isinstance(inside, RangeAggregation) and inside.is_summable:
                outer = Grouping(node.labels, node.is_without)
                return replace(node, expression=Evaluated(self._aggregate(inside, outer, evaluator, times_ns)))
            operator = "topk" if node.operator == "approx_topk" else node.operator
            return replace(node, operator=operator, expression=self._resolve(inside, evaluator, times_ns))
        if isinstance(node, Call):
            return replace(node, arguments=tuple(self._resolve(one, evaluator, times_ns) for one in node.arguments))
        if isinstance(node, Binary):
            left, right = (self._resolve(one, evaluator, times_ns) for one in (node.left, node.right))
            return replace(node, left=left, right=right)
        if isinstance(node, LogQuery):
            raise EvaluationFailed("a log query has no value: use a range aggregation such as rate")
        return node

    def _evaluate_leaf(
        self, node: RangeAggregation | ZeroAsNan, evaluator: Evaluator, times_ns: Integers
    ) -> Matrix | Scalar:
        if isinstance(node, RangeAggregation):
            return self._aggregate(node, None, evaluator, times_ns)
        return _hide_zeros(evaluator.evaluate(self._resolve(node.expression, evaluator, times_ns)))

    def _aggregate(
        self, node: RangeAggregation, outer: Grouping | None, evaluator: Evaluator, times_ns: Integers
    ) -> Matrix:
        log_range = node.log_range
        first, last = int(times_ns[0]), int(times_ns[-1])
        origin = first - log_range.offset_ns - log_range.range_ns
        window = LogWindow(origin + 1, last - log_range.offset_ns + 1)
        step = int(times_ns[1]) - first if len(times_ns) > 1 else 0
        width = math.gcd(log_range.range_ns, step)  # the range itself at one time
        buckets = Buckets(origin, width) if width >= MIN_BUCKET_NS else None
        found = extract_samples(node, outer, self.source, window, evaluator.budget, buckets)
        return aggregate_ranges(node, found, times_ns, evaluator.budget)


def run_log_query(source: LogSource, query: LogQuery, window: LogWindow, limit: int) -> list[Entry]:
    """Return the first lines of a log query in the order of the window."""
    stages = compile_stages(query.stages)
    found: list[Entry] = []
    for batch in source.read(query, window, limit):
        found += run_stages(stages, batch)
        if len(found) >= limit:
            break
    return found[:limit]


def _parse_metric(text: str) -> Query:
    node = parse(text)
    if isinstance(node, LogQuery):
        raise InvalidExpression(
            "log queries are not supported as an instant query type, please change your query to a range query type"
        )
    return node


def _hide_zeros(value: object) -> Matrix | Scalar:
    if isinstance(value, Scalar):
        return Scalar(np.where(value.values == 0, np.nan, value.values))
    if not isinstance(value, Matrix):
        raise TypeError("expected a vector or a scalar")
    return replace(value, values=np.where(value.values == 0, np.nan, value.values))


def _check_range(node: Query) -> None:
    stack: list[Query] = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Aggregate):
            if one.operator == "approx_topk":
                raise EvaluationFailed("approx_topk is only supported on instant queries")
            stack.append(one.expression)
        elif isinstance(one, Binary):
            stack += [one.left, one.right]
        elif isinstance(one, ZeroAsNan):
            stack.append(one.expression)
        elif isinstance(one, Call):
            stack += one.arguments
