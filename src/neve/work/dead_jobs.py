"""The jobs that wait for a person: of each subject the latest one, which tells of those before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.work import job_changes as changes
from neve.work.job_document import Record
from neve.work.legible import legible

if TYPE_CHECKING:
    from neve.lake.documents import Documents
    from neve.work.job import Job

DEAD = "dead/"


class DeadJobs:
    """The dead jobs of a store: as many as there are subjects, however often each of them dies, so they all stay."""

    def __init__(self, documents: Documents, space: str) -> None:
        self._documents = documents
        self._space = space

    def keep(self, job: Job) -> None:
        """Keep a job that has died in the place of the one before it; a mover who comes late changes nothing."""
        while True:
            document = self._documents.get(self._space, DEAD + job.subject)
            known = None if document is None else _read(document)
            if known is not None and _died_after(known, job):
                return
            kept = Record(changes.died_again(job, known)).document
            if self._documents.swap(self._space, DEAD + job.subject, document, kept):
                return

    def of(self, subject: str) -> Job | None:
        """The dead job of a subject, if there is one."""
        document = self._documents.get(self._space, DEAD + subject)
        return None if document is None else _read(document)

    def all(self) -> list[Job]:
        """All of them, the newest first."""
        every = (_read(document) for _key, document in self._documents.entries(self._space, DEAD))
        return sorted((job for job in every if job is not None), key=lambda job: job.id, reverse=True)

    def forget(self, job: Job) -> None:
        """Forget a job, unless it, or another one of its subject, died since."""
        document = self._documents.get(self._space, DEAD + job.subject)
        if document is None:
            return
        known = _read(document)
        if known is not None and known.id == job.id and not _died_after(known, job):
            self._documents.swap(self._space, DEAD + job.subject, document, None)


def _read(document: dict[str, object]) -> Job | None:
    record = legible(Record.of, document)
    return record.job if record else None


def _died_after(known: Job, job: Job) -> bool:
    return known.ended is not None and job.ended is not None and known.ended > job.ended
