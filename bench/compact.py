"""Small files of spans to files of the target size: the Arrow executor, Iceberg's own procedure, and copying the bytes.

Every way gets the same 1,024 files, in one run. Each has a process of its own, so that its peak memory is its own; it
does the work once to warm up, then as often as ROUNDS says, and the table is rolled back in between.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from bench.report import Report
from bench.sizes import choose
from bench.telemetry import hour
from bench.usage import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from neve.lake.lake import Lake

SEEDS = choose(tuple(range(7, 19)), (7,))
COMMITS = choose(64, 8)
ROUNDS = choose(2, 1)
MANY = choose(1000, 100)
LAST = f"bench:{COMMITS - 1}"
PLAIN = ("copy", "ours", "procedure")
WAYS = choose((*PLAIN, "ours_sorted", "procedure_sorted"), PLAIN)  # what others leave is not to be copied


def main() -> None:
    """Make the files, then let each way do its work in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        files, rows, size = make(Path(folder))
        print(f"{files} files, {rows:,} spans, {size / 1e6:.1f} MB", flush=True)
        found = {way: _in_process(Path(folder), way) for way in WAYS}
    ours, procedure = found["ours"], found["procedure"]
    report = Report("compact")
    report.ours = {"files": files, "rows": rows, "source_mb": size / 1e6, **ours}
    report.baselines = {name: numbers for name, numbers in found.items() if name != "ours"}
    report.ratios = {
        "cpu_vs_procedure": ours["cpu_s"] / procedure["cpu_s"],
        "wall_vs_procedure": ours["wall_s"] / procedure["wall_s"],
        "size_vs_procedure": ours["result_mb"] / procedure["result_mb"],
        "cpu_vs_copy": ours["cpu_s"] / found["copy"]["cpu_s"],
    }
    if "ours_sorted" in found:
        for key in ("cpu", "wall"):
            ratio = found["ours_sorted"][f"{key}_s"] / found["procedure_sorted"][f"{key}_s"]
            report.ratios[f"sorted_{key}_vs_procedure"] = ratio
    report.show()


def make(folder: Path) -> tuple[int, int, int]:
    """A table of many small files: one commit, sixteen buckets, as often as COMMITS says."""
    from neve.lake.commit.append import append_once  # noqa: PLC0415
    from neve.lake.tables import init_tables  # noqa: PLC0415
    from neve.lake.write.table_writer import Target, write_files  # noqa: PLC0415
    from neve.model.signals import Signal  # noqa: PLC0415
    from neve.otlp import Intake, decode  # noqa: PLC0415

    lake = open_lake(folder)
    init_tables(lake)
    sources = [path for seed in SEEDS for path in sorted((hour(seed) / "traces").iterdir())]
    batches = [decode(Signal.TRACES, [path.read_bytes()], Intake("bench", time.time_ns())).batch for path in sources]
    rows = pa.Table.from_batches(batches)
    table, files, size = lake.table("spans"), 0, 0
    for number in range(COMMITS):
        start, end = number * rows.num_rows // COMMITS, (number + 1) * rows.num_rows // COMMITS
        written = write_files(Target.of(table), rows.slice(start, end - start).combine_chunks())
        append_once(table, written, batch_id=f"bench:{number}", operation="bench")
        files += len(written)
        size += sum(file.file_size_in_bytes for file in written)
    return files, rows.num_rows, size


def open_lake(folder: Path) -> Lake:
    """The lake of the benchmark."""
    from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig  # noqa: PLC0415
    from neve.lake.lake import Lake  # noqa: PLC0415

    return Lake(
        LakeConfig(warehouse=str(folder / "warehouse")),
        CatalogConfig(name="bench", path=str(folder / "catalog.db")),
        spark_config=SparkConfig(log_file=str(folder / "spark.log")),
    )


def _in_process(folder: Path, way: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.compact", str(folder), way]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    numbers: dict[str, float] = json.loads(told)
    print(f"{way}: " + "  ".join(f"{key} {value:,.4g}" for key, value in numbers.items()), flush=True)
    return numbers


def run_way(folder: Path, way: str) -> dict[str, float]:
    """One way: once to warm up, then measured; the quickest round counts."""
    work, before, after = _ways(folder)[way]
    best: dict[str, float] = {}
    for number in range(ROUNDS + 1):
        before()
        with Meter(with_children=True) as usage:
            work()
        size, files = after()
        numbers = {
            "cpu_s": usage.cpu_s,
            "wall_s": usage.wall_s,
            "peak_mb": max(usage.peak_mb, best.get("peak_mb", 0.0)),
            "result_mb": size / 1e6,
            "result_files": files,
        }
        if number and (number == 1 or numbers["cpu_s"] < best["cpu_s"]):
            best = numbers
    return best


def _ways(folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], None], Callable[[], tuple[int, int]]]]:
    """What each way does, what happens before it, and what it left."""
    lake = open_lake(folder)
    copied = folder / "copied"

    def procedure(strategy: str) -> None:
        call = f"CALL bench.system.rewrite_data_files(table => 'telemetry.spans', strategy => '{strategy}')"
        lake.spark.sql(call).collect()

    def copied_size() -> tuple[int, int]:
        files = list(copied.rglob("*.parquet"))
        return sum(path.stat().st_size for path in files), len(files)

    data = folder / "warehouse" / "telemetry" / "spans" / "data"
    plain, ordered = (lambda: _order(lake, "UNORDERED")), (lambda: _order(lake, "ORDERED BY service_name, timestamp"))
    return {
        "ours": (lambda: _ours(lake, folder), plain, lambda: _rolled_back(lake)),
        "procedure": (lambda: procedure("binpack"), plain, lambda: _rolled_back(lake)),
        "ours_sorted": (lambda: _ours(lake, folder), ordered, lambda: _rolled_back(lake)),
        "procedure_sorted": (lambda: procedure("sort"), ordered, lambda: _rolled_back(lake)),
        "copy": (lambda: _copy(data, copied), lambda: shutil.rmtree(copied, ignore_errors=True), copied_size),
    }


def _copy(source: Path, target: Path) -> None:
    """The files of the table as it is, byte by byte."""
    for path in source.glob("organization_id=*/**/*.parquet"):
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def _order(lake: Lake, words: str) -> None:
    """Start Spark, and say whether outputs are to be sorted: whoever packs keeps the table's sort order."""
    lake.spark.sql(f"ALTER TABLE {lake.spark_name('spans')} WRITE {words}")


def _rolled_back(lake: Lake) -> tuple[int, int]:
    """What the table has become; then it is what it was."""
    table = lake.table("spans")
    summaries = {one.snapshot_id: one.summary for one in table.metadata.snapshots if one.summary}
    now = summaries[table.metadata.current_snapshot_id or 0]
    [first] = [number for number, summary in summaries.items() if summary["neve.batch-id"] == LAST]
    lake.spark.sql(f"CALL bench.system.rollback_to_snapshot('telemetry.spans', {first})").collect()
    return int(now["total-files-size"] or 0), int(now["total-data-files"] or 0)


def _ours(lake: Lake, folder: Path) -> None:
    from neve.compact import Compactor  # noqa: PLC0415
    from neve.compact.config import CompactConfig  # noqa: PLC0415
    from neve.state.config import StateConfig  # noqa: PLC0415
    from neve.state.sql_documents import SqlDocuments  # noqa: PLC0415
    from neve.state.store import StateStore  # noqa: PLC0415

    (folder / "state.db").unlink(missing_ok=True)  # nothing is to be learnt from the round before
    documents = SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db"))))
    config = CompactConfig(deduplicate=False)  # the procedure knows nothing of records that came twice
    result = Compactor(lake, strategy="small_files", documents=documents, config=config).compact("spans")
    if result.files_in < MANY or not result.is_whole:
        raise SystemExit(f"the run did not do the work: {result}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(run_way(Path(sys.argv[1]), sys.argv[2])))
    else:
        main()
