"""Prometheus metrics of jobs, queues, pending batches and announcements."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from neve.jobs.job import JobState, Task

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from neve.jobs.batcher import PendingBatch
    from neve.jobs.job import Job
    from neve.jobs.queue import JobQueue

WATCHED_STATES = (JobState.QUEUED, JobState.RUNNING, JobState.DEAD)
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
ATTEMPTS = Counter("neve_work_attempts", "attempts of jobs, by the resulting state", ["task", "state"])
JOB_SECONDS = Histogram("neve_work_job_seconds", "duration of an attempt", ["task"], buckets=BUCKETS)
JOBS = Gauge("neve_work_jobs", "queued, running and dead jobs", ["task", "state"])
QUEUE = Gauge("neve_work_queue_depth", "due jobs that no worker has claimed", ["task"])
OLDEST = Gauge("neve_work_oldest_queued_seconds", "age of the oldest due job", ["task"])
PENDING_BATCHES = Gauge("neve_work_boxes", "pending batches of announcements", ["task"])
PENDING_BYTES = Gauge("neve_work_boxed_bytes", "announced bytes in pending batches", ["task"])
BUS_LAG = Gauge("neve_work_announcements_behind", "unread announcements", ["topic"])
ANNOUNCED = Counter("neve_work_announcements", "announcements, by outcome", ["outcome"])


def count_attempt(job: Job, seconds: float) -> None:
    """Count an attempt of a worker, whatever its outcome."""
    ATTEMPTS.labels(job.task.value, job.state.value).inc()
    JOB_SECONDS.labels(job.task.value).observe(seconds)


def update_queue(jobs: JobQueue) -> None:
    """Update the metrics of queued, running and dead jobs."""
    now = jobs.now()
    tally: Tally[tuple[Task, JobState]] = Tally()
    waiting: dict[Task, list[float]] = {task: [] for task in Task}
    for job in jobs.list(states=WATCHED_STATES):
        tally[job.task, job.state] += 1
        if job.state is JobState.QUEUED and job.not_before <= now:
            waiting[job.task].append((now - job.not_before).total_seconds())
    for task in Task:
        for state in WATCHED_STATES:
            JOBS.labels(task.value, state.value).set(tally[task, state])
        QUEUE.labels(task.value).set(len(waiting[task]))
        OLDEST.labels(task.value).set(max(waiting[task], default=0))


def update_pending(batches: Collection[PendingBatch]) -> None:
    """Update the metrics of pending batches."""
    for task in Task:
        mine = [pending for pending in batches if pending.task is task]
        PENDING_BATCHES.labels(task.value).set(len(mine))
        PENDING_BYTES.labels(task.value).set(sum(pending.bytes for pending in mine))


def update_bus_lag(behind: Mapping[str, int]) -> None:
    """Update the number of unread announcements of each topic."""
    for topic, count in behind.items():
        BUS_LAG.labels(topic).set(count)


def clear_queue() -> None:
    """Remove the metrics of the queue, because another process leads and these values are out of date."""
    for gauge in (JOBS, QUEUE, OLDEST, PENDING_BATCHES, PENDING_BYTES, BUS_LAG):
        gauge.clear()
