"""TraceQL and single traces over the lake, by statements that the query service runs for its caller."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.explore.source import RecordSource
from neve.explore.trace import read_trace
from neve.explore.trace_records import MAX_LOGS, read_logs
from neve.lake.calendar import now_utc
from neve.model.signals import TRACE_SUMMARIES_TABLE
from neve.promql.budget import check_deadline
from neve.query.request import Request, TimeRange
from neve.traceql.language.parser import parse
from neve.traceql.metrics.engine import evaluate_metrics
from neve.traceql.metrics.intervals import Intervals, choose_step
from neve.traceql.search import search
from neve.traceql.storage.span_reader import SpanReader, Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from neve.query.engine.program import Program
    from neve.query.service import QueryService
    from neve.traceql.metrics.series import Series
    from neve.traceql.search import FoundTrace
    from neve.traceql.storage.span_reader import TimeWindow

__all__ = ["LocalContext", "add_trace_summaries", "evaluate", "open_spans", "read_trace_records"]

DEFAULT_TRACES = 20
SPANS_OF_SET = 100
MEMORY_BYTES = 2 * 1024**3  # for the rows of one statement of a trace
_HOUR_NS = 3600 * 10**9
_TIME = pa.timestamp("us", "UTC")
_VALUES = pa.map_(pa.string(), pa.string())


@dataclass(frozen=True)
class LocalContext:
    """Statements of an organization, run in this process. Each has an entry in the query log."""

    service: QueryService
    organization: str
    deadline: float | None = None
    memory_bytes: int = MEMORY_BYTES

    def read(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any],
        since: datetime | None,
        until: datetime | None,
        *,
        only_new_files: bool = False,
    ) -> pa.RecordBatchReader:
        """Run a statement within a half-open time range."""
        self.check()
        seconds = None if self.deadline is None else max(self.deadline - time.monotonic(), 0.001)
        window = TimeRange(since, until)
        running = self.service.start(
            Request(
                sql,
                self.organization,
                parameters=parameters,
                time=window,
                timeout_seconds=seconds,
                only_new_files=only_new_files,
            )
        )
        return pa.RecordBatchReader.from_batches(running.schema, running.batches())

    def check(self) -> None:
        """Raise an error after the deadline."""
        check_deadline(self.deadline)


def open_spans(service: QueryService, organization: str, deadline: float | None = None) -> SpanReader:
    """Return the spans of an organization."""
    context = LocalContext(service, organization, deadline)

    def run(
        sql: str, parameters: Sequence[Any], window: TimeWindow, *, only_new_files: bool = False
    ) -> pa.RecordBatchReader:
        return context.read(sql, parameters, *window, only_new_files=only_new_files)

    run_new = partial(run, only_new_files=True) if service.has_rows(TRACE_SUMMARIES_TABLE) else None
    return SpanReader(run, context.check, run_new=run_new)


def add_trace_summaries(service: QueryService, program: Program) -> Program:
    """Return a program that also reads trace summaries, if the lake has them."""
    if not service.has_rows(TRACE_SUMMARIES_TABLE):
        return program
    arguments = {**program.arguments, "has_trace_summaries": True}
    return replace(program, arguments=arguments, tables=(*program.tables, TRACE_SUMMARIES_TABLE))


def read_trace_records(
    service: QueryService, organization: str, trace_id: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the spans of a trace and its logs, as the page gets them."""
    source = RecordSource(LocalContext(service, organization))
    return read_trace(trace_id, source), read_logs(trace_id, None, MAX_LOGS, source)


def evaluate(service: QueryService, request: Request, step_ms: int | None = None) -> pa.Table:
    """Evaluate the TraceQL in a request: a row for each matching span, or for each value of series."""
    end = int((request.time.until or now_utc()).timestamp() * 1e6) * 1000
    since = request.time.since
    start = end - _HOUR_NS if since is None else int(since.timestamp() * 1e6) * 1000
    deadline = None if request.timeout_seconds is None else time.monotonic() + request.timeout_seconds
    reader = open_spans(service, request.organization, deadline)
    query = parse(request.sql)
    if not query.is_metrics:
        limit = request.limit or DEFAULT_TRACES
        return tabulate_traces(search(reader, query, Window(start, end), limit, SPANS_OF_SET))
    step = step_ms * 1_000_000 if step_ms else choose_step(start, end)
    intervals = Intervals.align(start, end, step)
    return tabulate_series(evaluate_metrics(reader, query, intervals), intervals)


def tabulate_traces(found: Sequence[FoundTrace]) -> pa.Table:
    """Return the matching spans of traces as a table. Values that the query names are texts."""
    rows = [(trace, spanset, span) for trace in found for spanset in trace.spansets for span in spanset.spans]
    values = [
        [
            (name, str(value.value if isinstance(value.value, str) else value))
            for name, value in (*sets.values, *span.values)
        ]
        for _, sets, span in rows
    ]
    columns: dict[str, pa.Array] = {
        "timestamp": _times([span.start_ns // 1000 for _, _, span in rows]),
        "trace_id": pa.array([trace.trace_id.hex() for trace, _, _ in rows], pa.string()),
        "root_service": pa.array([trace.summary.root_service for trace, _, _ in rows], pa.string()),
        "root_name": pa.array([trace.summary.root_name for trace, _, _ in rows], pa.string()),
        "span_id": pa.array([span.span_id.hex() for _, _, span in rows], pa.string()),
        "name": pa.array([span.name for _, _, span in rows], pa.string()),
        "duration_ms": pa.array([span.duration_ns / 1e6 for _, _, span in rows], pa.float64()),
        "values": pa.array(values, _VALUES),
    }
    return pa.table(columns)


def tabulate_series(found: Sequence[Series], intervals: Intervals) -> pa.Table:
    """Return series as a table: a column for each label, the time, and the value."""
    names = sorted({name for one in found for name, _ in one.labels})
    rows = [
        (dict(one.labels), intervals.stamp_ms(place) * 1000, value)
        for one in found
        for place, value in enumerate(one.values.tolist())
        if value == value  # noqa: PLR0124  # NaN is no value
    ]
    columns: dict[str, pa.Array] = {}
    for name in names:
        given = (labels.get(name) for labels, _, _ in rows)
        texts = [None if one is None else one.value if isinstance(one.value, str) else str(one) for one in given]
        columns[f"label_{name}" if name in {"timestamp", "value"} else name] = pa.array(texts, pa.string())
    columns["timestamp"] = _times([moment for _, moment, _ in rows])
    columns["value"] = pa.array([value for _, _, value in rows], pa.float64())
    return pa.table(columns)


def _times(micros: Sequence[int]) -> pa.Array:
    return pa.array(micros, pa.int64()).cast(_TIME)
