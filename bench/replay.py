"""Replay of rules over a month: `neve rules simulate --since 30d` on a lake of points every minute.

Each service has an incident of an hour once a week, so that the number of alerts is known. The command runs in a
process of its own. CPU seconds are those of all its processes, memory is the highest of one of them.
`BENCH_ROWS` makes a smaller lake with fewer series.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.promql_data import OWNER, build_points, build_series
from bench.report import Report
from bench.sizes import choose_number
from neve.app.settings import load_settings
from neve.app.wiring import build_lake
from neve.lake.commit.append import append_once
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.tables import METRICS

if TYPE_CHECKING:
    import pyarrow as pa

DAYS, GAP_S = 30, 60
ROWS = choose_number("BENCH_ROWS", whole=8_640_000, quick=864_000)
SERIES = max(20, ROWS // (DAYS * 86_400 // GAP_S) // 20 * 20)
SERVICES = 10
START_S = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp())
END_S = START_S + DAYS * 86_400
DAY_POINTS = 86_400 // GAP_S
INCIDENT_S = 3600
RULES = """
groups:
  - name: shop
    interval: 1m
    rules:
      - record: job:requests:rate5m
        expr: sum by (job) (rate(shop_requests_total[5m]))
      - record: job:errors:ratio5m
        expr: sum by (job) (rate(shop_requests_total{code="500"}[5m])) / job:requests:rate5m
      - alert: HighErrors
        expr: job:errors:ratio5m > 0.1
        for: 5m
        labels: {severity: page}
        annotations: {summary: '{{ $labels.job }} fails {{ $value | humanizePercentage }} of requests'}
      - alert: AlwaysOn
        expr: sum by (job) (rate(shop_requests_total[5m])) > 0
        annotations: {summary: '{{ $labels.job }} has {{ $value }} requests'}
      - alert: BudgetBurn
        expr: avg_over_time(job:errors:ratio5m[6h]) > 0.05
"""


def main() -> None:
    """Fill a lake, replay the rules over its month, and check the alerts."""
    report = Report("replay")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as name:
        folder = Path(name)
        config = fill_lake(folder)
        for days in (3, DAYS):
            cost, document = replay(config, folder, days)
            check_alerts(document, days)
            report.ours |= {f"days_{days}_{key}": value for key, value in cost.items()}
    report.ours |= {"points": SERIES * DAYS * DAY_POINTS, "series": SERIES, "rules": 5}
    report.ratios["memory_month_vs_3_days"] = report.ours[f"days_{DAYS}_peak_mb"] / report.ours["days_3_peak_mb"]
    report.show()


def fill_lake(folder: Path) -> Path:
    """Write a month of points, a commit for each day, and return the configuration."""
    config = folder / "neve.yaml"
    config.write_text(
        json.dumps(
            {
                "organization": OWNER,
                "lake": {"warehouse": str(folder / "lake")},
                "catalog": {"path": str(folder / "catalog.db")},
                "state": {"path": str(folder / "state.db")},
                "raw": {"location": str(folder / "raw")},
            }
        )
    )
    (folder / "rules.yml").write_text(RULES)
    lake = build_lake(load_settings(str(config), {}))
    init_tables(lake)
    table = lake.table(METRICS.name)
    for day in range(DAYS):
        files = write_files(Target.of(table), make_day(day))
        append_once(table, files, batch_id=f"day {day}", operation="bench")
    return config


def make_day(day: int) -> pa.Table:
    """Return the points of a day. Half of the series count errors, which grow in the incident of their service."""
    numbers = np.arange(SERIES)
    resources = [[("service.name", f"service-{one % SERVICES}")] for one in numbers.tolist()]
    attributes = [
        [("code", "500" if one // SERVICES % 2 else "200"), ("pod", f"pod-{one}")] for one in numbers.tolist()
    ]
    series = build_series("shop.requests", resources, attributes, is_counter=True)
    steps = np.arange(day * DAY_POINTS, (day + 1) * DAY_POINTS)
    seconds = START_S + (steps + 1) * GAP_S
    counts = np.stack([count_requests(number, seconds) for number in numbers.tolist()], axis=1)
    owner = np.tile(numbers, DAY_POINTS)
    return build_points(series, owner, np.repeat(seconds, SERIES), counts.reshape(-1), START_S)


def count_requests(number: int, seconds: Any) -> Any:
    """Return the count of a series: a hundred a minute, and of errors none but in its incidents."""
    passed = (seconds - START_S).astype(np.float64)
    if not number // SERVICES % 2:
        return passed / 60 * 100
    week = 7 * 86_400
    begins = 86_400 + number % SERVICES * 7200
    weeks, inside = np.divmod(passed - begins, week)
    return np.where(passed < begins, 0, weeks * INCIDENT_S + np.minimum(inside, INCIDENT_S)) / 60 * 50


def replay(config: Path, folder: Path, days: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the command, and return its CPU seconds and its memory, and its answer."""
    since = datetime.fromtimestamp(END_S, UTC) - timedelta(days=days)
    times = ["--since", since.isoformat(), "--until", datetime.fromtimestamp(END_S, UTC).isoformat()]
    neve = [sys.executable, "-m", "neve", "-c", str(config)]
    command = [*neve, "rules", "simulate", str(folder / "rules.yml"), *times, "--json"]
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss, json.loads(done.stdout)]))"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True)
    cpu_s, peak_kb, document = json.loads(done.stdout)
    return {"cpu_s": cpu_s, "peak_mb": peak_kb / 1024}, document


def check_alerts(document: dict[str, Any], days: int) -> None:
    """Compare the alerts with the incidents."""
    fired = {one["rule"]: one["fired"] for one in document["rules"] if one["kind"] == "alerting"}
    first = END_S - days * 86_400
    begins = [START_S + 86_400 + service * 7200 + week * 7 * 86_400 for service in range(SERVICES) for week in range(5)]
    expected = sum(first <= begin and begin + INCIDENT_S <= END_S for begin in begins)
    assert fired["HighErrors"] == expected, (fired, expected)
    assert fired["AlwaysOn"] == SERVICES, fired
