"""Evaluate metrics: read spans, choose those of the pipeline, aggregate them to series.

A pipeline whose filters look at one span at a time is evaluated batch by batch. Others need whole traces. They are read
in shares by trace id, so that the memory for one share is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import InvalidExpression
from neve.traceql.evaluation.span_batch import SpanBatch
from neve.traceql.evaluation.spansets import run_pipeline
from neve.traceql.language.rewrites import simplify
from neve.traceql.language.syntax import Compare, MetricsMath, MetricsPipeline, Pipeline
from neve.traceql.metrics.comparison import INTRINSICS, MAP_COLUMNS, Comparison
from neve.traceql.metrics.series import Aggregator
from neve.traceql.metrics.stages import apply_stages, combine_series, combine_with_number
from neve.traceql.storage.candidates import find_candidates
from neve.traceql.storage.columns import TREE, has_structure, list_attributes, needs_whole_traces
from neve.traceql.storage.sql import Sql, join_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.traceql.language.syntax import MetricsQuery, Query
    from neve.traceql.metrics.intervals import Intervals
    from neve.traceql.metrics.series import Series
    from neve.traceql.storage.span_reader import SpanReader

__all__ = ["evaluate_metrics"]

SHARE_SPANS = 500_000  # of whole traces that are read together
MAX_SHARES = 16


def evaluate_metrics(reader: SpanReader, query: Query, intervals: Intervals, max_exemplars: int = 0) -> list[Series]:
    """Return the series of a query."""
    if isinstance(query.root, Pipeline):
        raise InvalidExpression("this query has no metrics", hint="add a function, for example `| rate()`")
    return _Evaluation(reader, intervals, max_exemplars).evaluate(simplify(query.root))


@dataclass
class _Evaluation:
    reader: SpanReader
    intervals: Intervals
    max_exemplars: int

    def evaluate(self, node: MetricsQuery) -> list[Series]:
        if isinstance(node, MetricsPipeline):
            found = self._evaluate_pipeline(node)
        elif isinstance(node, MetricsMath):
            found = combine_series(node.operator, self.evaluate(node.left), self.evaluate(node.right))
        else:
            found = combine_with_number(self.evaluate(node.operand), node)
        return apply_stages(found, node.stages)

    def _evaluate_pipeline(self, node: MetricsPipeline) -> list[Series]:
        first = node.first
        aggregator: Aggregator | Comparison
        if isinstance(first, Compare):
            aggregator = Comparison(first, self.intervals)
        else:
            aggregator = Aggregator(first, self.intervals, self.max_exemplars)
        for spans in self._read(node):
            aggregator.add(spans, np.flatnonzero(run_pipeline(node.pipeline, spans).members))
        return aggregator.result()

    def _read(self, node: MetricsPipeline) -> Iterator[SpanBatch]:
        """Yield spans in pieces that do not cut traces if that matters."""
        attributes = list_attributes(node)
        more: tuple[str, ...] = ("span_id",) if self.max_exemplars else ()
        if isinstance(node.first, Compare):
            attributes += INTRINSICS
            more = (*more, *MAP_COLUMNS)
        if has_structure(node.pipeline):
            more = (*more, *TREE)
        candidates = find_candidates(node.pipeline)
        if not needs_whole_traces(node) and not isinstance(node.first, Compare):
            yield from self.reader.read_batches(attributes, self.intervals.window, candidates.result, more)
            return
        window = self.intervals.window
        traces = candidates.write_traces(window.start_ns, window.end_ns)
        chosen = Sql(f"trace_id IN (SELECT trace_id FROM ({traces.text}))", traces.parameters)  # noqa: S608  # parameters
        counting = Sql(f"SELECT count(*) AS spans FROM spans WHERE {chosen.text}", chosen.parameters)  # noqa: S608  # parameters
        wide = window.widen()
        count = self.reader.table(counting, wide)
        for share in _list_shares(count.column(0)[0].as_py()):
            yield SpanBatch.sort(self.reader.read(attributes, wide, join_all([chosen, share]), more))


def _list_shares(spans: int) -> list[Sql | None]:
    """Return conditions that split traces by the last digit of their ids."""
    count = 1
    while count < MAX_SHARES and spans > count * SHARE_SPANS:
        count *= 2
    if count == 1:
        return [None]
    size = MAX_SHARES // count
    return [
        Sql(f"right(hex(trace_id), 1) BETWEEN '{first:X}' AND '{first + size - 1:X}'")
        for first in range(0, MAX_SHARES, size)
    ]
