"""Run Arrow tasks on Spark: Spark distributes and retries them, and a task processes whole files in Arrow.

Only descriptions go through the JVM in both directions: the input of a task, and the files that it wrote.
"""

from __future__ import annotations

import sys
import threading
import zipimport
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

import pyarrow as pa

from neve.lake.storage.call_counters import pack_result, unpack_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark import StatusTracker
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

TASKS_PER_CORE = 4
POLL_SECONDS = 0.2
RELEASE_ABOVE_BYTES = 256 * 1024 * 1024


def drop_zip_importers() -> None:
    """Keep Spark from reading its own archives again for the next task of this worker.

    Before each task Spark invalidates all importers, and those of zip files and jars read their directories again,
    which takes a tenth of a second. New importers use the directories that Python has cached.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def use_jemalloc() -> None:
    """Let Arrow retain freed memory.

    A task allocates as much again, and page faults cost a fifth of its time.
    """
    with suppress(NotImplementedError):  # a build without jemalloc
        pa.set_memory_pool(pa.jemalloc_memory_pool())


def release_memory() -> None:
    """Release the retained memory after a large task.

    The next one of this worker may be small, or there may be none.
    """
    pool = pa.default_memory_pool()
    if pool.max_memory() > RELEASE_ABOVE_BYTES:
        pool.release_unused()


def find_parallelism(spark: SparkSession) -> int:
    """Return the number of tasks that run at once. Spark Connect does not report it, so a small number is assumed."""
    context = getattr(spark, "_sc", None)
    return int(context.defaultParallelism) if context is not None else 8


def count_slices(spark: SparkSession) -> int:
    """Return the number of Spark tasks for many short ones: some per core, so that they end at about the same time."""
    return TASKS_PER_CORE * find_parallelism(spark)


def run_tasks(
    spark: SparkSession,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Callable[[int, int], None] | None = None,
    slices: int | None = None,
) -> list[Result]:
    """Run the work for every task on Spark, and return the results in the order of the tasks.

    Tasks that are shorter than Spark's overhead to start one (a fifth of a CPU second) are grouped into `slices`.
    """
    if not tasks:
        return []

    def on_worker(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield pa.RecordBatch.from_pydict({"task": [index], "result": [pack_result(work(tasks[index]))]})
        drop_zip_importers()

    indices = spark.range(0, len(tasks), 1, min(slices or len(tasks), len(tasks)))
    with report_progress(spark, len(tasks), progress):
        rows = indices.mapInArrow(on_worker, "task long, result binary").collect()
    return [unpack_result(row.result) for row in sorted(rows, key=lambda row: int(row.task))]


@contextmanager
def report_progress(spark: SparkSession, total: int, progress: Callable[[int, int], None] | None) -> Iterator[None]:
    """Report the number of finished tasks while a job runs.

    An error of `progress` cancels the job and is raised here.
    """
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
                    progress(min(_count_finished(tracker, group), total), total)
                except Exception as error:
                    raised.append(error)
            if raised:  # repeat until the job has ended: Spark cancels only jobs that have started
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


def _count_finished(tracker: StatusTracker, group: str) -> int:
    """Return the number of finished tasks of a job group."""
    jobs = [tracker.getJobInfo(job_id) for job_id in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numCompletedTasks for stage in stages if stage)
