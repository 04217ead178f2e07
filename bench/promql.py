"""PromQL over a lake beside Prometheus on its own storage: the same points, the same queries, in turns.

CPU seconds are those of the server and all of its processes: planning, reading, evaluation and the JSON of the answer.
The time range moves by a second from round to round, as after a refresh. Both are warm: Prometheus has its samples in
memory, and a query worker those of the blocks that it has read. `after_commit` is the first query on a new version of
the table, which completes them by the points of one more file. The figures are means of so many rounds that a query of
a millisecond is measured, because the CPU time of a process has a resolution of ten. Prometheus is measured if the part
is in the cache (`make parts`). A month of points, 15 seconds apart as the others, is answered from rollups and from
points: with nothing in memory, because another organization used the worker before (`rollup_30d_vs_points`), and once
again with the rows or samples in memory (`rollup_30d_vs_points_again`). `BENCH_ROWS` makes a smaller lake.
"""

from __future__ import annotations

import http.client
import json
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psutil
from tests.parts import prometheus

from bench.promql_data import (
    END_S,
    MONTH_GAP_S,
    MONTH_POINTS,
    MONTH_START_S,
    OWNER,
    START_S,
    commit_next,
    fill_lake,
    write_messages,
)
from bench.report import Report
from bench.usage import Meter
from neve.api.prometheus.routes import FUNCTION, TABLES
from neve.app.query.promql import add_tables
from neve.app.query.service import build_query_service
from neve.app.settings import Settings
from neve.app.wiring import build_lake
from neve.lake.tables import init_tables
from neve.query.engine.program import Program
from neve.query.engine.worker_pool import WorkerPool
from neve.query.request import Request
from neve.query.service import Ports, no_limits
from neve.rollup.config import RollupConfig
from neve.rollup.job import Rollup
from neve.series.config import SeriesConfig
from neve.series.job import SeriesIndexer
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore

if TYPE_CHECKING:
    from tests.parts.prometheus import Prometheus

    from neve.lake.lake import Lake
    from neve.query.service import QueryService

ROUNDS, LONG_ROUNDS, COMMITTED_ROUNDS, MONTH_ROUNDS = 20, 5, 2, 3
LONG_S = 0.1  # CPU seconds of a question that needs fewer rounds
CLOCK_S = 0.01  # the resolution of the CPU time of a process
WORKER = "neve.query.engine.worker"  # module of the processes of query workers
REQUESTS = "http_server_requests_total"
STEP_S = 60
HOUR_S = 3600
Question = tuple[str, dict[str, Any]]


def ask_range(query: str, start: int = START_S + 300, end: int = END_S, step: int = STEP_S) -> Question:
    """Return a range query."""
    return "query_range", {"query": query, "start": start, "end": end, "step": step}


def list_dashboard() -> list[Question]:
    """Return 20 panels of the last hour: two for each service."""
    start = max(END_S - HOUR_S, START_S)
    found = []
    for number in range(10):
        job = f'{REQUESTS}{{job="service-{number}"}}'
        found.append(ask_range(f"sum by (http_route) (rate({job}[5m]))", start, END_S, 15))
        found.append(ask_range(f"topk(3, sum by (pod) (rate({job}[5m])))", start, END_S, 15))
    return found


QUESTIONS: dict[str, list[Question]] = {
    "rate": [ask_range(f"rate({REQUESTS}[5m])")],
    "rate_by_job": [ask_range(f"sum by (job) (rate({REQUESTS}[5m]))")],
    "quantile": [ask_range(f"quantile by (job) (0.9, rate({REQUESTS}[5m]))")],
    "max_over_time": [ask_range(f"max_over_time({REQUESTS}[1h])")],
    "one_series": [ask_range(f'rate({REQUESTS}{{pod="pod-7",http_route="/route/3"}}[5m])')],
    "instant": [("query", {"query": f"sum by (http_route) ({REQUESTS})", "time": END_S})],
    "topk": [("query", {"query": f"topk(10, increase({REQUESTS}[1h]))", "time": END_S})],
    "label_values": [("label/pod/values", {"start": START_S, "end": END_S})],
    "dashboard": list_dashboard(),
}
MONTH = ask_range(
    "avg_over_time(queue_depth[1h])",
    MONTH_START_S + HOUR_S,
    MONTH_START_S + MONTH_POINTS * MONTH_GAP_S,
    HOUR_S,
)


def main() -> None:
    """Fill the lake and Prometheus, then measure both in turns."""
    report = Report("promql", baselines={"prometheus": {}})
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder, ExitStack() as stack:
        settings, lake = make_settings(Path(folder))
        documents = SqlDocuments(StateStore(StateConfig(path=str(Path(folder) / "state.db"))))
        fill_lake(lake)
        with Meter(with_children=True) as usage:
            SeriesIndexer(lake, SeriesConfig(), documents).run()
        report.ours["series_run_cpu_s"] = usage.cpu_s
        ports = Ports(engine=WorkerPool(lake, settings.query))
        service = build_query_service(settings, lake, limits=no_limits, ports=ports)
        stack.callback(service.close)
        other = None if prometheus.missing() else stack.enter_context(prometheus.prometheus())
        if other is not None:
            for message in write_messages():
                other.send(message)
        measure_recent(service, lake, other, report)
        report.show()  # the rollup of a month takes minutes
        measure_month(service, lake, documents, report)
    report.show()


def make_settings(folder: Path) -> tuple[Settings, Lake]:
    """Return settings without a cache of results, and an empty lake."""
    settings = Settings.model_validate(
        {
            "organization": OWNER,
            "lake": {"warehouse": str(folder / "lake")},
            "catalog": {"path": str(folder / "catalog.db")},
            "spark": {"master": "local[2]", "log_file": str(folder / "spark.log")},
            "query": {"cache_bytes": 0, "log": False},
        }
    )
    lake = build_lake(settings)
    init_tables(lake)
    return settings, lake


def measure_recent(service: QueryService, lake: Lake, other: Prometheus | None, report: Report) -> None:
    """Ask each question of both, in turns, and keep the mean."""
    ratios: dict[str, list[float]] = {"": [], "after_commit_": []}
    report.ours["rss_mb"] = 0.0
    shift = 0
    for name, listed in QUESTIONS.items():
        ours: list[float] = []
        theirs: list[float] = []
        while len(ours) <= (LONG_ROUNDS if min(ours[1:], default=0.0) > LONG_S else ROUNDS):  # the first one warms up
            shift += 1
            questions = [move(one, shift) for one in listed]
            cost, answers = ask_ours(service, questions)
            ours.append(cost)
            if other is not None:
                cost, same = ask_theirs(other, questions)
                theirs.append(cost)
                assert [count_items(one) for one in answers] == [count_items(one) for one in same], name
        report.ours["rss_mb"] = max(report.ours["rss_mb"], measure_memory(other))
        report.ours[f"{name}_cpu_s"] = statistics.fmean(ours[1:])
        report.ours[f"after_commit_{name}_cpu_s"] = statistics.fmean(
            ask_after_commit(service, lake, [move(one, shift) for one in listed]) for _ in range(COMMITTED_ROUNDS)
        )
        if other is not None:
            cost = max(statistics.fmean(theirs[1:]), CLOCK_S / len(theirs[1:]))
            report.baselines["prometheus"][f"{name}_cpu_s"] = cost
            for kind, found in ratios.items():
                found.append(report.ours[f"{kind}{name}_cpu_s"] / cost)
    if other is not None:
        report.baselines["prometheus"]["rss_mb"] = find_process(other).memory_info().rss / 1e6
        for kind, found in ratios.items():
            report.ratios[f"{kind}vs_prometheus_median"] = statistics.median(found)
            report.ratios[f"{kind}vs_prometheus_worst"] = max(found)


def ask_after_commit(service: QueryService, lake: Lake, questions: list[Question]) -> float:
    """Return the CPU seconds of questions after a commit of one more point of each series."""
    commit_next(lake)
    return ask_ours(service, questions)[0]


def empty_memory(service: QueryService) -> None:
    """Run a statement of another organization, which makes a worker drop what it has in memory."""
    running = service.start(Request("SELECT 1 AS one", "other"))
    assert sum(batch.num_rows for batch in running.batches()) == 1


def move(question: Question, seconds: int) -> Question:
    """Return a question about an earlier time range, as after a refresh: no samples of the questions before fit."""
    path, parameters = question
    times = {name: parameters[name] - seconds for name in ("start", "end", "time") if name in parameters}
    return path, parameters | times


def measure_memory(other: Prometheus | None) -> float:
    """Return the memory of the query workers, in megabytes."""
    theirs = None if other is None else find_process(other).pid
    return sum(one.memory_info().rss for one in list_children() if one.pid != theirs) / 1e6


def ask_ours(service: QueryService, questions: list[Question]) -> tuple[float, list[dict[str, Any]]]:
    """Return the CPU seconds and the answers of Neve."""
    processes = [psutil.Process(), *(one for one in list_children() if WORKER in one.cmdline())]
    before = sum_cpu(processes)
    bodies = [answer(service, question) for question in questions]
    return sum_cpu(processes) - before, [json.loads(body) for body in bodies]


def sum_cpu(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of processes that were found before, which takes longer than a short query."""
    return sum(times.user + times.system for times in (one.cpu_times() for one in processes))


def answer(service: QueryService, question: Question) -> bytes:
    """Answer a question as the HTTP API does, without the server."""
    path, parameters = question
    pairs = [(name, str(value)) for name, value in parameters.items()]
    if path.startswith("label/"):
        pairs.append(("name", path.split("/")[1]))
        path = "values"
    arguments = {
        "path": path,
        "pairs": pairs,
        "now_ms": END_S * 1000,
        "seconds": None,
        "max_rows": None,
        "reads_ahead": True,
    }
    program = add_tables(service, Program(FUNCTION, arguments, TABLES))
    running = service.start_program(Request(path, OWNER, fresh=True), program)
    return b"".join(piece for batch in running.batches() for piece in batch.column("body").to_pylist())


def ask_theirs(other: Prometheus, questions: list[Question]) -> tuple[float, list[dict[str, Any]]]:
    """Return the CPU seconds and the answers of Prometheus."""
    process = find_process(other)
    before = process.cpu_times()
    answers = []
    for path, parameters in questions:
        connection = http.client.HTTPConnection("127.0.0.1", other.port, timeout=600)
        connection.request("GET", f"/api/v1/{path}?{urlencode(parameters)}")
        answers.append(json.loads(connection.getresponse().read()))
        connection.close()
    after = process.cpu_times()
    return after.user + after.system - before.user - before.system, answers


def find_process(other: Prometheus) -> psutil.Process:
    """Return the process that listens on the port."""
    return next(one for one in list_children() if f":{other.port}" in " ".join(one.cmdline()))


def list_children() -> list[psutil.Process]:
    """Return the processes that this one has started and that have not ended."""
    return [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]


def count_items(document: dict[str, Any]) -> int:
    """Return the number of points, or of values, of an answer."""
    assert document["status"] == "success", document
    data = document["data"]
    if isinstance(data, list):
        return len(data)
    return sum(len(one.get("values", [None])) for one in data["result"])


def measure_month(service: QueryService, lake: Lake, documents: SqlDocuments, report: Report) -> None:
    """Ask for a month before and after the rollup: when nothing is in memory, and once again."""
    answers = {}
    for name in ("month_points", "month"):
        if name == "month":
            Rollup(lake, RollupConfig(), documents).run()
            lake.spark.stop()  # its JVM must not count
        ask_ours(service, [MONTH])  # the first round warms up
        first, again = [], []
        for hours in range(MONTH_ROUNDS):
            empty_memory(service)
            first.append(ask_ours(service, [move(MONTH, hours * HOUR_S)])[0])
            cost, [answers[name]] = ask_ours(service, [move(MONTH, hours * HOUR_S + HOUR_S)])
            again.append(cost)
        report.ours[f"{name}_cpu_s"] = statistics.fmean(first)
        report.ours[f"{name}_again_cpu_s"] = max(statistics.fmean(again), CLOCK_S / MONTH_ROUNDS)
    assert count_items(answers["month"]) == count_items(answers["month_points"])
    assert not answers["month_points"].get("infos")
    assert answers["month"].get("infos")
    for name in ("", "_again"):
        points, rolled = (report.ours[f"{kind}{name}_cpu_s"] for kind in ("month_points", "month"))
        report.ratios[f"rollup_30d_vs_points{name}"] = points / rolled
