"""LogQL over the lake: lines come from SQL that the query service runs for its caller."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.app.query.promql import DEFAULT_STEPS, MIN_STEP_MS, tabulate
from neve.lake.calendar import now_utc
from neve.logql.engine import MAX_LINES, Engine, LogWindow, run_log_query
from neve.logql.language.parser import parse
from neve.logql.language.syntax import LogQuery
from neve.logql.storage.log_source import LogReader
from neve.model.signals import SERIES_TABLES, VOLUME_TABLES
from neve.promql.budget import check_deadline
from neve.promql.evaluator import Options
from neve.query.request import Request, TimeRange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neve.logql.pipeline.entry import Entry
    from neve.logql.storage.log_source import TimeWindow
    from neve.query.engine.program import Program
    from neve.query.service import QueryService

__all__ = ["add_log_tables", "evaluate", "open_logs"]

LOG_STREAMS, LOG_VOLUMES = SERIES_TABLES["logs"], VOLUME_TABLES["logs"]
# Paths of Loki's API that these tables answer.
LISTS = frozenset({"labels", "values", "series", "detected_labels"})
SIZES = frozenset({"stats", "volume", "volume_range"})
DEFAULT_LINES = 1000
_HOUR_NS = 3600 * 10**9
_LABELS = pa.map_(pa.string(), pa.string())


def open_logs(service: QueryService, organization: str, deadline: float | None = None) -> LogReader:
    """Return the lines of an organization. Each statement has an entry in the query log."""

    def run(
        sql: str, parameters: Sequence[Any], window: TimeWindow, *, only_new_files: bool = False
    ) -> Iterator[pa.RecordBatch]:
        check_deadline(deadline)
        seconds = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        request = Request(
            sql,
            organization,
            parameters=list(parameters),
            time=TimeRange(*window),
            timeout_seconds=seconds,
            only_new_files=only_new_files,
        )
        yield from service.start(request).batches()

    run_new = partial(run, only_new_files=True)
    has_streams, has_volumes = service.has_rows(LOG_STREAMS), service.has_rows(LOG_VOLUMES)
    return LogReader(
        run, lambda: check_deadline(deadline), run_new if has_streams else None, run_new if has_volumes else None
    )


def add_log_tables(service: QueryService, program: Program) -> Program:
    """Return a program that also reads the table of streams for lists, or of volumes for sizes, if the lake has it."""
    path = program.arguments["path"]
    table = LOG_STREAMS if path in LISTS else LOG_VOLUMES if path in SIZES else None
    if table is None or not service.has_rows(table):
        return program
    arguments = {**program.arguments, f"has_{table}": True}
    return replace(program, arguments=arguments, tables=(*program.tables, table))


def evaluate(service: QueryService, request: Request, step_ms: int | None = None) -> pa.Table:
    """Evaluate the LogQL in a request: lines, or with a start of its time range values at each step."""
    end = int((request.time.until or now_utc()).timestamp() * 1e6) * 1000
    seconds = request.timeout_seconds
    deadline = None if seconds is None else time.monotonic() + seconds
    reader = open_logs(service, request.organization, deadline)
    since = request.time.since
    start = None if since is None else int(since.timestamp() * 1e6) * 1000
    node = parse(request.sql)
    if isinstance(node, LogQuery):
        window = LogWindow(end - _HOUR_NS if start is None else start, end, False)
        limit = min(request.limit or DEFAULT_LINES, MAX_LINES)
        return tabulate_lines(run_log_query(reader, node, window, limit))
    engine = Engine(reader, Options(deadline=deadline))
    if start is None:
        return tabulate(engine.query(request.sql, end))
    step = step_ms or max(MIN_STEP_MS, (end - start) // 1_000_000 // DEFAULT_STEPS // 1000 * 1000)
    return tabulate(engine.query_range(request.sql, start, end, step * 1_000_000))


def tabulate_lines(entries: Sequence[Entry]) -> pa.Table:
    """Return lines as a table: time, text and labels."""
    times = pa.array([one.time_ns // 1000 for one in entries], pa.int64()).cast(pa.timestamp("us", "UTC"))
    labels = pa.array([sorted(one.labels().items()) for one in entries], _LABELS)
    return pa.table(
        {"timestamp": times, "line": pa.array([one.line for one in entries], pa.string()), "labels": labels}
    )
