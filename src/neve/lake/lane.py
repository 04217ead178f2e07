"""The Arrow lane: Spark hands out tasks and retries them; inside a task whole files are worked on in Arrow.

Only descriptions go through the JVM, in both directions: what to do, and which files came of it. Where rows must meet
that came in with different tasks, they are shuffled as a few large parcels of Arrow, which the JVM does not look into.
"""

from __future__ import annotations

import pickle
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL_SECONDS = 0.2


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; Spark Connect does not tell, so a few are assumed."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 8


def run_tasks(
    spark: SparkSession,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Do the work for every task on Spark, and give the results in the order of the tasks."""
    if not tasks:
        return []

    def on_worker(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"task": [index], "result": [pickle.dumps(work(tasks[index]))]})

    indices = spark.range(0, len(tasks), 1, len(tasks))
    with _watched(spark, len(tasks), progress):
        rows = indices.mapInArrow(on_worker, "task long, result binary").collect()
    return [pickle.loads(row.result) for row in sorted(rows, key=lambda row: int(row.task))]  # noqa: S301 - our own


@dataclass(frozen=True)
class Parcel:
    """Rows for the writer with a number, and what they are."""

    writer: int
    label: str
    rows: pa.Table


def run_shuffled(
    frame: DataFrame,
    scatter: Callable[[Iterable[pa.RecordBatch]], Iterable[Parcel]],
    gather: Callable[[Iterable[Parcel]], Result],
    writers: int,
    progress: Callable[[int, int], None] | None = None,
) -> list[Result]:
    """Scatter what comes of each partition of a frame over writers in parcels; the result of each writer.

    With one writer both happen in the same task, and nothing is shuffled.
    """

    def at_once(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(gather(scatter(batches)))]})

    def scattered(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for parcel in scatter(batches):
            yield _wrap(parcel)

    def gathered(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(gather(_unwrap(batches)))]})

    if writers == 1:
        done = frame.coalesce(1).mapInArrow(at_once, "result binary")
    else:
        parcels = frame.mapInArrow(scattered, "writer int, label string, rows binary")
        done = parcels.repartitionById(writers, "writer").mapInArrow(gathered, "result binary")
    with _watched(frame.sparkSession, writers, progress):
        rows = done.collect()
    return [pickle.loads(row.result) for row in rows]  # noqa: S301 - our own


def _wrap(parcel: Parcel) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, parcel.rows.schema) as stream:
        stream.write_table(parcel.rows)
    rows = sink.getvalue()
    packed = pa.BinaryArray.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(np.array([0, rows.size], dtype=np.int32)), rows]
    )
    return pa.RecordBatch.from_arrays(
        [pa.array([parcel.writer], pa.int32()), pa.array([parcel.label]), packed], ["writer", "label", "rows"]
    )


def _unwrap(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    for batch in batches:
        writers, labels, rows = (batch.column(name) for name in ("writer", "label", "rows"))
        for row in range(batch.num_rows):
            with pa.ipc.open_stream(rows[row].as_buffer()) as stream:
                yield Parcel(writers[row].as_py(), labels[row].as_py(), stream.read_all())


@contextmanager
def _watched(spark: SparkSession, total: int, progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Tell how many tasks are done while a job runs."""
    context = getattr(spark, "_sc", None)
    if progress is None or context is None:
        yield
        return
    group = f"neve-{uuid4()}"
    context.setJobGroup(group, "neve")
    done = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(POLL_SECONDS):
            finished = 0
            for job_id in tracker.getJobIdsForGroup(group):
                job = tracker.getJobInfo(job_id)
                stages = [tracker.getStageInfo(stage) for stage in (job.stageIds if job else [])]
                finished += sum(stage.numCompletedTasks for stage in stages if stage)
            progress(min(finished, total), total)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
    progress(total, total)
