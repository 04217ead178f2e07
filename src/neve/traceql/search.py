"""Search for traces: candidates by SQL, the newest first, then evaluation of their spans until enough traces match."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import InvalidExpression
from neve.traceql.evaluation.spansets import run_pipeline
from neve.traceql.language.fields import Type
from neve.traceql.language.rewrites import simplify
from neve.traceql.language.syntax import Pipeline
from neve.traceql.storage.candidates import find_candidates
from neve.traceql.storage.columns import TREE, has_structure, list_attributes, needs_whole_traces
from neve.traceql.storage.trace_index import find_extent, find_recent, narrow_traces
from neve.traceql.storage.trace_summaries import TraceSummary, read_summaries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from neve.traceql.evaluation.span_batch import SpanBatch
    from neve.traceql.evaluation.spansets import Spansets
    from neve.traceql.language.fields import Attribute, Static
    from neve.traceql.language.syntax import Query
    from neve.traceql.storage.candidates import Candidates
    from neve.traceql.storage.span_reader import SpanReader, Window

__all__ = ["FoundSpan", "FoundTrace", "Spanset", "find_traces", "search"]

FIRST_PAGE = 100  # candidates of the first page
GROWTH = 4
MAX_PAGE = 20_000
RANGE_GROWTH = 16  # of the traces in a time range without enough candidates
MAX_REACH = 2000  # traces; a search that needs more reads the whole range at once, instead of parts again and again
_SHOWN_APART = frozenset(
    {"name", "duration", "trace:id", "span:id", "span:parentID"}
)  # fields of every span of an answer


@dataclass(frozen=True, slots=True)
class FoundSpan:
    """Span of an answer, with the values that the query names."""

    span_id: bytes
    name: str
    start_ns: int
    duration_ns: int
    values: tuple[tuple[str, Static], ...]


@dataclass(frozen=True, slots=True)
class Spanset:
    """Spans that match together: their number, the first of them, and values of the set."""

    matched: int
    spans: tuple[FoundSpan, ...]
    values: tuple[tuple[str, Static], ...] = ()


@dataclass(frozen=True, slots=True)
class FoundTrace:
    """Trace that matches."""

    trace_id: bytes
    spansets: tuple[Spanset, ...]
    summary: TraceSummary = field(default_factory=TraceSummary)


def search(reader: SpanReader, query: Query, window: Window, limit: int, spans_per_set: int) -> list[FoundTrace]:
    """Return traces with a span of the result in the time range, the newest first.

    Candidates are taken in the order of their newest span. A trace is evaluated with its spans up to the margin around
    the range, and its result are those that start within the range.
    """
    return _summarize(reader, find_traces(reader, query, window, limit, spans_per_set), window)


def find_traces(reader: SpanReader, query: Query, window: Window, limit: int, spans_per_set: int) -> list[FoundTrace]:
    """Return the traces of a search without their summaries."""
    pipeline = query.root
    if not isinstance(pipeline, Pipeline):
        raise InvalidExpression("this query is about metrics, expected spansets", hint="use query_range or query")
    finder = _Finder(reader, simplify(pipeline), window, spans_per_set)
    found: list[FoundTrace] = []
    for ids in _list_candidates(finder, max(limit * 2, FIRST_PAGE)):
        matches = {one.trace_id: one for one in finder.match(ids)}
        found += [matches[one] for one in ids if one in matches]
        if len(found) >= limit:
            break
    return found[:limit]


def _list_candidates(finder: _Finder, size: int) -> Iterator[list[bytes]]:
    """Yield pages of candidates, each larger than the one before.

    With trace summaries, the end of the time range that may have enough of them is read first, then a longer one.
    """
    condition = narrow_traces(finder.pipeline)
    reader, window = finder.reader, finder.window
    reach, recent = size, find_recent(reader, condition, window, size)
    seen: set[bytes] = set()
    offset = 0
    while True:
        ids = reader.find_traces(finder.candidates, recent, size, offset, is_whole=finder.is_whole)
        if new := [one for one in ids if one not in seen]:
            yield new
        seen.update(ids)
        is_last = len(ids) < size
        offset, size = offset + len(ids), min(size * GROWTH, MAX_PAGE)
        if is_last and recent == window:
            return
        if is_last:  # candidates of a longer range come after these
            offset, size, reach = 0, len(seen) + size, reach * RANGE_GROWTH
            recent = window if reach > MAX_REACH else find_recent(reader, condition, window, reach)


def _summarize(reader: SpanReader, found: list[FoundTrace], window: Window) -> list[FoundTrace]:
    ids = [one.trace_id for one in found]
    summaries = read_summaries(reader, ids, find_extent(reader, ids, window.widen()))
    traces = [FoundTrace(one.trace_id, one.spansets, summaries.get(one.trace_id, one.summary)) for one in found]
    return sorted(traces, key=lambda one: (-one.summary.start_ns, one.trace_id))


@dataclass
class _Finder:
    """Evaluation of a pipeline over pages of candidates."""

    reader: SpanReader
    pipeline: Pipeline
    window: Window
    spans_per_set: int
    candidates: Candidates = field(init=False)
    is_whole: bool = field(init=False)

    def __post_init__(self) -> None:
        self.candidates = find_candidates(self.pipeline)
        self.is_whole = needs_whole_traces(self.pipeline)

    def match(self, ids: Sequence[bytes]) -> Iterator[FoundTrace]:
        """Yield those of the traces that match."""
        attributes = list_attributes(self.pipeline)
        more = (*TREE, "operation_name") if has_structure(self.pipeline) else ("span_id", "operation_name")
        window = find_extent(self.reader, ids, self.window.widen() if self.is_whole else self.window)
        condition = None if self.is_whole else self.candidates.result
        spans = self.reader.read_traces(ids, attributes, window, condition, more)
        in_range = (spans.start >= self.window.start_ns) & (spans.start < self.window.end_ns)
        result = run_pipeline(self.pipeline, spans).filter(in_range)
        yield from _collect(spans, result, self._list_shown(attributes), self.spans_per_set)

    def _list_shown(self, attributes: Sequence[Attribute]) -> list[Attribute]:
        return [one for one in attributes if one.scope != "intrinsic" or one.name not in _SHOWN_APART]


def _collect(spans: SpanBatch, result: Spansets, shown: Sequence[Attribute], most: int) -> Iterator[FoundTrace]:
    """Yield the spansets of each trace, with their first spans."""
    rows = np.flatnonzero(result.members)
    rows = rows[np.argsort(result.sets[rows], kind="stable")]
    _, first, counts = np.unique(result.sets[rows], return_index=True, return_counts=True)
    ids = spans.column("trace_id")
    by_trace: dict[int, list[Spanset]] = {}
    for number, (begin, count) in enumerate(zip(first.tolist(), counts.tolist(), strict=True)):
        members = rows[begin : begin + min(count, most)]
        values = tuple((name, one.get(number)) for name, one in result.labels)
        spanset = Spanset(count, tuple(_collect_spans(spans, members, shown)), values)
        by_trace.setdefault(int(spans.traces[rows[begin]]), []).append(spanset)
    for trace, spansets in by_trace.items():
        yield FoundTrace(ids[int(spans.firsts[trace])].as_py(), tuple(spansets))


def _collect_spans(spans: SpanBatch, rows: NDArray[np.int64], shown: Sequence[Attribute]) -> Iterator[FoundSpan]:
    span_ids, names = spans.column("span_id"), spans.column("operation_name")
    for row in rows.tolist():
        values = ((one.name, spans.vector(one).get(row)) for one in shown)
        kept = tuple((name, value) for name, value in values if value.type is not Type.NIL)
        yield FoundSpan(
            span_ids[row].as_py() or b"",
            names[row].as_py() or "",
            int(spans.start[row]),
            int(spans.duration[row]),
            kept,
        )
