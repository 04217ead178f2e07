"""PromQL over the lake: series come from SQL that the query service runs for its caller."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from neve.lake.calendar import now_utc
from neve.model.recorded import RECORDED_TABLE
from neve.model.signals import SERIES_TABLES, SERVICE_EDGES_TABLE, Signal
from neve.promql.budget import check_deadline
from neve.promql.engine import Engine
from neve.promql.evaluator import Options
from neve.promql.language.syntax import METRIC_NAME
from neve.promql.storage import span_metrics
from neve.promql.storage.metric_source import MetricSource
from neve.promql.storage.rolled_windows import RolledLevel
from neve.query.request import Request, TimeRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.promql.engine import Result
    from neve.promql.histograms.native import Histogram
    from neve.promql.storage.metric_source import TimeWindow
    from neve.query.engine.program import Program
    from neve.query.service import QueryService

__all__ = ["add_tables", "evaluate", "open_series", "tabulate"]

MIN_STEP_MS = 15_000
SPANS_TABLE = Signal.TRACES.table
DEFAULT_STEPS = 250
_TIME = pa.timestamp("us", "UTC")


def open_series(
    service: QueryService, organization: str, key_id: str = "", deadline: float | None = None
) -> MetricSource:
    """Return the series of an organization. Each statement has the limits of the key and an entry in the query log."""

    def run(sql: str, parameters: Sequence[Any], window: TimeWindow, *, only_new_files: bool = False) -> pa.Table:
        check_deadline(deadline)
        seconds = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        bounds = TimeRange(*window)
        running = service.start(
            Request(
                sql,
                organization,
                parameters=parameters,
                time=bounds,
                key_id=key_id,
                timeout_seconds=seconds,
                only_new_files=only_new_files,
            )
        )
        return pa.Table.from_batches(running.batches(), running.schema)

    run_new = partial(run, only_new_files=True) if _has_series_table(service) else None
    rollups = [RolledLevel(*one) for one in service.list_rollups(organization)]
    has_recorded, has_edges = service.has_rows(RECORDED_TABLE), service.has_rows(SERVICE_EDGES_TABLE)
    check = partial(check_deadline, deadline)
    has_spans = service.has_rows(SPANS_TABLE)
    return MetricSource(
        *(run, check, run_new, has_recorded, has_edges), rollups=rollups, ahead_samples=0, has_spans=has_spans
    )


def add_tables(service: QueryService, program: Program) -> Program:
    """Return a program that also reads tables which an older lake lacks: series, results of rules, the service map."""
    has = {
        "has_series_table": (SERIES_TABLES["metrics"], _has_series_table(service)),
        "has_recorded": (RECORDED_TABLE, service.has_rows(RECORDED_TABLE)),
        "has_service_edges": (SERVICE_EDGES_TABLE, service.has_rows(SERVICE_EDGES_TABLE)),
        "has_spans": (SPANS_TABLE, _names_span_metrics(program) and service.has_rows(SPANS_TABLE)),
    }
    tables = (*program.tables, *(table for table, is_there in has.values() if is_there))
    arguments = {**program.arguments, **{name: is_there for name, (_, is_there) in has.items()}}
    return replace(program, arguments=arguments, tables=tables)


def _names_span_metrics(program: Program) -> bool:
    """Return whether a request names span metrics. The answers of others don't depend on the version of `spans`."""
    return span_metrics.PREFIX in str(program.arguments)


def _has_series_table(service: QueryService) -> bool:
    return SERIES_TABLES["metrics"] in service.schemas()


def evaluate(service: QueryService, request: Request, step_ms: int | None = None) -> Result:
    """Evaluate the PromQL in a request: with a start of its time range at each step, else at its end or now."""
    until = request.time.until or now_utc()
    end = int(until.timestamp() * 1000)
    seconds = request.timeout_seconds
    deadline = None if seconds is None else time.monotonic() + seconds
    engine = Engine(open_series(service, request.organization, request.key_id, deadline), Options(deadline=deadline))
    if request.time.since is None:
        return engine.query(request.sql, end)
    start = int(request.time.since.timestamp() * 1000)
    step = step_ms or max(MIN_STEP_MS, (end - start) // DEFAULT_STEPS // 1000 * 1000)
    return engine.query_range(request.sql, start, end, step)


def tabulate(result: Result) -> pa.Table:
    """Return a result as a table: a column for each label, the time, the value, and native histograms as text."""
    if result.text is not None:
        return pa.table({"value": [result.text]})
    if result.scalar is not None:
        times, values = [result.scalar[0]], [result.scalar[1]]
        return pa.table({"timestamp": _times(times), "value": pa.array(values, pa.float64())})
    names = sorted(
        {name for one in result.series for name, _ in one.labels}, key=lambda name: (name != METRIC_NAME, name)
    )
    rows: list[tuple[dict[str, str], int, float | None, Histogram | None]] = []
    for one in result.series:
        labels = dict(one.labels)
        rows += [(labels, time, value, None) for time, value in one.floats]
        rows += [(labels, time, None, histogram) for time, histogram in one.histograms]
    columns = {_column_name(name): pa.array([row[0].get(name) for row in rows], pa.string()) for name in names}
    columns["timestamp"] = _times([row[1] for row in rows])
    columns["value"] = pa.array([row[2] for row in rows], pa.float64())
    if any(one.histograms for one in result.series):
        columns["histogram"] = pa.array([None if row[3] is None else str(row[3]) for row in rows], pa.string())
    return pa.table(columns)


def _column_name(label: str) -> str:
    if label == METRIC_NAME:
        return "metric"
    return f"label_{label}" if label in {"metric", "timestamp", "value", "histogram"} else label


def _times(milliseconds: Sequence[int]) -> pa.Array:
    return pa.array([one * 1000 for one in milliseconds], pa.int64()).cast(_TIME)
