"""Jobs that have ended, the latest first: those that are done with, and those that wait for a person."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from neve.work.dead_jobs import DeadJobs
from neve.work.job import Job, JobState
from neve.work.job_document import Record
from neve.work.job_id import backwards, is_id
from neve.work.legible import legible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import datetime

    from neve.lake.documents import Documents

SPACE = "jobs"
# The dead are apart, so that the few that matter are found without reading the many that do not.
ENDED = "ended/"
COUNTS_FRESH = timedelta(seconds=60)  # to count what is done with, all of it is read


class History:
    """The jobs of a store that have ended."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._dead = DeadJobs(documents, SPACE)
        self._counted: tuple[datetime, Counter[JobState]] | None = None

    def keep(self, job: Job) -> None:
        """Keep a job that has ended, in the place of what it had come to before it was replayed."""
        if job.state is JobState.DEAD:
            self._dead.keep(job)
            self._documents.delete(SPACE, _key(job.id))
        else:
            self._documents.put(SPACE, _key(job.id), Record(job).document)
            self._dead.forget(job)

    def find(self, job_id: str) -> Job | None:
        """A job by its id, or none."""
        if not is_id(job_id):
            return None
        document = self._documents.get(SPACE, _key(job_id))
        if document is not None:
            record = legible(Record.of, document)
            return record.job if record else None
        return next((job for job in self._dead.all() if job.id == job_id), None)

    def dead(self, subject: str) -> Job | None:
        """The job of a subject that waits for a person, if there is one."""
        return self._dead.of(subject)

    def forget(self, job: Job) -> None:
        """Forget a job, unless it has come to another end since."""
        if job.state is JobState.DEAD:
            self._dead.forget(job)
            return
        document = self._documents.get(SPACE, _key(job.id))
        record = None if document is None else legible(Record.of, document)
        if document is not None and record is not None and record.job == job:
            self._documents.swap(SPACE, _key(job.id), document, None)

    def jobs(self, states: Collection[JobState]) -> list[Iterator[Job]]:
        """The places where jobs of such states are; that of the many is read only as far as it is looked at."""
        dead = [iter(self._dead.all())] if JobState.DEAD in states else []
        ended = [self._ended()] if {JobState.DONE, JobState.CANCELLED}.intersection(states) else []
        return [*dead, *ended]

    def counts(self, now: datetime) -> Counter[JobState]:
        """How many there are in each state: the dead now, the others a while ago."""
        if self._counted is None or now - self._counted[0] >= COUNTS_FRESH:
            every = self._documents.entries(SPACE, ENDED)
            states = (legible(_state, document) for _key, document in every)
            self._counted = now, Counter(state for state in states if state is not None)
        return self._counted[1] + Counter({JobState.DEAD: len(self._dead.all())})

    def prune(self, before: datetime, most: int) -> int:
        """Forget what was done with before a time, and all but the latest of it; how many jobs that were."""
        gone = [
            job
            for number, job in enumerate(self._ended())
            if number >= most or (job.ended is not None and job.ended < before)
        ]
        for job in gone:
            self.forget(job)
        return len(gone)

    def _ended(self) -> Iterator[Job]:
        for _key, document in self._documents.entries(SPACE, ENDED):
            record = legible(Record.of, document)
            if record is not None:
                yield record.job


def _state(document: Mapping[str, Any]) -> JobState:
    return JobState(document["state"])


def _key(job_id: str) -> str:
    return f"{ENDED}{backwards(job_id)}"
