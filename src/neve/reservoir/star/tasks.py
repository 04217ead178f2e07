"""Work on Spark whose errors reach the user as they were raised, without what Spark says around them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from neve.errors import NeveError
from neve.lake.lane import run_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Outspoken(Generic[Task, Result]):
    """Work that gives back what a user can act on, instead of raising it where nobody reads it."""

    work: Callable[[Task], Result]

    def __call__(self, task: Task) -> Result | NeveError:
        """Do the work."""
        try:
            return self.work(task)
        except NeveError as error:
            return error


def run_told(
    spark: SparkSession,
    work: Callable[[Task], Result],
    tasks: Sequence[Task],
    progress: Callable[[int, int], None],
    slices: int | None = None,
) -> list[Result]:
    """Do the work for every task; the first task that failed, in their order, raises its error here."""
    results = []
    for result in run_tasks(spark, Outspoken(work), tasks, progress, slices):
        if isinstance(result, NeveError):
            raise result
        results.append(result)
    return results
