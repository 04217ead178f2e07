"""What the shared state tells of the work: whether anything was done by two at a time, or given up."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from neve.jobs.job import JobState
from neve.jobs.queue import JobQueue
from neve.model.commits import BATCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from neve.jobs.job import Job
    from neve.lake.lake import Lake
    from neve.state.documents import Documents


def work_troubles(documents: Documents, lake: Lake) -> list[str]:
    """What should not have happened."""
    jobs = JobQueue(documents).list()
    dead = [f"job {job.id} ({job.subject}) was given up: {job.error}" for job in jobs if job.state is JobState.DEAD]
    return [*dead, *overlaps(jobs), *repeated_commits(lake)]


def overlaps(jobs: Iterable[Job]) -> list[str]:
    """Jobs of one subject that two workers were at, at one time."""
    by_subject: dict[str, list[tuple[datetime, datetime, Job]]] = defaultdict(list)
    for job in jobs:
        if job.started is not None and job.ended is not None:
            by_subject[job.subject].append((job.started, job.ended, job))
    troubles = []
    for subject, spans in by_subject.items():
        for (_, end, before), (start, _, after) in pairwise(sorted(spans, key=lambda span: span[0])):
            if start < end:
                troubles.append(f"{subject} was worked on by {before.owner} and {after.owner} at one time")
    return troubles


def repeated_commits(lake: Lake) -> list[str]:
    """Batches that were committed more than once to one table."""
    troubles = []
    for name in lake.table_names():
        seen: set[str] = set()
        for snapshot in lake.table(name).metadata.snapshots:
            batch = snapshot.summary.additional_properties.get(BATCH_ID) if snapshot.summary else None
            if batch in seen:
                troubles.append(f"{name} has the batch {batch} twice")
            if batch is not None:
                seen.add(batch)
    return troubles
