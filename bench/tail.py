"""Tail sampling: a million traces of twenty-five spans decided at flat memory, and one percent more of them.

Every cycle runs in a process of its own; memory is that of its whole tree, with what the interpreter and its libraries
take. Spark decides about the same traces in the same run: once as Neve's engine, once as plain SQL for the aggregate
alone, which is also what the decisions are checked against.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.report import Report
from bench.tail_cycle import SLOW_MS, lake_in
from bench.tail_data import COMMIT_TRACES, TRACE_SPANS, TRACES, fill
from bench.usage import Meter, run_apart
from neve.lake.tables import init_tables

if TYPE_CHECKING:
    from neve.lake.lake import Lake

MINUTES = TRACES / COMMIT_TRACES
LATER = MINUTES + 60  # when every trace is ready
BOUND_MB = 500

AGGREGATE = """
SELECT count(*) AS traces, sum(spans) AS spans, sum(errors) AS errors, sum(slow) AS slow FROM (
  SELECT trace_id, count(*) AS spans, max(CASE WHEN status_code = 2 THEN 1 ELSE 0 END) AS errors,
         max(ingested_at) AS last_seen,
         CASE WHEN floor((max(end_time_unix_nano) - min(start_time_unix_nano)) / 1000000) > {slow} THEN 1 ELSE 0 END
           AS slow
  FROM {table} GROUP BY organization_id, trace_id)
"""


def main() -> None:
    """Run it all, and print what was found."""
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        lake = lake_in(folder)
        init_tables(lake)
        print(f"  {TRACES:,} traces of {TRACE_SPANS} spans")
        fill(lake)
        report = Report("tail")
        full = _full(folder, report)
        _one_percent(folder, lake, report, full)
        single, _memory, _cpu = _apart("single", folder, "ours")
        report.ours |= {"decision_p50_ms": single["p50_ms"], "decision_p99_ms": single["p99_ms"]}
        _spark(folder, report, full)
        _plain_sql(lake, report, full)
        report.show()


def _full(folder: Path, report: Report) -> dict[str, Any]:
    """Everything at once, as on the first day."""
    found, memory, cpu = _apart("cycle", folder, "ours", LATER, "duckdb")
    assert found["decided"] == {"traces": TRACES, "spans": TRACES * TRACE_SPANS}, found["decided"]
    report.ours |= {
        "traces": TRACES,
        "spans": TRACES * TRACE_SPANS,
        "full_s": found["seconds"],
        "full_cpu_s": cpu,
        "peak_mb": memory,
        "traces_per_s": TRACES / found["seconds"],
        "spans_per_s": TRACES * TRACE_SPANS / found["seconds"],
        "kept_share": found["sampled"]["spans"] / found["decided"]["spans"],
    }
    print(f"  full: {found['seconds']:.1f} s, {memory:.0f} MB, kept {found['sampled']['traces']:,}")
    return found


def _one_percent(folder: Path, lake: Lake, report: Report, full: dict[str, Any]) -> None:
    """One percent more spans: the cycle after it reads them alone."""
    fill(lake, max(1, TRACES // 100), first=int(MINUTES) + 1)
    found, memory, _cpu = _apart("cycle", folder, "ours", LATER + 60, "duckdb")
    assert found["decided"]["traces"] == TRACES // 100, found["decided"]
    report.ours |= {"cycle_1pct_s": found["seconds"], "cycle_1pct_peak_mb": memory}
    report.ratios["cycle_1pct_vs_full"] = found["seconds"] / full["seconds"]
    print(f"  one percent more: {found['seconds']:.2f} s, {memory:.0f} MB")


def _spark(folder: Path, report: Report, full: dict[str, Any]) -> None:
    """The same engine inside Spark's tasks, on a table that has grown by a percent."""
    found, memory, cpu = _apart("cycle", folder, "spark", LATER + 60, "spark")
    report.baselines["spark"] = {"full_s": found["seconds"], "full_cpu_s": cpu, "peak_mb": memory}
    report.ratios["spark_seconds"] = found["seconds"] / full["seconds"]
    report.ratios["spark_memory"] = memory / report.ours["peak_mb"]
    print(f"  Spark engine: {found['seconds']:.1f} s, {memory:.0f} MB")


def _plain_sql(lake: Lake, report: Report, full: dict[str, Any]) -> None:
    """The aggregate alone, by Spark SQL: what it costs, and whether our decisions agree with it."""
    spark = lake.spark
    text = AGGREGATE.format(table=lake.spark_name("spans"), slow=SLOW_MS)
    with Meter(with_children=True) as usage:
        row = spark.sql(text).collect()[0]
    assert row.traces == TRACES + TRACES // 100
    ours = _kept_by(lake, "errors")
    assert row.errors == ours, (row.errors, ours)
    report.baselines["spark_sql"] = {"aggregate_s": usage.wall_s, "aggregate_cpu_s": usage.cpu_s}
    report.ratios["vs_spark_sql_seconds"] = full["seconds"] / usage.wall_s
    spark.stop()


def _kept_by(lake: Lake, policy: str) -> int:
    """How many traces one policy decided about, by the selector that read everything and then one percent more."""
    rows = lake.table("trace_decisions").scan(
        row_filter=f"selector == 'ours' AND policy == '{policy}'", selected_fields=("policy",)
    )
    return int(rows.count())


def _apart(kind: str, folder: Path, name: str, *rest: object) -> tuple[dict[str, Any], float, float]:
    """Return what a process of its own prints last, the peak memory of its tree, and its CPU seconds."""
    command = [sys.executable, "-m", "bench.tail_cycle", kind, str(folder), name, *map(str, rest)]
    printed, usage = run_apart(command)
    return json.loads(printed), usage.peak_mb, usage.cpu_s
