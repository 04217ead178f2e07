"""The part that watches the executors of a Spark cluster."""

from __future__ import annotations

import threading

import pytest

from neve.app.serve.part import find_problem
from neve.app.serve.parts.executors import PATIENCE_SECONDS, ExecutorCounts, ExecutorsPart, count_executors


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock at zero."""
    return Clock()


def test_jobs_without_an_executor_are_a_problem_after_some_seconds(clock: Clock) -> None:
    """A cluster needs some time to start an executor. The problem ends with the first one."""
    found = ExecutorCounts(0, 2)
    part = ExecutorsPart(lambda: found, clock)
    assert not find_problem("running", part.look())
    clock.now = PATIENCE_SECONDS - 0.1
    assert not find_problem("running", part.look())
    clock.now = PATIENCE_SECONDS + 5
    problem = find_problem("running", part.look())
    assert "no executor for 15 s" in problem
    assert "spark.cores.max" in problem
    found = ExecutorCounts(1, 2)
    assert part.look() == {"executors": 1, "jobs": 2}
    found = ExecutorCounts(0, 2)
    clock.now += 1
    assert not find_problem("running", part.look())


@pytest.mark.parametrize("between", [None, ExecutorCounts(0, 0), ExecutorCounts(2, 0)])
def test_without_jobs_nothing_waits(clock: Clock, between: ExecutorCounts | None) -> None:
    """Dynamic allocation ends executors of an application that has nothing to do."""
    found: ExecutorCounts | None = ExecutorCounts(0, 1)
    part = ExecutorsPart(lambda: found, clock)
    part.look()
    found = between
    clock.now = 100.0
    assert not find_problem("running", part.look())
    found = ExecutorCounts(0, 1)
    assert not find_problem("running", part.look())


def test_it_reports_until_it_is_asked_to_stop() -> None:
    """The first report makes it a running part."""
    stop, reports = threading.Event(), []

    def report(details: object) -> None:
        reports.append(details)
        stop.set()

    ExecutorsPart(lambda: None).run(stop, report)
    assert reports == [{"idle": "Spark is not running"}]


@pytest.mark.spark
def test_a_local_spark_has_no_executors(spark: object) -> None:
    """Its driver runs the tasks. The numbers are those that a cluster has."""
    assert spark is not None
    assert count_executors() == ExecutorCounts(0, 0)
