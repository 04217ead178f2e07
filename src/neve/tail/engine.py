"""Who sums spans up: DuckDB in this process, or the same DuckDB statement in the tasks of a Spark job."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow.parquet as pq

from neve.lake.duck import connect
from neve.lake.filesystem import filesystem_of
from neve.lake.lane import parallelism, run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neve.lake.config import S3Config
    from neve.lake.lake import Lake
    from neve.tail.config import TailConfig
    from neve.tail.gather import Gathering
    from neve.tail.news import Chunk, News
    from neve.tail.reading import SpanReader
    from neve.tail.summary import Summary

DUCKDB, SPARK = "duckdb", "spark"
TASKS_EACH = 4  # that a core is given, when there are many


def engine_for(config: TailConfig, news: News) -> str:
    """Which engine reads what is new."""
    if config.engine != "auto":
        return config.engine
    return SPARK if news.bytes > config.spark_bytes else DUCKDB


def sum_up_here(
    gathering: Gathering, reader: SpanReader, chunks: Sequence[Chunk], tell: Callable[[int, int], None]
) -> None:
    """One lot of files after the other, in this process."""
    for done, chunk in enumerate(chunks):
        tell(done, len(chunks))
        gathering.sum_up(reader, chunk)
    tell(len(chunks), len(chunks))


def sum_up_on_spark(
    lake: Lake, gathering: Gathering, reader: SpanReader, chunks: Sequence[Chunk], tell: Callable[[int, int], None]
) -> None:
    """Every lot is a task; the summaries come back as files, and are taken from there."""
    batch = lake.exchange.open_batch()
    on_s3 = chunks[0].files[0].path.startswith("s3") if chunks else False
    task = SumUp(gathering.summary, reader, batch.folder, lake.s3, on_s3=on_s3)
    spark = lake.spark
    try:
        paths = run_tasks(spark, task, chunks, tell, slices=TASKS_EACH * parallelism(spark))
        gathering.take([path for path in paths if path])
    finally:
        batch.remove()


@dataclass(frozen=True)
class SumUp:
    """What a task of Spark does with a lot of files. It pickles."""

    summary: Summary
    reader: SpanReader
    folder: str
    s3: S3Config
    on_s3: bool

    def __call__(self, chunk: Chunk) -> str:
        """Sum up, and leave the summaries in a file."""
        connection = connect(self.s3, on_s3=self.on_s3, threads=1, extensions=("httpfs",) if self.on_s3 else ())
        spans = self.reader.spans(chunk.files, self.summary.span_columns)
        rows = connection.execute(self.summary.of_spans(spans)).to_arrow_table()
        connection.close()
        path = f"{self.folder}/{uuid4()}.parquet"
        filesystem, inner = filesystem_of(path, self.s3)
        pq.write_table(rows, inner, filesystem=filesystem, compression="lz4")
        return path


def summing(
    engine: str,
    lake: Lake,
    gathering: Gathering,
    reader: SpanReader,
    chunks: Sequence[Chunk],
    tell: Callable[[int, int], None],
) -> None:
    """Sum up by an engine."""
    work = partial(sum_up_on_spark, lake) if engine == SPARK else sum_up_here
    work(gathering, reader, chunks, tell)
