"""Logs and traces in lakes of 100, 1,000 and 10,000 small files: CPU milliseconds of questions about one hour of them.

Each file has lines or spans of one hour. A question about an hour should cost the same in each lake but for planning.
A trace by its id has no time range. Lists of labels and volumes are those of a day. `BENCH_ROWS` is the largest number
of files.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import logql, traceql
from bench.logql_data import END_S, make_lines
from bench.report import Report
from bench.sizes import choose_number
from bench.traceql_data import make_ids, make_spans
from bench.usage import tree_cpu
from neve.app.derived_tables import build_series
from neve.app.query.service import build_query_service
from neve.app.search import build_search
from neve.lake.commit.append import append_once
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import LOGS, SPANS
from neve.query.engine.worker_pool import WorkerPool
from neve.query.service import Ports, no_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.service import QueryService

MOST = choose_number("BENCH_ROWS", whole=10_000, quick=1000)
STEPS = (100, 1000, 10_000)
HOUR_S = 3600
ROUNDS = 5
BUCKETS = 16  # files of an hour of spans, at most: one for each bucket of trace ids
TRACES = 40  # of an hour
LINES = 20


def main() -> None:
    """Fill one lake step by step, and measure at each."""
    report, done = Report("log_files", ours={"files": MOST}), 0
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        settings, lake = logql.prepare_lake(Path(folder), lambda _lake: None, lambda _settings, _lake: None)
        for files in [number for number in STEPS if number <= MOST]:
            fill_lake(lake, done, files)
            index(settings, lake)
            done = files
            service = build_query_service(
                settings, lake, limits=no_limits, ports=Ports(engine=WorkerPool(lake, settings.query))
            )
            for name, cost in measure(service).items():
                report.ours[f"{name}_{files}_cpu_ms"] = cost
            service.close()
    for name in QUESTIONS:
        least, most = (report.ours[f"{name}_{files}_cpu_ms"] for files in (STEPS[0], MOST))
        report.ratios[f"{name}_growth"] = most / least
    report.show()


def fill_lake(lake: Lake, first: int, last: int) -> None:
    """Commit files of logs, and about as many of spans. Later ones are of earlier hours."""
    logs, spans = lake.table(LOGS.name), lake.table(SPANS.name)
    rows = [_shift(make_lines(hour * LINES, (hour + 1) * LINES), hour) for hour in range(first, last)]
    append_once(logs, write_files(Target.of(logs), pa.concat_tables(rows)), batch_id=f"logs {last}", operation="bench")
    rows = [
        make_spans(hour * TRACES, (hour + 1) * TRACES, END_S - (hour + 1) * HOUR_S, HOUR_S - 10)
        for hour in range(-(-first // BUCKETS), -(-last // BUCKETS))
    ]
    files = write_files(Target.of(spans), pa.concat_tables(rows))
    append_once(spans, files, batch_id=f"spans {last}", operation="bench")


def _shift(rows: pa.Table, hour: int) -> pa.Table:
    """Return lines with times of one hour."""
    nanos = (END_S - (hour + 1) * HOUR_S) * 10**9 + np.arange(rows.num_rows) * 10**9
    for name, values in {"timestamp": nanos // 1000, "time_unix_nano": nanos}.items():
        place = rows.schema.get_field_index(name)
        rows = rows.set_column(place, rows.schema.field(place), pa.array(values).cast(rows.schema.types[place]))
    return rows


def index(settings: Settings, lake: Lake) -> None:
    """Make the tables of streams and the index of words and ids, as the worker of a server does."""
    build_series(settings, lake).run()
    search = build_search(settings, lake)
    search.build("logs")
    search.build("spans")


def _ask_logs(path: str, hours: int, **parameters: Any) -> Callable[[QueryService, int], None]:
    def ask(service: QueryService, shift: int) -> None:
        bounds = {"start": END_S - hours * HOUR_S - shift, "end": END_S - shift}
        document = logql.ask_ours(service, (path, bounds | parameters))[1]
        assert logql.count_items(document), (path, document)

    return ask


def _ask_traces(path: str, **parameters: Any) -> Callable[[QueryService, int], None]:
    def ask(service: QueryService, shift: int) -> None:
        bounds = {"start": END_S - HOUR_S - shift, "end": END_S - shift}
        body = traceql.answer(service, path, bounds | parameters)
        assert len(body) > 50, body

    return ask


def _find_trace(service: QueryService, shift: int) -> None:
    trace = make_ids(np.array([TRACES // 2 + shift], np.uint64)).tobytes().hex()
    document = json.loads(traceql.answer(service, "trace_v2", {"trace_id": trace}))
    assert document["trace"]["resourceSpans"]


QUESTIONS: dict[str, Callable[[QueryService, int], None]] = {
    "label_values": _ask_logs("label/k8s_pod_name/values", 24),
    "line_filter": _ask_logs("query_range", 1, query='{service_name=~".+"} |= "route-1"', limit=50),
    "volume": _ask_logs("index/volume", 24, query='{service_name=~".+"}', limit=50),
    "trace_by_id": _find_trace,
    "search": _ask_traces("search", q='{ name = "charge" && duration > 1ms }'),
}


def measure(service: QueryService) -> dict[str, float]:
    """Return the median cost of each question; the first round warms up."""
    found = {}
    for name, ask in QUESTIONS.items():
        costs = []
        for shift in range(ROUNDS + 1):
            before = tree_cpu()
            ask(service, shift)
            costs.append((tree_cpu() - before) * 1000)
        found[name] = statistics.median(costs[1:])
    return found
