"""Whose turn it is among the jobs that wait: values in, values out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from neve.work.job import JobState

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from neve.work.job import Job
    from neve.work.task import Task

# What a task may be late by, for each task that goes before it: so nothing waits for ever behind what is more urgent.
LIFT = timedelta(minutes=10)


def turn(job: Job) -> tuple[datetime, str]:
    """The smallest comes first: by urgency, until one has been due for so long that it is as urgent as the others."""
    return job.not_before + job.task.rank * LIFT, job.id


def place(job: Job) -> tuple[Task, str]:
    """What only one job at a time can work on: the windows of a table share the lease of its task."""
    return job.task, job.table


def busy(jobs: Iterable[Job], now: datetime) -> set[tuple[Task, str]]:
    """Where a worker is at it, and was heard of in time."""
    return {place(job) for job in jobs if job.state is JobState.RUNNING and job.until is not None and job.until > now}
