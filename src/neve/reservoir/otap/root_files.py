"""Root files of a source folder: scan one for the windows and ids of its records, and run such tasks on Spark.

Windows follow from the times of records alone. Errors of tasks reach the user as they were raised, without Spark's
stack traces. This module is imported by Spark's workers, so it loads little.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.errors import NeveError
from neve.lake.spark.tasks import run_tasks
from neve.otap.parquet import open_location
from neve.otap.part_reader import extract_ids
from neve.otap.star_rows import NONE
from neve.otap.tables import STARS
from neve.reservoir.windows import NANOS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt
    from pyspark.sql import SparkSession

    from neve.lake.config import S3Config
    from neve.otap.folder import OtapFile


Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ErrorCapture(Generic[Task, Result]):
    """Function that returns errors for the user instead of raising them inside of a Spark task."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result | NeveError:
        """Run the function."""
        try:
            return self.work(task)
        except NeveError as error:
            return error


def run_reporting_tasks(
    spark: SparkSession,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Callable[[int, int], None],
    slices: int | None = None,
) -> list[Result]:
    """Run the function for every task.

    If tasks failed, the error of the first one, in their order, is raised here.
    """
    results = []
    for result in run_tasks(spark, ErrorCapture(work), tasks, progress, slices):
        if isinstance(result, NeveError):
            raise result
        results.append(result)
    return results


BATCH_ROWS = 256 * 1024
WITHOUT_ID = 1 << 40  # records without an id get a negative one: their place in the file plus this for each file before


@dataclass(frozen=True)
class RootFile:
    """A root file: its records by window (by the window's start), and its ids.

    `ids` are the smallest and the largest id, `twice` is an id that two of its records have.
    """

    path: str
    part: str
    size: int
    modified_ms: int
    windows: tuple[tuple[int, int], ...] = ()
    without_id: int = 0
    ids: tuple[int, int] | None = None
    twice: int | None = None

    @property
    def identity(self) -> tuple[str, int, int]:
        """Identity of a file, which distinguishes it from a file that replaced it."""
        return self.path, self.size, self.modified_ms


def scheme_of(uri: str) -> str:
    """Return the prefix of paths in a file system that is not the local one.

    >>> scheme_of("s3://bucket/otap"), scheme_of("/data/otap")
    ('s3://', '')
    """
    scheme, colon, _rest = uri.partition("://")
    return scheme + colon if colon and scheme != "file" else ""


def time_columns(signal: str) -> tuple[str, ...]:
    """Return the columns with the time of a record: the first that is not 0 counts."""
    first = STARS[signal].time_column
    return (first, "observed_time_unix_nano") if signal == "logs" else (first,)


def scan_root_file(file: OtapFile, seconds: int, s3: S3Config) -> RootFile:
    """Scan the times and the ids of a file's records."""
    counts: dict[int, int] = {}
    found = [np.zeros(0, np.int64)]
    with open_location(file.path, s3) as parquet:
        wanted = [name for name in ("id", *time_columns(file.table)) if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(BATCH_ROWS, columns=wanted, use_threads=False):
            starts, numbers = np.unique(_starts(batch, file.table, seconds), return_counts=True)
            for start, number in zip(starts.tolist(), numbers.tolist(), strict=True):
                counts[start] = counts.get(start, 0) + number
            found.append(extract_ids(pa.table(batch))[0])
    given = np.concatenate(found)
    ids = np.sort(given[given != NONE])
    again = ids[1:][ids[1:] == ids[:-1]]
    return RootFile(
        path=file.path,
        part=file.part,
        size=file.size,
        modified_ms=file.modified_ms,
        windows=tuple(sorted(counts.items())),
        without_id=len(given) - len(ids),
        ids=(int(ids[0]), int(ids[-1])) if len(ids) else None,
        twice=int(again[0]) if len(again) else None,
    )


def times_of(rows: pa.RecordBatch | pa.Table, signal: str) -> npt.NDArray[np.int64]:
    """Return the time of every record, in nanoseconds since 1970."""
    names = [name for name in time_columns(signal) if name in rows.schema.names]
    times = np.zeros(rows.num_rows, np.int64)
    for name in names:
        times = np.where(times == 0, np.asarray(pc.fill_null(_nanos(rows.column(name)), 0)), times)
    return times


def _starts(batch: pa.RecordBatch, signal: str, seconds: int) -> npt.NDArray[np.int64]:
    length = seconds * NANOS
    return times_of(batch, signal) // length * length


def _nanos(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column if pa.types.is_integer(column.type) else column.cast(pa.int64())
