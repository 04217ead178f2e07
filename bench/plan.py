"""Planning from metadata alone: tables of 10,000 to a million data files, and one that needs nothing.

Each table is planned in a process of its own, for its peak memory, with the default limits. The table that needs
nothing is answered from its snapshot's summary; loading it from the catalog is part of the time. `replan_ms` is the
time of a further plan in the same process, after one more commit on the largest table.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from bench.metadata import MANY, NOW, WELL, append_files, lake_of
from bench.report import Report
from bench.sizes import choose
from neve.compact.config import CompactConfig
from neve.compact.planning.table_planning import TablePlanner
from neve.lake.config import S3Config
from neve.lake.duckdb import connect

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.table import Table

    from neve.compact.plan import Plan
    from neve.lake.lake import Lake

SIZES = choose((10_000, 100_000, 1_000_000), (10_000, 30_000))
NAMES = {10_000: "10k", 30_000: "30k", 100_000: "100k", 1_000_000: "1m"}
NOOP_FILES = 10_000
NOOP_ROUNDS = 15
COMMIT = range(100)  # files of one more commit
ROUNDS = choose(3, 1)


def main() -> None:
    """Plan all sizes, and the table that needs nothing."""
    for files in SIZES:
        lake_of(files, MANY)
    report = Report("plan")
    best: dict[int, dict[str, Any]] = {}
    for files in SIZES:
        runs = [_apart(files) for _round in range(ROUNDS)]
        best[files] = min(runs, key=lambda run: float(run["seconds"]))
        report.ours[f"seconds_{NAMES[files]}_files"] = best[files]["seconds"]
        report.ours[f"cpu_seconds_{NAMES[files]}_files"] = best[files]["cpu_seconds"]
        print(f"  {files:>9,} files: {best[files]['told']}")
    largest = best[SIZES[-1]]
    report.ours |= {key: largest[key] for key in ("replan_ms", "replan_cpu_ms")}
    report.ours |= {"peak_mb": largest["peak_mb"], "peak_mb_10k": best[SIZES[0]]["peak_mb"], "noop_ms": _noop_ms()}
    growth = SIZES[-1] / SIZES[0]
    report.ratios = {
        "growth_100x": largest["seconds"] / best[SIZES[0]]["seconds"],
        "of_linear": largest["seconds"] / best[SIZES[0]]["seconds"] / growth,
        "memory_100x": largest["peak_mb"] / best[SIZES[0]]["peak_mb"],
    }
    report.show()


def _apart(files: int) -> dict[str, Any]:
    """One plan, in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "bench.plan", str(files)], capture_output=True, text=True, check=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def _measure(files: int) -> dict[str, Any]:
    lake = lake_of(files, MANY)
    table = lake.table("spans")
    started, cpu = time.monotonic(), time.process_time()
    plan = _plan(table)
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu
    assert plan.groups
    assert plan.files == files
    replan_ms, replan_cpu_ms = _replan(lake)
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "replan_ms": replan_ms,
        "replan_cpu_ms": replan_cpu_ms,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "told": f"{plan.reason}; {sum(cut.files for cut in plan.cut):,} files cut, "
        f"{len(plan.left_alone):,} partitions left alone",
    }


def _replan(lake: Lake) -> tuple[float, float]:
    """Return the milliseconds of a plan after one more commit of some files, by the clock and of CPU.

    The commit is rolled back, so that the next run finds the table as it was.
    """
    table = lake.table("spans")
    before = table.metadata.current_snapshot_id
    append_files(table, COMMIT, MANY)
    table = lake.table("spans")
    started, cpu = time.monotonic(), time.process_time()
    plan = _plan(table)
    taken = 1000 * (time.monotonic() - started), 1000 * (time.process_time() - cpu)
    assert plan.groups
    assert before is not None
    table.manage_snapshots().rollback_to_snapshot(before).commit()
    return taken


def _plan(table: Table) -> Plan:
    config = CompactConfig()

    def duck() -> duckdb.DuckDBPyConnection:
        return connect(S3Config(), on_s3=False, memory_limit=config.plan_memory)

    return TablePlanner(table, config, NOW, duck).plan()


def _noop_ms() -> float:
    lake = lake_of(NOOP_FILES, WELL)
    taken = []
    for _round in range(NOOP_ROUNDS):
        started = time.monotonic()
        plan = _plan(lake.table("spans"))
        taken.append(1000 * (time.monotonic() - started))
        assert not plan.groups
        assert "according to the snapshot summary" in plan.reason
    return statistics.median(taken)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_measure(int(sys.argv[1]))))
    else:
        main()
