"""What work says of itself to Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from neve.work.job import JobState
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from neve.work.box import Box
    from neve.work.job import Job
    from neve.work.jobs import Jobs

STANDING = (JobState.QUEUED, JobState.RUNNING, JobState.DEAD)
BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
ATTEMPTS = Counter("neve_work_attempts", "runs of jobs by the state that the job was left in", ["task", "state"])
JOB_SECONDS = Histogram("neve_work_job_seconds", "from the start of a run to its end", ["task"], buckets=BUCKETS)
JOBS = Gauge("neve_work_jobs", "jobs that wait, that run, and that wait for a person", ["task", "state"])
QUEUE = Gauge("neve_work_queue_depth", "jobs that are due and that no worker has", ["task"])
OLDEST = Gauge("neve_work_oldest_queued_seconds", "how long the job that is due longest has been so", ["task"])
BOXES = Gauge("neve_work_boxes", "tables and windows of which announcements are gathered", ["task"])
BOXED = Gauge("neve_work_boxed_bytes", "bytes that were announced and that no job is about yet", ["task"])
BEHIND = Gauge("neve_work_announcements_behind", "announcements that were not gathered yet", ["topic"])
ANNOUNCED = Counter("neve_work_announcements", "announcements by what became of them", ["outcome"])


def count_attempt(job: Job, seconds: float) -> None:
    """A worker is through with a job, for now or for ever."""
    ATTEMPTS.labels(job.task.value, job.state.value).inc()
    JOB_SECONDS.labels(job.task.value).observe(seconds)


def watch_queue(jobs: Jobs) -> None:
    """Look at the jobs that wait, that run, and that are dead."""
    now = jobs.now()
    tally: Tally[tuple[Task, JobState]] = Tally()
    waiting: dict[Task, list[float]] = {task: [] for task in Task}
    for job in jobs.list(states=STANDING):
        tally[job.task, job.state] += 1
        if job.state is JobState.QUEUED and job.not_before <= now:
            waiting[job.task].append((now - job.not_before).total_seconds())
    for task in Task:
        for state in STANDING:
            JOBS.labels(task.value, state.value).set(tally[task, state])
        QUEUE.labels(task.value).set(len(waiting[task]))
        OLDEST.labels(task.value).set(max(waiting[task], default=0))


def count_boxes(boxes: Collection[Box]) -> None:
    """These boxes are open."""
    for task in Task:
        mine = [box for box in boxes if box.task is task]
        BOXES.labels(task.value).set(len(mine))
        BOXED.labels(task.value).set(sum(box.bytes for box in mine))


def watch_bus(behind: Mapping[str, int]) -> None:
    """So many announcements of each topic wait to be gathered."""
    for topic, count in behind.items():
        BEHIND.labels(topic).set(count)


def forget_queue() -> None:
    """Another one leads: what this process saw last is not how things are."""
    for gauge in (JOBS, QUEUE, OLDEST, BOXES, BOXED, BEHIND):
        gauge.clear()
