"""Weighted reservoir sampling: twenty million logs of a thousand services, to a hundred of each.

Ours cuts Arrow batches of Parquet files in Spark's tasks, `transform` is the DataFrame transform. Every way runs in a
process of its own, once, after a warm-up on the first million rows. The ratios `vs_...` are CPU seconds of ours / CPU
seconds of theirs, of JVM and Python together: below 1 is better. `memory_10x` is the peak memory of ours at twenty
million rows / that at two million. Numbers of `lake_...` are of a table of the lake, and those of `lake_spark_...`
without Arrow tasks. `decision_bytes` is what of OTAP Parquet has to be read to decide / all of it. What is compared is
not the same: `sampleBy` knows no weights, gives no exact sizes and has to be told the groups' shares (which takes a
count of its own, not counted here); a var_opt sketch can't be computed again, and this one uses one core.

`NEVE_BENCH_ROWS` sets another number of rows.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.report import Report
from bench.reservoir_data import SERVICES, fill, otap_bytes
from bench.reservoir_way import K
from bench.sizes import choose, choose_number
from bench.usage import run_apart

ROWS = choose_number("NEVE_BENCH_ROWS", whole=20_000_000, quick=2_000_000)
WAYS = ("ours", "transform", "sample_by", "var_opt", *choose(("window", "sort"), ()))
SAME = tuple(way for way in WAYS if way != "sample_by")  # that keep exactly k of each group


def main() -> None:
    """Write the rows, sample them in every way, and print what was found."""
    report = Report("reservoir")
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as named:
        folder = Path(named)
        tenth, whole = Rows(folder / "tenth", ROWS // 10), Rows(folder / "whole", ROWS)
        found = {way: _run(way, whole) for way in WAYS}
        for way in SAME:
            assert found[way]["kept"] == whole.expected, (way, found[way], whole.expected)
        _compare(report, found)
        _memory(report, tenth, found["ours"])
        _exact(report, tenth)
        printed, _usage = run_apart([sys.executable, "-m", "bench.reservoir_lake", str(folder)])
        report.ours |= json.loads(printed)
        decision, full = otap_bytes(folder)
        report.ours |= {"decision_mb": decision / 1e6, "full_mb": full / 1e6}
        report.ratios["decision_bytes"] = decision / full
    report.show()


class Rows:
    """Rows in a folder, and how many of them a sample keeps."""

    def __init__(self, folder: Path, rows: int) -> None:
        counts = fill(folder, rows)
        self.folder, self.counts = folder, folder.with_suffix(".json")
        self.counts.write_text(json.dumps(counts))
        self.expected = sum(min(K, count) for count in counts.values())
        print(f"  {rows:,} rows in {SERVICES:,} services, {max(counts.values()):,} in the largest", flush=True)


def _run(way: str, rows: Rows) -> dict[str, Any]:
    found = _apart(way, rows)
    cost = f"{found['cpu_s']:.1f} CPU s, {found['wall_s']:.1f} s, {found['tree_mb']:.0f} MB"
    print(f"  {way}: {cost}, {found['shuffle_mb']:.2f} MB shuffled", flush=True)
    return found


def _compare(report: Report, found: dict[str, dict[str, Any]]) -> None:
    ours = found.pop("ours")
    report.ours |= {"rows": ROWS, "rows_per_s_core": ROWS / ours["cpu_s"], **ours}
    for way, theirs in found.items():
        report.baselines[way] = {"rows_per_s_core": ROWS / theirs["cpu_s"], **theirs}
        report.ratios[f"vs_{way}"] = ours["cpu_s"] / theirs["cpu_s"]
    if "sort" in found:
        report.ratios["shuffle_vs_sort"] = found["transform"]["shuffle_mb"] / found["sort"]["shuffle_mb"]
    found["ours"] = ours


def _memory(report: Report, tenth: Rows, whole: dict[str, Any]) -> None:
    """The same with a tenth of the rows."""
    small = _run("ours", tenth)
    report.ours |= {"tree_mb": whole["tree_mb"], "tree_mb_tenth": small["tree_mb"]}
    report.ratios["memory_10x"] = whole["tree_mb"] / small["tree_mb"]


def _exact(report: Report, tenth: Rows) -> None:
    """What the counts that add up cost, by a tenth of the rows: they take all rows through the shuffle."""
    found = _run("exact", tenth)
    assert found["kept"] == tenth.expected, (found, tenth.expected)
    report.ours |= {"exact_rows_per_s_core": ROWS // 10 / found["cpu_s"], "exact_shuffle_mb_tenth": found["shuffle_mb"]}


def _apart(way: str, rows: Rows) -> dict[str, Any]:
    """Return what a process of its own prints last, with the peak memory of its whole tree."""
    command = [sys.executable, "-m", "bench.reservoir_way", way, str(rows.folder), str(rows.counts)]
    printed, usage = run_apart(command)
    return {**json.loads(printed), "tree_mb": usage.peak_mb}


if __name__ == "__main__":
    main()
