"""What is open of each subject: one document, so that it is changed in one step, whoever looks on.

A job that has ended is moved to the history; one whose mover died on the way is moved by the next who comes across it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from neve.work import job_changes as changes
from neve.work.history import SPACE, History
from neve.work.job import Job, JobState
from neve.work.job_document import Record, Wanted
from neve.work.job_id import new_id
from neve.work.legible import legible
from neve.work.refusals import WorkUnreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from neve.lake.documents import Documents
    from neve.work.retry import Retry
    from neve.work.task import Task

OPEN = "open/"

log = structlog.get_logger(__name__)


class OpenJobs:
    """The open jobs of a store, at most one of each subject."""

    def __init__(self, documents: Documents, history: History, retry: Retry, clock: Callable[[], datetime]) -> None:
        self._documents = documents
        self._history = history
        self._retry = retry
        self._clock = clock

    def records(self) -> Iterator[tuple[dict[str, object], Record]]:
        """What is open of each subject, and what has just ended and was not moved yet."""
        for _key, document in self._documents.entries(SPACE, OPEN):
            record = legible(Record.of, document)
            if record is not None:
                yield document, record

    def find(self, job_id: str) -> Job | None:
        """A job by its id, open or just ended; or none."""
        return next((record.job for _document, record in self.records() if record.job.id == job_id), None)

    def change(self, subject: str, change: Callable[[Record | None, datetime], Record]) -> Record:
        """Change what is open of a subject in one step; the change is worked out again when another one was quicker.

        Raises `WorkUnreadable` where a newer release is at the subject.
        """
        while True:
            document, now = self._documents.get(SPACE, OPEN + subject), self._clock()
            record = None if document is None else _read(subject, document)
            if document is not None and record is not None and not record.job.state.is_open:
                self._move(record, document)
                continue
            changed = change(record, now)
            if changed == record or self.swap(document, changed):
                if not changed.job.state.is_open:
                    self._move(changed, changed.document)
                return changed

    def held_back(self, subject: str, wanted: Wanted) -> Wanted:
        """What is wanted of a subject, not too soon after it died."""
        return changes.held_back(wanted, self._history.dead(subject), self._retry)

    def swap(self, document: dict[str, object] | None, record: Record) -> bool:
        """Change what is open of a job's subject if it is this document; whether it was."""
        return self._documents.swap(SPACE, OPEN + record.job.subject, document, record.document)

    def mended(
        self, document: dict[str, object], record: Record, tasks: Collection[Task], now: datetime
    ) -> Record | None:
        """What can be claimed, if anything: what others died over is brought to where it belongs on the way."""
        job = record.job
        if not job.state.is_open:
            self._move(record, document)
            return None
        if job.task not in tasks:
            return None
        if job.until is not None and job.until <= now:
            return self._taken_from_the_dead(document, record, now)
        return record if job.state is JobState.QUEUED else None

    def _taken_from_the_dead(self, document: dict[str, object], record: Record, now: datetime) -> Record | None:
        job, left = record.job, changes.silenced(record, self._retry, now)
        if not self.swap(document, left):
            return None
        log.warning("worker silent", job=job.id, subject=job.subject, worker=job.owner, state=left.job.state.value)
        if left.job.state is JobState.QUEUED:
            return left
        self._move(left, left.document)
        return None

    def _move(self, record: Record, document: dict[str, object]) -> None:
        """Move a job that has ended to the history, and put what was wanted meanwhile in its place."""
        job, now = record.job, self._clock()
        self._history.keep(job)
        following = None
        if record.following is not None:
            following = new(job.task, job.table, job.window, self.held_back(job.subject, record.following), now)
        self._documents.swap(SPACE, OPEN + job.subject, document, following.document if following else None)


def _read(subject: str, document: dict[str, object]) -> Record:
    record = legible(Record.of, document)
    if record is None:
        raise WorkUnreadable(
            f"the job of {subject} has values that this release does not know",
            hint="a newer release shares the state store: it goes on with the job",
        )
    return record


def new(task: Task, table: str, window: str, wanted: Wanted, now: datetime) -> Record:
    """A job that is wanted for the first time."""
    return Record(Job(new_id(now), task, table, window, wanted.reason, created=now, not_before=wanted.not_before))
