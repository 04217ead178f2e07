"""A lake with work in every state, for those who look at it and those who change it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from neve.app.control import Control, open_control
from neve.app.settings import Settings
from neve.errors import LakeError
from neve.jobs.job import Job, Progress, Task
from neve.jobs.queue import JobQueue
from neve.jobs.status_board import PartStatus, StatusBoard
from neve.jobs.transitions import Retry
from tests.query.lakes import make_lake, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.state.documents import Documents

LONG = 3600.0


def control_settings(folder: Path) -> Settings:
    """Everything in one folder."""
    return Settings.model_validate(
        {
            **settings_of(folder),
            "organization": "acme",
            "state": {"path": str(folder / "state.db")},
            "raw": {"location": str(folder / "raw"), "min_free_bytes": 0},
        }
    )


@contextmanager
def controlled(folder: Path) -> Iterator[Control]:
    """The control of a small lake."""
    with open_control(control_settings(folder), make_lake(folder)) as control:
        yield control


def running_job(documents: Documents, table: str = "spans") -> Job:
    """A job that a worker is at, three of eight groups far."""
    jobs = JobQueue(documents)
    job = _claimed(jobs, Task.COMPACT, table)
    return jobs.renew(job, LONG, Progress("groups", 3, 8))


def done_job(documents: Documents, task: Task = Task.ROLLUP, table: str = "metrics_1m") -> Job:
    """A job that came to its end."""
    jobs = JobQueue(documents)
    return jobs.finish(_claimed(jobs, task, table), "12 rows in 3 windows", {"rows": 12})


def dead_job(documents: Documents, table: str = "logs") -> Job:
    """A job whose every attempt failed."""
    jobs = JobQueue(documents, retry=Retry(attempts=1))
    job = _claimed(jobs, Task.SEARCH, table)
    return jobs.fail(job, LakeError("the index \x1b[2Jcan't be read", hint="remove it"))


def some_parts(documents: Documents) -> None:
    """What two parts said of themselves."""
    board = StatusBoard(documents, "host:1", "tend")
    now = documents.now()
    board.report(PartStatus(name="ingest:raw", state="running", since=now, details={"lag_seconds": 1.25}))
    board.report(PartStatus(name="tail", state="failed", since=now, restarts=3, error="no policies"))


def _claimed(jobs: JobQueue, task: Task, table: str) -> Job:
    wanted = jobs.request(task, table, reason="14 files of 3.1 MB")
    found = jobs.claim("host:7:1", [task], LONG, allowed=lambda job: None if job.id == wanted.id else "another one")
    assert found is not None
    return found
