"""The Arrow lane: Spark hands out tasks and retries them; inside a task whole files are worked on in Arrow.

Only descriptions go through the JVM, in both directions: what to do, and which files came of it.
"""

from __future__ import annotations

import sys
import threading
import zipimport
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa

from neve.lake.store_calls import packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

POLL_SECONDS = 0.2
MUCH_MEMORY = 256 * 1024 * 1024


def forget_archives() -> None:
    """Keep Spark from reading its own archives again for the next task of this worker.

    Before each task it invalidates all importers, and those of zip files and jars read their directories anew: a tenth
    of a second. Importers that are made again take the directories that Python remembers.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def keep_memory() -> None:
    """Let Arrow keep the memory that it gives back: a task asks for as much again, and pages cost a fifth of it."""
    with suppress(NotImplementedError):  # a build without jemalloc
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def release_memory() -> None:
    """Give back what a task that held much leaves behind: the next one of this worker may be a small one, or none."""
    pool = pa.default_memory_pool()
    if pool.max_memory() > MUCH_MEMORY:
        pool.release_unused()


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; Spark Connect does not tell, so a few are assumed."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 8


def run_tasks(
    spark: SparkSession,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Callable[[int, int], None] | None = None,
    slices: int | None = None,
) -> list[Result]:
    """Do the work for every task on Spark, and give the results in the order of the tasks.

    Tasks that take no longer than Spark needs to start one (a fifth of a CPU second) share `slices` of them.
    """
    if not tasks:
        return []

    def on_worker(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"task": [index], "result": [packed(work(tasks[index]))]})
        forget_archives()

    indices = spark.range(0, len(tasks), 1, min(slices or len(tasks), len(tasks)))
    with watched(spark, len(tasks), progress):
        rows = indices.mapInArrow(on_worker, "task long, result binary").collect()
    return [unpacked(row.result) for row in sorted(rows, key=lambda row: int(row.task))]


@contextmanager
def watched(spark: SparkSession, total: int, progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Tell how many tasks are done while a job runs; what `progress` raises ends the job, and is raised here."""
    context = getattr(spark, "_sc", None)
    if progress is None or context is None:
        yield
        return
    group = f"neve-{uuid4()}"
    context.setJobGroup(group, "neve")
    done = threading.Event()
    raised: list[Exception] = []

    def watch() -> None:
        tracker = context.statusTracker()
        while not done.wait(POLL_SECONDS):
            if not raised:
                try:
                    progress(min(_finished(tracker, group), total), total)
                except Exception as error:
                    raised.append(error)
            if raised:  # until it has ended: only what Spark has begun can be cancelled
                context.cancelJobGroup(group)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except Exception as error:
        if raised:
            raise raised[0] from error
        raise
    finally:
        done.set()
        watcher.join()
        context.setLocalProperty("spark.jobGroup.id", None)
    if raised:
        raise raised[0]
    progress(total, total)


def _finished(tracker: StatusTracker, group: str) -> int:
    """How many tasks of a group of jobs are done."""
    jobs = [tracker.getJobInfo(job_id) for job_id in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)
