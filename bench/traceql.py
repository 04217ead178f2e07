"""TraceQL over a lake: ten questions of two hours beside a full scan, and a trace by its id in a table of 90 days.

CPU seconds are those of the server and all of its processes. The scan is SQL of the same service that joins every span
of the range with its parent, without a condition that prunes, as a system without an index of traces must.
The time range differs from round to round. `assembly_*` is the cost of the summaries of all traces and of the service
map, from the first span to the last, as after an upgrade. `BENCH_ROWS` makes a smaller lake, `BENCH_FOLDER` keeps it,
and `BENCH_PREPARE=1` only fills it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from bench.logql import open_folder, prepare_lake
from bench.report import Report
from bench.traceql_data import DAYS, END_S, OWNER, ROWS, START_S, fill_lake, find_trace
from bench.usage import Meter, tree_cpu
from neve.api.tempo.routes import FUNCTION, TABLES
from neve.app.derived_tables import build_traces
from neve.app.query.service import build_query_service
from neve.app.query.traceql import add_trace_summaries
from neve.app.search import build_search
from neve.query.engine.program import Program
from neve.query.engine.worker_pool import WorkerPool
from neve.query.request import Request, TimeRange
from neve.query.service import Ports, no_limits

if TYPE_CHECKING:
    from pathlib import Path

    from neve.app.settings import Settings
    from neve.lake.lake import Lake
    from neve.query.service import QueryService

ROUNDS = 3
COSTS = "assembly.json"  # in the folder of the lake
RANGE = {"start": START_S + 60, "end": END_S}
BOUNDS = tuple(datetime.fromtimestamp(one, UTC) for one in (START_S, END_S))
STRUCTURAL = ("child", "descendant", "sibling", "both")
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "errors": ("search", {"q": "{ status = error }"}),
    "attribute": ("search", {"q": '{ span.user.id = "user-78" && span.http.status_code = 404 }'}),
    "slow": ("search", {"q": '{ resource.service.name = "pay" && duration > 150ms }'}),
    "child": ("search", {"q": '{ name = "GET /cart" && status = error } > { name = "charge" && status = error }'}),
    "descendant": ("search", {"q": '{ name = "GET /" && status = error } >> { name = "SELECT" && duration > 60ms }'}),
    "sibling": ("search", {"q": '{ name = "GET /cart" && status = error } ~ { name = "reserve" && status = error }'}),
    "both": ("search", {"q": '{ name = "charge" && status = error } && { name = "SELECT" && status = error }'}),
    "aggregate": ("search", {"q": "{ status = error } | count() > 1"}),
    "rate": ("query_range", {"q": "{ status = error } | rate() by (resource.service.name)", "step": "60s"}),
    "quantile": (
        "query_range",
        {"q": "{ kind = server } | quantile_over_time(duration, .95) by (name)", "step": "60s"},
    ),
}
SCAN = """
SELECT count(*), count(*) FILTER (WHERE parent.status_code = 2 AND child.status_code = 2), max(child.duration_ms),
    count(DISTINCT parent.operation_name), count(DISTINCT child.service_name)
FROM spans AS child JOIN spans AS parent ON child.trace_id = parent.trace_id AND child.parent_span_id = parent.span_id
"""


def main() -> None:
    """Fill the lake, then measure."""
    report = Report("traceql", ours={"rows": ROWS}, baselines={"scan": {}})
    with ExitStack() as stack:
        folder = open_folder(stack)
        costs = folder / COSTS
        settings, lake = prepare_lake(folder, fill_lake, lambda settings, lake: index_traces(settings, lake, costs))
        report.ours |= json.loads(costs.read_text())
        if "BENCH_PREPARE" in os.environ:
            return
        ports = Ports(engine=WorkerPool(lake, settings.query))
        service = build_query_service(settings, lake, limits=no_limits, ports=ports)
        stack.callback(service.close)
        measure_questions(service, report)
        measure_scan(service, report)
        measure_traces(service, report)
    report.show()


def index_traces(settings: Settings, lake: Lake, costs: Path) -> None:
    """Index the ids of traces, and summarize traces, as the worker of a server does. Store the cost of the latter."""
    build_search(settings, lake).build("spans")
    with Meter(with_children=False) as used:
        build_traces(settings, lake).run()
    found = {"cpu_s": used.cpu_s, "peak_mb": used.peak_mb, "spans_per_cpu_s": used.per_second(ROWS)}
    costs.write_text(json.dumps({f"assembly_{name}": value for name, value in found.items()}))


def measure_questions(service: QueryService, report: Report) -> None:
    """Ask each question, and keep the median."""
    for name, (path, parameters) in QUESTIONS.items():
        costs = []
        for shift in range(ROUNDS + 1):  # the first round warms up
            bounds = {key: value - shift for key, value in RANGE.items()}
            before = tree_cpu()
            document = json.loads(answer(service, path, bounds | parameters))
            costs.append(tree_cpu() - before)
            assert document.get("traces") or document.get("series") or ROWS < 10**6, (name, document)
        report.ours[f"{name}_cpu_s"] = statistics.median(costs[1:])


def measure_scan(service: QueryService, report: Report) -> None:
    """Join all spans of the range with their parents."""
    costs = []
    for _ in range(ROUNDS):
        before = tree_cpu()
        request = Request(SCAN, OWNER, time=TimeRange(*BOUNDS), fresh=True)
        rows = [one for batch in service.start(request).batches() for one in batch.to_pylist()]
        costs.append(tree_cpu() - before)
        assert next(iter(rows[0].values())) > 0
    report.baselines["scan"]["cpu_s"] = statistics.median(costs)
    structural = statistics.median(report.ours[f"{name}_cpu_s"] for name in STRUCTURAL)
    report.ratios["structural_vs_scan"] = structural / report.baselines["scan"]["cpu_s"]


def measure_traces(service: QueryService, report: Report) -> None:
    """Ask for traces of many days by their ids, without a time range."""
    walls, costs = [], []
    for day in range(1, DAYS, DAYS // 15):
        before, began = tree_cpu(), time.monotonic()
        document = json.loads(answer(service, "trace_v2", {"trace_id": find_trace(day)}))
        walls.append((time.monotonic() - began) * 1000)
        costs.append((tree_cpu() - before) * 1000)
        assert document["trace"]["resourceSpans"]
    report.ours["trace_by_id_90d_ms"] = statistics.median(walls[1:])
    report.ours["trace_by_id_90d_cpu_ms"] = statistics.median(costs[1:])


def answer(service: QueryService, path: str, parameters: dict[str, Any]) -> bytes:
    """Answer a question as the HTTP API does, without the server."""
    arguments = {
        "path": path,
        "pairs": [(name, str(value)) for name, value in parameters.items()],
        "now_ns": END_S * 10**9,
        "is_protobuf": False,
        "seconds": None,
        "max_rows": None,
    }
    program = Program(FUNCTION, arguments, TABLES)
    if path == "search":
        program = add_trace_summaries(service, program)
    running = service.start_program(Request(path, OWNER, fresh=True), program)
    return b"".join(piece for batch in running.batches() for piece in batch.column("body").to_pylist())
