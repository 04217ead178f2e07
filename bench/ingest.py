"""OTLP files to committed Iceberg rows on Spark, beside decoding alone, plain pyarrow in one process, Spark's writer.

Every way gets the same files, in one run, on a session that has run each way once already; CPU seconds are those of the
whole process tree (driver, JVM, Python workers), so ratios of rows a CPU second are ratios a core.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as pads
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.types import BinaryType, TimestamptzType

from bench.report import Report
from bench.sizes import choose
from bench.telemetry import hour
from bench.usage import Meter, Usage
from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest, ingest_files
from neve.lake.config import CatalogConfig, LakeConfig, SparkConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.model.signals import Signal
from neve.otlp import Intake, decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEEDS = choose((7, 8, 9), (7,))
ROUNDS = choose(4, 1)
SLOW_ROUNDS = choose(1, -1)  # Spark's own writer takes as long as all others together
ON_SPARK = ("ours", "spark_writer")
INTAKE = Intake("bench", time.time_ns())


def main() -> None:
    """Run each way once to warm up, then in turns, and compare the best of each."""
    files = [path for seed in SEEDS for path in sorted((hour(seed) / "traces").iterdir())]
    with tempfile.TemporaryDirectory(prefix="neve-bench-") as folder:
        bench = IngestBench(Path(folder), files)
        ways = {
            "decode": bench.decode_only,
            "pyarrow": bench.plain_pyarrow,
            "lane_alone": bench.lane_without_spark,
            "spark_writer": bench.spark_writer,
            "ours": bench.ours,
        }
        rows = 0
        best: dict[str, Usage] = {}
        for round_number in range(ROUNDS + 1):
            for name, way in ways.items():
                if name == "spark_writer" and round_number > SLOW_ROUNDS:
                    continue
                bench.clear()
                with Meter(with_children=name in ON_SPARK) as usage:
                    rows = way()
                if round_number and (name not in best or usage.cpu_s < best[name].cpu_s):
                    best[name] = usage
        _report(best, rows, bench).show()


def _report(best: dict[str, Usage], rows: int, bench: IngestBench) -> Report:
    speed = {name: usage.per_second(rows) for name, usage in best.items()}
    report = Report("ingest")
    report.ours = {"rows": rows, "source_mb": bench.source_mb, **_numbers(best["ours"], rows)}
    report.baselines = {name: _numbers(usage, rows) for name, usage in best.items() if name != "ours"}
    report.ratios = {f"vs_{name}": speed["ours"] / value for name, value in speed.items() if name != "ours"}
    return report


def _numbers(usage: Usage, rows: int) -> dict[str, float]:
    return {
        "spans_per_cpu_s": usage.per_second(rows),
        "cpu_s": usage.cpu_s,
        "wall_s": usage.wall_s,
        "peak_mb": usage.peak_mb,
    }


class IngestBench:
    """The ways of doing the same work."""

    def __init__(self, folder: Path, files: list[Path]) -> None:
        self.folder = folder
        self.files = files
        self.source_mb = sum(path.stat().st_size for path in files) / 1e6
        self.runs = 0

    def clear(self) -> None:
        """Forget the last way's files."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        self.runs += 1

    def lake(self) -> Lake:
        """A new lake; Spark knows it by a new name."""
        lake = Lake(
            LakeConfig(warehouse=str(self.folder / "run" / "warehouse")),
            CatalogConfig(name=f"bench{self.runs}", path=str(self.folder / "run" / "catalog.db")),
            spark_config=SparkConfig(log_file=str(self.folder / "spark.log")),
        )
        init_tables(lake)
        return lake

    def ours(self) -> int:
        """`neve ingest files`, whole: found, hashed, claimed, decoded, written, committed, remembered."""
        request = FileRequest(tuple(map(str, self.files)), "bench")
        return ingest_files(self.lake(), IngestConfig(), request).total_records

    def decode_only(self) -> int:
        """Decoding in one process, nothing written."""
        return sum(batch.num_rows for batch in self._batches())

    def plain_pyarrow(self) -> int:
        """Decode, add the partition columns, and let pyarrow write a partitioned dataset: no Spark, no Iceberg."""
        table = pa.Table.from_batches(self._batches())
        day = DayTransform().pyarrow_transform(TimestamptzType())(table.column("timestamp"))
        bucket = BucketTransform(16).pyarrow_transform(BinaryType())(table.column("trace_id"))
        options = pads.ParquetFileFormat().make_write_options(compression="zstd", compression_level=3)
        pads.write_dataset(
            table.append_column("day", day.cast(pa.int32())).append_column("bucket", bucket),
            self.folder / "run" / "pyarrow",
            format="parquet",
            file_options=options,
            partitioning=["organization_id", "day", "bucket"],
            use_threads=False,
            max_open_files=1024,
            max_rows_per_group=1 << 20,
        )
        return int(table.num_rows)

    def lane_without_spark(self) -> int:
        """Decode, and write with Neve's own writer in this process: partitions, sort, statistics."""
        from neve.lake.write.table_writer import Target, write_files  # noqa: PLC0415

        table = pa.Table.from_batches(self._batches())
        write_files(Target.of(self.lake().table("spans")), table)
        return int(table.num_rows)

    def spark_writer(self) -> int:
        """Decode in Spark tasks, and let the batches go through the JVM to Spark's own Iceberg writer."""
        lake = self.lake()
        spark, name = lake.spark, lake.spark_name("spans")
        paths = [str(path) for path in self.files]
        frame = spark.range(0, len(paths), 1, len(paths)).mapInArrow(
            partial(_decode_on_worker, paths), spark.table(name).schema
        )
        frame.writeTo(name).option("fanout-enabled", "true").append()
        return int(spark.table(name).count())

    def _batches(self) -> list[pa.RecordBatch]:
        return [decode(Signal.TRACES, [path.read_bytes()], INTAKE).batch for path in self.files]


def _decode_on_worker(paths: list[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield decode(Signal.TRACES, [Path(paths[index]).read_bytes()], INTAKE).batch


if __name__ == "__main__":
    main()
