"""The job queue of a lake in its state store: jobs are requested by many and run by one worker at a time.

Each subject has one document for its open job, so that every change is one compare-and-swap. An ended job is moved
to the history. If the process that moves it dies on the way, the next one that finds the job moves it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING

from neve.errors import LeaseLost
from neve.jobs import transitions as changes
from neve.jobs.history import SPACE, JobHistory
from neve.jobs.job import Job, JobState, WorkNotFound, WorkStateError, WorkUnreadable
from neve.jobs.record import JobRecord, JobRequest, decode_or_skip, new_id
from neve.jobs.transitions import Retry
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime

    from neve.jobs.job import Progress, Task
    from neve.state.documents import Documents


# Delay for each more urgent task, after which a task comes first: so no job waits forever behind urgent ones.
DELAY_PER_RANK = timedelta(minutes=10)


def claim_order(job: Job) -> tuple[datetime, str]:
    """Return the sort key of a job, the smallest first.

    Jobs are ordered by urgency, until a job has been due for so long that it is as urgent as the others.
    """
    return job.not_before + job.task.rank * DELAY_PER_RANK, job.id


def exclusive_key(job: Job) -> tuple[Task, str]:
    """Return the key of a job's exclusive resource: the windows of a table share the lease of its task."""
    return job.task, job.table


def find_busy_keys(jobs: Iterable[Job], now: datetime) -> set[tuple[Task, str]]:
    """Return the keys of jobs that run on a worker with a recent heartbeat."""
    return {
        exclusive_key(job)
        for job in jobs
        if job.state is JobState.RUNNING and job.until is not None and job.until > now
    }


OPEN = "open/"

log = get_logger(__name__)


class OpenJobs:
    """The open jobs of a store, at most one for each subject."""

    def __init__(self, documents: Documents, history: JobHistory, retry: Retry, clock: Callable[[], datetime]) -> None:
        self._documents = documents
        self._history = history
        self._retry = retry
        self._clock = clock

    def records(self) -> Iterator[tuple[dict[str, object], JobRecord]]:
        """Yield the open job of each subject, and ended jobs that were not moved yet."""
        for _key, document in self._documents.entries(SPACE, OPEN):
            record = decode_or_skip(JobRecord.of, document)
            if record is not None:
                yield document, record

    def find(self, job_id: str) -> Job | None:
        """Return a job by its id, open or just ended; or none."""
        return next((record.job for _document, record in self.records() if record.job.id == job_id), None)

    def change(self, subject: str, change: Callable[[JobRecord | None, datetime], JobRecord]) -> JobRecord:
        """Change the open job of a subject atomically; the change is computed again after a concurrent one.

        Raises `WorkUnreadable` if a newer release has written the job.
        """
        while True:
            document, now = self._documents.get(SPACE, OPEN + subject), self._clock()
            record = None if document is None else _decode_record(subject, document)
            if document is not None and record is not None and not record.job.state.is_open:
                self._move(record, document)
                continue
            changed = change(record, now)
            if changed == record or self.swap(document, changed):
                if not changed.job.state.is_open:
                    self._move(changed, changed.document)
                return changed

    def delay_request(self, subject: str, wanted: JobRequest) -> JobRequest:
        """Return the request for a subject, delayed if its last job died recently."""
        return changes.delay_after_death(wanted, self._history.dead(subject), self._retry)

    def swap(self, document: dict[str, object] | None, record: JobRecord) -> bool:
        """Replace the open job of a subject if it still is this document; return whether it was."""
        return self._documents.swap(SPACE, OPEN + record.job.subject, document, record.document)

    def prepare_claim(
        self, document: dict[str, object], record: JobRecord, tasks: Collection[Task], now: datetime
    ) -> JobRecord | None:
        """Return the record if it can be claimed; repairs the state that a dead process left behind on the way."""
        job = record.job
        if not job.state.is_open:
            self._move(record, document)
            return None
        if job.task not in tasks:
            return None
        if job.until is not None and job.until <= now:
            return self._expire_claim(document, record, now)
        return record if job.state is JobState.QUEUED else None

    def _expire_claim(self, document: dict[str, object], record: JobRecord, now: datetime) -> JobRecord | None:
        job, left = record.job, changes.expire_claim(record, self._retry, now)
        if not self.swap(document, left):
            return None
        log.warning(
            "worker without heartbeat", job=job.id, subject=job.subject, worker=job.owner, state=left.job.state.value
        )
        if left.job.state is JobState.QUEUED:
            return left
        self._move(left, left.document)
        return None

    def _move(self, record: JobRecord, document: dict[str, object]) -> None:
        """Move an ended job to the history, and store the job of later requests in its place."""
        job, now = record.job, self._clock()
        self._history.keep(job)
        following = None
        if record.following is not None:
            following = new_record(
                job.task, job.table, job.window, self.delay_request(job.subject, record.following), now
            )
        self._documents.swap(SPACE, OPEN + job.subject, document, following.document if following else None)


def _decode_record(subject: str, document: dict[str, object]) -> JobRecord:
    record = decode_or_skip(JobRecord.of, document)
    if record is None:
        raise WorkUnreadable(
            f"the job of {subject} has values that this release does not know",
            hint="a newer release shares the state store and continues the job",
        )
    return record


def new_record(task: Task, table: str, window: str, wanted: JobRequest, now: datetime) -> JobRecord:
    """Return the record of a new job."""
    return JobRecord(Job(new_id(now), task, table, window, wanted.reason, created=now, not_before=wanted.not_before))


MAX_ENDED_JOBS = 2000  # of ended jobs: all of them are read to count them
RETRY = Retry()
NO_RESULT: Mapping[str, object] = {}
JobList = list[Job]  # inside the class, `list` is the method that lists jobs


class JobQueue:
    """All jobs of a lake; threads and processes may share them."""

    def __init__(
        self,
        documents: Documents,
        *,
        retry: Retry = RETRY,
        keep_days: float = 7,
        max_ended: int = MAX_ENDED_JOBS,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._clock = clock or documents.now
        self._history = JobHistory(documents)
        self._open = OpenJobs(documents, self._history, retry, self._clock)
        self._retry = retry
        self._keep = timedelta(days=keep_days)
        self._max_ended = max_ended

    def request(
        self, task: Task, table: str, window: str = "", *, reason: str, not_before: datetime | None = None
    ) -> Job:
        """Request a job, now or not before a time; it is merged into the open job of the same subject, if there is one.

        A running job may have read an earlier state: it is followed by another one. A request for a dead job's subject
        waits as long as its next attempt would. A replay by an operator does not wait.
        """

        def merge(record: JobRecord | None, now: datetime) -> JobRecord:
            request = self._open.delay_request(_subject(task, table, window), JobRequest(reason, not_before or now))
            return changes.fold_request(record, request) if record else new_record(task, table, window, request, now)

        return self._open.change(_subject(task, table, window), merge).job

    def get(self, job_id: str) -> Job | None:
        """Return a job, open or ended; none if it does not exist or was pruned."""
        # Once more at the end: it may have been replayed between the first lookup and the second.
        return self._open.find(job_id) or self._history.find(job_id) or self._open.find(job_id)

    def list(
        self,
        *,
        states: Collection[JobState] = (),
        task: Task | None = None,
        table: str | None = None,
        limit: int | None = None,
    ) -> JobList:
        """Return the jobs in these states (none given: in all), of a task, of a table; the newest first."""
        chosen = [state for state in JobState if not states or state in states]
        places = self._history.jobs(chosen)
        opened = sorted((record.job for _document, record in self._open.records()), key=_id_key, reverse=True)
        every = heapq.merge(opened, *places, key=_id_key, reverse=True)
        found = (
            job
            for job in (next(same) for _job_id, same in groupby(every, key=_id_key))
            if job.state in chosen and task in (None, job.task) and table in (None, job.table)
        )
        return [*islice(found, limit)]

    def claim(
        self,
        owner: str,
        tasks: Collection[Task],
        seconds: float,
        allowed: Callable[[Job], str | None] = lambda _job: None,
    ) -> Job | None:
        """Claim the next job that is due and allowed, exclusively for this owner and this time.

        A job of a worker without heartbeats is due again. `allowed` returns the reason why a job must wait. A job also
        waits while another one of its task runs on the same table.
        """
        now = self._clock()
        found = sorted(self._open.records(), key=lambda found: claim_order(found[1].job))
        taken = find_busy_keys((record.job for _document, record in found), now)
        for document, seen in found:
            record = self._open.prepare_claim(document, seen, tasks, now)
            if record is None or record.job.not_before > now or exclusive_key(record.job) in taken:
                continue
            if allowed(record.job) is not None:
                continue
            begun = changes.claim(record, owner, now, seconds)
            if self._open.swap(record.document if record is not seen else document, begun):
                return begun.job
            taken.add(exclusive_key(begun.job))  # another worker was faster
        return None

    def renew(self, job: Job, seconds: float, progress: Progress | None = None) -> Job:
        """Extend the claim of a job from now on; raises `LeaseLost` if another worker has it.

        The returned job has `cancel`.
        """
        return self._change_claimed(job, lambda record, now: changes.renew(record, now, seconds, progress))

    def finish(self, job: Job, outcome: str, result: Mapping[str, object] = NO_RESULT) -> Job:
        """Finish a job; later requests for its subject are queued."""
        return self._end(job, lambda record, now: changes.finish(record, outcome, result, now))

    def fail(self, job: Job, error: Exception) -> Job:
        """Record a failed attempt: the job is queued for later or, after the last attempt, dead."""
        return self._end(job, lambda record, now: changes.fail(record, error, self._retry, now))

    def release(self, job: Job) -> Job:
        """Release a job that was neither done nor failed, for example when its worker has to stop."""
        return self._end(job, lambda record, now: changes.put_back(record, now, now))

    def cancel(self, job_id: str, reason: str = "") -> Job:
        """Cancel a job for an operator; a running job ends when its worker notices. Its outcome has the reason."""

        def cancel_record(record: JobRecord | None, now: datetime) -> JobRecord:
            if record is None or record.job.id != job_id:
                raise self._state_error(job_id, "cancelled", "queued or running")
            return changes.cancel(record, now, reason)

        found = self._open.find(job_id)
        if found is None:
            raise self._state_error(job_id, "cancelled", "queued or running")
        return self._open.change(found.subject, cancel_record).job

    def replay(self, job_id: str) -> Job:
        """Retry a dead or cancelled job for an operator; it is merged into the open job of its subject, if any."""
        old = self.get(job_id)
        if old is None or old.state not in {JobState.DEAD, JobState.CANCELLED}:
            raise self._state_error(job_id, "replayed", "dead or cancelled")

        def requeue(record: JobRecord | None, now: datetime) -> JobRecord:
            if record is None:
                return changes.reset(old, now)
            if record.job.id == job_id:  # another operator was faster
                return record
            return changes.fold_request(record, JobRequest(f"replay of {job_id}: {old.reason}", now))

        job = self._open.change(old.subject, requeue).job
        if job.id == job_id:
            self._history.forget(old)
        else:
            self._history.keep(replace(old, state=JobState.CANCELLED, outcome=f"replayed as job {job.id}"))
        return job

    def prune(self) -> int:
        """Delete jobs that ended long ago, and the oldest ones; return the number. Dead jobs are kept."""
        return self._history.prune(self._clock() - self._keep, self._max_ended)

    def counts(self) -> dict[JobState, int]:
        """Return the number of stored jobs in each state; those of ended jobs are up to a minute old."""
        opened = Counter(record.job.state for _document, record in self._open.records())
        found = self._history.counts(self._clock()) + opened
        return {state: found[state] for state in JobState}

    def now(self) -> datetime:
        """Return the time by the store's clock, which all processes share."""
        return self._clock()

    def _end(self, job: Job, change: Callable[[JobRecord, datetime], JobRecord]) -> Job:
        try:
            return self._change_claimed(job, change)
        except LeaseLost:
            known = self._history.find(job.id)
            if known is not None and _claim_key(known) == _claim_key(job):
                return known  # this claim ended it, and the response was lost
            raise

    def _change_claimed(self, job: Job, change: Callable[[JobRecord, datetime], JobRecord]) -> Job:
        """Change a job that this claim still owns; raises `LeaseLost` if it does not."""
        try:
            return self._open.change(job.subject, lambda record, now: change(_check_claim(record, job), now)).job
        except WorkUnreadable as error:
            raise LeaseLost(f"{job.owner} lost job {job.id}: {error.message}", hint=error.hint) from error

    def _state_error(self, job_id: str, verb: str, expected: str) -> WorkNotFound | WorkStateError:
        job = self.get(job_id)
        if job is None:
            return WorkNotFound(f"there is no job {job_id!r}", hint="run `neve jobs list` to see the jobs")
        return WorkStateError(
            f"job {job_id} ({job.subject}) can't be {verb}: it is {job.state.value}, expected {expected}",
            hint="start its task again instead" if job.state is JobState.DONE else None,
        )


def _subject(task: Task, table: str, window: str) -> str:
    return f"{task}/{table}/{window}"


def _id_key(job: Job) -> str:
    return job.id


def _claim_key(job: Job) -> tuple[object, ...]:
    """Return the identity of one claim of a job."""
    return job.id, job.owner, job.started, job.attempts


def _check_claim(record: JobRecord | None, job: Job) -> JobRecord:
    if record is not None and record.job.state is JobState.RUNNING and _claim_key(record.job) == _claim_key(job):
        return record
    if record is None or record.job.id != job.id:
        where = "it has ended"
    else:
        where = f"it is {record.job.state.value}{f' with {record.job.owner}' if record.job.owner else ''}"
    raise LeaseLost(
        f"{job.owner} lost job {job.id} ({job.subject}): {where}",
        hint="its worker sent no heartbeat for longer than its lease, and another one took over",
    )
