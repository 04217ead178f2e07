"""Ended jobs, the latest first: done and cancelled jobs, and dead jobs, which wait for an operator.

Of each subject only the latest dead job is stored, with the number of deaths before it.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.jobs import transitions as changes
from neve.jobs.job import Job, JobState
from neve.jobs.record import JobRecord, decode_or_skip, is_id, reverse_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from neve.state.documents import Documents


DEAD = "dead/"


class DeadJobs:
    """The dead jobs of a store.

    There is at most one for each subject, however often it dies, so that all of them are kept.
    """

    def __init__(self, documents: Documents, space: str) -> None:
        self._documents = documents
        self._space = space

    def keep(self, job: Job) -> None:
        """Store a dead job in place of the previous one of its subject; a late mover changes nothing."""
        while True:
            document = self._documents.get(self._space, DEAD + job.subject)
            known = None if document is None else _decode_job(document)
            if known is not None and _has_died_after(known, job):
                return
            dead = JobRecord(changes.count_death(job, known)).document
            if self._documents.swap(self._space, DEAD + job.subject, document, dead):
                return

    def of(self, subject: str) -> Job | None:
        """Return the dead job of a subject, if there is one."""
        document = self._documents.get(self._space, DEAD + subject)
        return None if document is None else _decode_job(document)

    def all(self) -> list[Job]:
        """Return all dead jobs, the newest first."""
        every = (_decode_job(document) for _key, document in self._documents.entries(self._space, DEAD))
        return sorted((job for job in every if job is not None), key=lambda job: job.id, reverse=True)

    def forget(self, job: Job) -> None:
        """Delete a job, unless it, or another one of its subject, died since."""
        document = self._documents.get(self._space, DEAD + job.subject)
        if document is None:
            return
        known = _decode_job(document)
        if known is not None and known.id == job.id and not _has_died_after(known, job):
            self._documents.swap(self._space, DEAD + job.subject, document, None)


def _decode_job(document: dict[str, object]) -> Job | None:
    record = decode_or_skip(JobRecord.of, document)
    return record.job if record else None


def _has_died_after(known: Job, job: Job) -> bool:
    return known.ended is not None and job.ended is not None and known.ended > job.ended


SPACE = "jobs"
# Dead jobs are stored separately, so that the few that matter are found without reading the many that do not.
ENDED = "ended/"
COUNTS_TTL = timedelta(seconds=60)  # to count ended jobs, all of them are read


class JobHistory:
    """The ended jobs of a store."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._dead = DeadJobs(documents, SPACE)
        self._counted: tuple[datetime, Counter[JobState]] | None = None

    def keep(self, job: Job) -> None:
        """Store an ended job, in place of its outcome before a replay."""
        if job.state is JobState.DEAD:
            self._dead.keep(job)
            self._documents.delete(SPACE, _history_key(job.id))
        else:
            self._documents.put(SPACE, _history_key(job.id), JobRecord(job).document)
            self._dead.forget(job)

    def find(self, job_id: str) -> Job | None:
        """Return a job by its id, or none."""
        if not is_id(job_id):
            return None
        document = self._documents.get(SPACE, _history_key(job_id))
        if document is not None:
            record = decode_or_skip(JobRecord.of, document)
            return record.job if record else None
        return next((job for job in self._dead.all() if job.id == job_id), None)

    def dead(self, subject: str) -> Job | None:
        """Return the dead job of a subject, which waits for an operator, if there is one."""
        return self._dead.of(subject)

    def forget(self, job: Job) -> None:
        """Delete a job, unless it has ended again since."""
        if job.state is JobState.DEAD:
            self._dead.forget(job)
            return
        document = self._documents.get(SPACE, _history_key(job.id))
        record = None if document is None else decode_or_skip(JobRecord.of, document)
        if document is not None and record is not None and record.job == job:
            self._documents.swap(SPACE, _history_key(job.id), document, None)

    def jobs(self, states: Collection[JobState]) -> list[Iterator[Job]]:
        """Return iterators over the jobs of these states; that of the many is read lazily."""
        dead = [iter(self._dead.all())] if JobState.DEAD in states else []
        ended = [self._read_ended()] if {JobState.DONE, JobState.CANCELLED}.intersection(states) else []
        return [*dead, *ended]

    def counts(self, now: datetime) -> Counter[JobState]:
        """Return the number of jobs in each state: dead jobs as of now, the others from a cache."""
        if self._counted is None or now - self._counted[0] >= COUNTS_TTL:
            every = self._documents.entries(SPACE, ENDED)
            states = (decode_or_skip(_decode_state, document) for _key, document in every)
            self._counted = now, Counter(state for state in states if state is not None)
        return self._counted[1] + Counter({JobState.DEAD: len(self._dead.all())})

    def prune(self, before: datetime, most: int) -> int:
        """Delete jobs that ended before a time, and all but the latest ones; return the number of deleted jobs."""
        gone = [
            job
            for number, job in enumerate(self._read_ended())
            if number >= most or (job.ended is not None and job.ended < before)
        ]
        for job in gone:
            self.forget(job)
        return len(gone)

    def _read_ended(self) -> Iterator[Job]:
        for _key, document in self._documents.entries(SPACE, ENDED):
            record = decode_or_skip(JobRecord.of, document)
            if record is not None:
                yield record.job


def _decode_state(document: Mapping[str, Any]) -> JobState:
    return JobState(document["state"])


def _history_key(job_id: str) -> str:
    return f"{ENDED}{reverse_id(job_id)}"
