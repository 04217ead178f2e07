"""How the lake and those who tend it are, now: from the state store and from metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.app.reports import (
    JobReport,
    PauseReport,
    QueryUsageReport,
    QueueReport,
    ServePartReport,
    StatusReport,
)
from neve.query.usage import bytes_of_day
from neve.work.job import JobState
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from neve.app.reports import LagsReport
    from neve.lake.documents import Documents
    from neve.work.board import Board
    from neve.work.job import Job
    from neve.work.jobs import Jobs
    from neve.work.pauses import Pauses

MOST_RUNNING = 50
MOST_ENDED = 10
MOST_LOOKED_AT = 100  # they come by the time at which they were wanted, and one may have taken long
MOST_DEAD = 20
MOST_USAGE = 20


@dataclass(frozen=True)
class Statuses:
    """Looks at one lake; `lags` are dearer than the rest, and may be a few seconds old."""

    documents: Documents
    board: Board
    jobs: Jobs
    pauses: Pauses
    lags: Callable[[], LagsReport]

    def look(self) -> StatusReport:
        """All of it."""
        now = self.documents.now()
        waiting = self.jobs.list(states=(JobState.QUEUED, JobState.RUNNING, JobState.DEAD))
        ended = self.jobs.list(states=(JobState.DONE, JobState.CANCELLED), limit=MOST_LOOKED_AT)
        ended.sort(key=lambda job: job.ended or job.created, reverse=True)
        running = [job for job in waiting if job.state is JobState.RUNNING]
        dead = [job for job in waiting if job.state is JobState.DEAD]
        return StatusReport(
            at=now,
            parts=[ServePartReport.model_validate(part) for part in self.board.all()],
            queues=[queue_of(task, waiting, now) for task in Task],
            running=_reports(running[:MOST_RUNNING]),
            ended=_reports(ended[:MOST_ENDED]),
            dead=_reports(dead[:MOST_DEAD]),
            pauses=[PauseReport.model_validate(pause) for pause in self.pauses.list()],
            lags=self.lags(),
            query_usage=[
                QueryUsageReport(organization=organization, bytes=read)
                for organization, read in bytes_of_day(self.documents, now)[:MOST_USAGE]
            ],
        )


def queue_of(task: Task, jobs: Sequence[Job], now: datetime) -> QueueReport:
    """The jobs of a task, counted."""
    mine = [job for job in jobs if job.task is task]
    queued = [job for job in mine if job.state is JobState.QUEUED]
    waits = [(now - job.not_before).total_seconds() for job in queued]
    return QueueReport(
        task=task.value,
        queued=len(queued),
        running=sum(job.state is JobState.RUNNING for job in mine),
        dead=sum(job.state is JobState.DEAD for job in mine),
        oldest_seconds=max(0.0, *waits) if waits else None,
    )


def _reports(jobs: Sequence[Job]) -> list[JobReport]:
    return [JobReport.model_validate(job) for job in jobs]
