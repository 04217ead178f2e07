"""Jobs of Spark that are watched: whoever hears how far they are can end them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import Cancelled
from neve.lake.spark import tasks
from neve.lake.spark.tasks import report_progress, run_tasks

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PATIENCE = 600.0


@dataclass
class Context:
    """As much of Spark's context as watching needs; `asked` is how often it takes until a job hears a cancel."""

    asked: int = 1
    cancelled: list[str] = field(default_factory=list)
    properties: dict[str, str | None] = field(default_factory=dict)
    heard: threading.Event = field(default_factory=threading.Event)

    def setJobGroup(self, group: str, _description: str) -> None:  # noqa: N802 - Spark's name
        """Jobs of this thread belong to a group."""
        self.setLocalProperty("spark.jobGroup.id", group)

    def setLocalProperty(self, key: str, value: str | None) -> None:  # noqa: N802
        """Say something about the jobs of this thread."""
        self.properties[key] = value

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        """End what the group has begun."""
        self.cancelled.append(group)
        if len(self.cancelled) >= self.asked:
            self.heard.set()

    def statusTracker(self) -> SimpleNamespace:  # noqa: N802
        """Two jobs, of which one has a stage with three tasks done."""
        return SimpleNamespace(
            getJobIdsForGroup=lambda _group: [1, 2],
            getJobInfo=lambda job: SimpleNamespace(stageIds=[7, 8]) if job == 1 else None,
            getStageInfo=lambda stage: SimpleNamespace(numCompletedTasks=3) if stage == 7 else None,
        )


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked at often."""
    monkeypatch.setattr(tasks, "POLL_SECONDS", 0.01)


def spark_with(context: Context) -> Any:
    """A session of that context."""
    return SimpleNamespace(_sc=context)


def given_up(done: int, total: int) -> None:
    """What hears how far it is, and wants no more of it."""
    if done < total:
        raise Cancelled(f"at {done} of {total}")


def run_until_cancelled(context: Context) -> None:
    """A job as Spark runs it."""
    assert context.heard.wait(PATIENCE)
    raise RuntimeError("the job was cancelled")


def test_how_far_a_job_is_is_told() -> None:
    """While it runs, and at its end that all is done."""
    told: list[tuple[int, int]] = []
    heard = threading.Event()

    def tell(done: int, total: int) -> None:
        told.append((done, total))
        heard.set()

    with report_progress(spark_with(Context()), 5, tell):
        assert heard.wait(PATIENCE)
    assert (told[0], told[-1]) == ((3, 5), (5, 5))


@pytest.mark.parametrize("asked", [1, 3])
def test_a_job_that_is_cancelled_ends_and_says_why(asked: int) -> None:
    """Also where Spark had not begun it yet; the error of the job itself is only the cause."""
    context = Context(asked)
    with pytest.raises(Cancelled, match="at 3 of 5") as raised, report_progress(spark_with(context), 5, given_up):
        run_until_cancelled(context)
    assert str(raised.value.__cause__) == "the job was cancelled"
    assert len(set(context.cancelled)) == 1
    assert context.properties["spark.jobGroup.id"] is None


def test_a_job_that_ended_before_it_heard_is_given_up_all_the_same() -> None:
    """Nobody wants what it made."""
    context = Context()
    with pytest.raises(Cancelled), report_progress(spark_with(context), 5, given_up):
        assert context.heard.wait(PATIENCE)


def test_a_job_that_fails_by_itself_says_so() -> None:
    """Nothing is cancelled."""
    context = Context()
    with (
        pytest.raises(RuntimeError, match="no room"),
        report_progress(spark_with(context), 5, lambda _done, _total: None),
    ):
        raise RuntimeError("no room")
    assert context.cancelled == []


def test_tasks_on_spark_end_when_they_are_cancelled(spark: SparkSession, tmp_path: Path) -> None:
    """Long before they are done."""
    done = tmp_path / "done"

    def work(seconds: float) -> None:
        time.sleep(seconds)
        done.touch()

    with pytest.raises(Cancelled, match="at 0 of 2"):
        run_tasks(spark, work, [PATIENCE, PATIENCE], given_up)
    assert not done.exists()
