"""One way to sample, in a process of its own, so that its memory and its CPU seconds are nobody else's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from datasketches import var_opt_sketch  # type: ignore[import-untyped]

from bench.usage import Meter
from neve.lake.config import CatalogConfig, LakeConfig, S3Config, SparkConfig
from neve.lake.spark.session import build_session
from neve.lake.spark.tasks import run_tasks
from neve.reservoir.sampling.methods import Draw, make_salt
from neve.reservoir.sampling.transform import weighted_sample, windowed_sample
from neve.reservoir.sampling.vector_cut import VectorDraw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

K = 100
DRAW = Draw(("service",), "id", K, make_salt("bench"), "weight")
EARLY_CUT = "spark.sql.optimizer.windowGroupLimitThreshold"
BATCH_ROWS = 100_000
TASKS = 2


def transform(rows: DataFrame, _counts: dict[str, int]) -> DataFrame:
    """Priority sampling by our transform of DataFrames."""
    return weighted_sample(rows, DRAW)


def exact(rows: DataFrame, _counts: dict[str, int]) -> DataFrame:
    """Our transform, with the counts that add up."""
    return weighted_sample(rows, replace(DRAW, method="exact_total"))


def window(rows: DataFrame, _counts: dict[str, int]) -> DataFrame:
    """The same sample by a window that Spark cuts before the shuffle."""
    return windowed_sample(rows, DRAW)


def sort(rows: DataFrame, _counts: dict[str, int]) -> DataFrame:
    """The same window without the early cut: all rows are shuffled and sorted."""
    sample = windowed_sample(rows, DRAW)
    rows.sparkSession.conf.set(EARLY_CUT, "-1")
    return sample


def sample_by(rows: DataFrame, counts: dict[str, int]) -> DataFrame:
    """Spark's own: each row by its group's share, which somebody has to know; without weights, of no exact size."""
    return rows.sampleBy("service", {name: min(1.0, K / count) for name, count in counts.items() if count}, seed=7)


WAYS: dict[str, Callable[[DataFrame, dict[str, int]], DataFrame]] = {
    "transform": transform,
    "exact": exact,
    "window": window,
    "sort": sort,
    "sample_by": sample_by,
}


def main(way: str, folder: Path, counts: dict[str, int]) -> None:
    """Warm up on the first file, measure all of them, and print what was found as JSON."""
    found = APART[way](folder) if way in APART else _spark(way, folder, counts)
    print(json.dumps(found), flush=True)


def _spark(way: str, folder: Path, counts: dict[str, int]) -> dict[str, float]:
    spark = _session(folder.parent)
    first = str(min(folder.glob("*.parquet")))
    _run(WAYS[way](spark.read.parquet(first), counts))
    before = _shuffled(spark)
    with Meter(with_children=True) as usage:
        kept = _run(WAYS[way](spark.read.parquet(str(folder)), counts))
    shuffled = _shuffled(spark) - before
    spark.stop()
    return {**vars(usage), "kept": kept, "shuffle_mb": shuffled / 1e6}


def _session(folder: Path) -> SparkSession:
    config = SparkConfig(
        master="local[2]",
        driver_memory="1g",
        conf={"spark.sql.shuffle.partitions": "8"},
        log_file=str(folder / "spark.log"),
    )
    lake = LakeConfig(warehouse=str(folder / "warehouse"))
    return build_session(config, CatalogConfig(path=str(folder / "catalog.db")), lake, S3Config())


def _run(sample: DataFrame) -> int:
    """Every column of every kept row is made, and none is sent to Python."""
    columns = ", ".join(sample.columns)
    row = sample.selectExpr("count(*)", f"sum(xxhash64({columns}) % 1000)").collect()[0]
    return int(row[0])


def _shuffled(spark: SparkSession) -> int:
    """Bytes that tasks have written for others so far, as Spark's own status store counts them."""
    python: Any = spark.sparkContext
    context = python._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    quantiles = python._gateway.new_array(python._jvm.double, 0)
    stages = context.statusStore().stageList(None, False, False, quantiles, None)
    return sum(stages.apply(number).shuffleWriteBytes() for number in range(stages.size()))


def _ours(folder: Path) -> dict[str, float]:
    """Priority sampling of the files' Arrow batches in Spark's tasks, as tables of the lake are sampled."""
    spark = _session(folder.parent)
    files = [str(path) for path in sorted(folder.glob("*.parquet"))]
    draw = VectorDraw(("service",), "id", K, DRAW.salt)

    def cut(paths: list[str]) -> pa.Table | None:
        return draw.cut(_batches(paths))

    def sample(paths: list[str]) -> pa.Table:
        tasks = [paths[number::TASKS] for number in range(TASKS) if paths[number::TASKS]]
        return draw.sample(one for one in run_tasks(spark, cut, tasks) if one is not None)

    sample(files[:1])
    with Meter(with_children=True) as usage:
        kept = sample(files)
    spark.stop()
    assert kept.column("adjusted_weight").null_count == 0
    return {**vars(usage), "kept": kept.num_rows, "shuffle_mb": 0.0}


def _batches(paths: list[str]) -> Iterator[pa.Table]:
    for path in paths:
        for batch in pq.ParquetFile(path, read_dictionary=["service"]).iter_batches(BATCH_ROWS, use_threads=False):
            yield pa.Table.from_batches([batch])


def _var_opt(folder: Path) -> dict[str, float]:
    """Apache DataSketches: a sketch for each service, updated row by row."""
    sketches: dict[str, Any] = {}
    with Meter(with_children=True) as usage:
        for path in sorted(folder.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(BATCH_ROWS):
                for service, key, weight in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    sketch = sketches.get(service)
                    if sketch is None:
                        sketch = sketches[service] = var_opt_sketch(K)
                    sketch.update(key, weight)
        kept = sum(sketch.num_samples for sketch in sketches.values())
    return {**vars(usage), "kept": kept, "shuffle_mb": 0.0}


APART: dict[str, Callable[[Path], dict[str, float]]] = {"ours": _ours, "var_opt": _var_opt}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text()))
