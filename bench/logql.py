"""LogQL over a lake beside Loki on its own storage: the same lines, the same ten queries, in turns.

CPU seconds are those of the server and all of its processes: planning, reading, evaluation and the JSON of the answer.
The time range differs from round to round. Loki is measured if the part is in the cache (`make parts`); its lines are
flushed to chunks before. The scan reads the lines of all streams once, as SQL of the same service. `BENCH_ROWS` makes a
smaller lake. `BENCH_FOLDER` keeps the lake and Loki's storage in a folder: a first run with `BENCH_PREPARE=1` fills
both, later ones measure.
"""

from __future__ import annotations

import http.client
import json
import os
import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psutil
from tests.parts import loki

from bench.logql_data import END_S, OWNER, RARE, ROWS, START_S, fill_lake, write_messages
from bench.report import Report
from bench.usage import tree_cpu
from neve.api.loki.routes import FUNCTION, TABLES
from neve.app.derived_tables import build_series
from neve.app.query.logql import add_log_tables
from neve.app.query.service import build_query_service
from neve.app.settings import Settings
from neve.app.wiring import build_lake
from neve.lake.tables import init_tables
from neve.query.engine.program import Program
from neve.query.engine.worker_pool import WorkerPool
from neve.query.request import Request
from neve.query.service import Ports, no_limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.parts.loki import Loki

    from neve.lake.lake import Lake
    from neve.query.service import QueryService

ROUNDS = 3
CLOCK_S = 0.01  # the resolution of the CPU time of processes
ALL, ONE = '{service_name=~".+"}', '{service_name="service-2"}'
PREFIX = "/loki/api/v1"
Question = tuple[str, dict[str, Any]]


def ask_range(query: str, **more: Any) -> Question:
    """Return a query of the whole range but its first minutes."""
    return "query_range", {"query": query, "start": START_S + 600, "end": END_S, "step": 60, **more}


QUESTIONS: dict[str, Question] = {
    "newest_lines": ask_range(ONE, limit=100),
    "rare_word": ask_range(f'{ALL} |= "{RARE}"', limit=100),
    "regular_expression": ask_range(f'{ONE} |~ "status\\":5.*took\\":\\"8[0-9][0-9]ms"', limit=100),
    "json_filter": ask_range(f"{ONE} | json | status >= 500 | took > 890ms", limit=100),
    "rate_by_service": ask_range(f"sum by (service_name) (rate({ALL}[5m]))"),
    "errors_by_pod": ask_range(f'sum by (k8s_pod_name) (count_over_time({ONE} | detected_level="error" [5m]))'),
    "json_by_status": ask_range(f"sum by (status) (rate({ONE} | json [5m]))"),
    "logfmt_quantile": ask_range(
        'quantile_over_time(0.99, {service_name="service-3"} | logfmt | unwrap duration(took) [5m]) by (method)'
    ),
    "volume": ("index/volume", {"query": ALL, "start": START_S, "end": END_S, "limit": 100}),
    "label_values": ("label/k8s_pod_name/values", {"start": START_S, "end": END_S}),
}
SCAN = "SELECT count(*), sum(length(message)), max(severity_number), max(map_keys(attributes)) FROM logs"


def main() -> None:
    """Fill the lake and Loki, then measure both in turns."""
    report = Report("logql", ours={"rows": ROWS}, baselines={"loki": {}, "scan": {}})
    with ExitStack() as stack:
        folder = open_folder(stack)
        settings, lake = prepare_lake(folder, fill_lake, lambda settings, lake: build_series(settings, lake).run())
        other = None
        if not loki.missing():
            other = stack.enter_context(loki.loki(folder / "loki"))
            if not (folder / "loki_filled").exists():
                fill_loki(other, report)
                (folder / "loki_filled").touch()
        if "BENCH_PREPARE" in os.environ:
            return
        service = build_query_service(
            settings, lake, limits=no_limits, ports=Ports(engine=WorkerPool(lake, settings.query))
        )
        stack.callback(service.close)
        measure_questions(service, other, report)
        measure_scan(service, report)
    report.show()


def open_folder(stack: ExitStack) -> Path:
    """Return the folder of the data: `BENCH_FOLDER`, or one that is removed afterwards."""
    kept = os.environ.get("BENCH_FOLDER")
    if kept:
        Path(kept).mkdir(parents=True, exist_ok=True)
    return Path(kept or stack.enter_context(tempfile.TemporaryDirectory(prefix="neve-bench-")))


def prepare_lake(
    folder: Path, fill: Callable[[Lake], None], index: Callable[[Settings, Lake], object]
) -> tuple[Settings, Lake]:
    """Return settings without a cache of results, and a lake that is filled and indexed once."""
    settings = Settings.model_validate(
        {
            "organization": OWNER,
            "lake": {"warehouse": str(folder / "lake")},
            "catalog": {"path": str(folder / "catalog.db")},
            "state": {"path": str(folder / "state.db")},
            "query": {"cache_bytes": 0, "log": False},
        }
    )
    lake, done = build_lake(settings), folder / "filled"
    if not done.exists():
        init_tables(lake)
        fill(lake)
        index(settings, lake)
        done.touch()
    return settings, lake


def fill_loki(other: Loki, report: Report) -> None:
    """Send all lines, and write them to chunks."""
    process = psutil.Process(other.pid)
    for message in write_messages():
        other.send(message)
    loki.request(other.port, "POST", "/flush")
    times = process.cpu_times()
    report.baselines["loki"]["ingest_cpu_s"] = times.user + times.system


def measure_questions(service: QueryService, other: Loki | None, report: Report) -> None:
    """Ask each question of both, in turns, and keep the median."""
    ratios = []
    report.ours["rss_mb"] = 0.0
    for name, question in QUESTIONS.items():
        ours, theirs = [], []
        for shift in range(ROUNDS + 1):  # the first round warms up
            asked = move(question, shift)
            cost, answer = ask_ours(service, asked)
            ours.append(cost)
            report.ours["rss_mb"] = max(report.ours["rss_mb"], measure_memory(other))
            if other is not None:
                cost, same = ask_theirs(other, asked)
                theirs.append(cost)
                assert count_items(answer) == count_items(same), (name, count_items(answer), count_items(same))
        report.ours[f"{name}_cpu_s"] = statistics.median(ours[1:])
        if other is not None:
            report.baselines["loki"][f"{name}_cpu_s"] = statistics.median(theirs[1:])
            ratios.append(statistics.median(ours[1:]) / max(statistics.median(theirs[1:]), CLOCK_S))
    if other is not None:
        report.baselines["loki"]["rss_mb"] = psutil.Process(other.pid).memory_info().rss / 1e6
        report.ratios["vs_loki_median"] = statistics.median(ratios)
        report.ratios["vs_loki_worst"] = max(ratios)


def measure_scan(service: QueryService, report: Report) -> None:
    """Read all lines once by SQL, and compare the median question with it."""
    costs = []
    for _ in range(ROUNDS):
        before = tree_cpu()
        rows = [one for batch in service.start(Request(SCAN, OWNER, fresh=True)).batches() for one in batch.to_pylist()]
        costs.append(tree_cpu() - before)
        assert next(iter(rows[0].values())) == ROWS
    report.baselines["scan"]["cpu_s"] = statistics.median(costs)
    ours = [report.ours[f"{name}_cpu_s"] for name in QUESTIONS]
    report.ratios["vs_scan_median"] = statistics.median(ours) / report.baselines["scan"]["cpu_s"]


def move(question: Question, seconds: int) -> Question:
    """Return a question about an earlier time range, as after a refresh."""
    path, parameters = question
    return path, parameters | {name: parameters[name] - seconds for name in ("start", "end")}


def measure_memory(other: Loki | None) -> float:
    """Return the memory of the query workers, in megabytes."""
    children = psutil.Process().children(recursive=True)
    workers = [
        one for one in children if (other is None or one.pid != other.pid) and one.status() != psutil.STATUS_ZOMBIE
    ]
    return sum(one.memory_info().rss for one in workers) / 1e6


def ask_ours(service: QueryService, question: Question) -> tuple[float, Any]:
    """Return the CPU seconds and the answer of Neve."""
    before = tree_cpu()
    path, parameters = question
    pairs = [(name, str(value)) for name, value in parameters.items()]
    names = {"index/volume": "volume"}
    if path.startswith("label/"):
        pairs.append(("name", path.split("/")[1]))
        path = "values"
    arguments = {
        "path": names.get(path, path),
        "pairs": pairs,
        "now_ns": END_S * 10**9,
        "has_categories": False,
        "seconds": None,
        "max_rows": None,
    }
    program = add_log_tables(service, Program(FUNCTION, arguments, TABLES))
    running = service.start_program(Request(path, OWNER, fresh=True), program)
    body = b"".join(piece for batch in running.batches() for piece in batch.column("body").to_pylist())
    return tree_cpu() - before, json.loads(body)


def ask_theirs(other: Loki, question: Question) -> tuple[float, Any]:
    """Return the CPU seconds and the answer of Loki."""
    path, parameters = question
    process = psutil.Process(other.pid)
    before = process.cpu_times()
    connection = http.client.HTTPConnection("127.0.0.1", other.port, timeout=600)
    connection.request("GET", f"{PREFIX}/{path}?{urlencode(parameters)}")
    body = connection.getresponse().read()
    connection.close()
    after = process.cpu_times()
    return after.user + after.system - before.user - before.system, json.loads(body)


def count_items(document: dict[str, Any]) -> int:
    """Return the number of lines, points or values of an answer."""
    assert document["status"] == "success", document
    data = document["data"]
    if isinstance(data, list):
        return len(data)
    return sum(len(one.get("values", [None])) for one in data["result"])
