"""The jobs of a lake in its store of documents: wanted by many, each run by one worker at a time."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import groupby, islice
from typing import TYPE_CHECKING

from neve.errors import LeaseLost
from neve.work import job_changes as changes
from neve.work.history import History
from neve.work.job import Job, JobState
from neve.work.job_document import Record, Wanted
from neve.work.open_jobs import OpenJobs, new
from neve.work.refusals import WorkMissing, WorkRefused, WorkUnreadable
from neve.work.retry import Retry
from neve.work.turns import busy, place, turn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from neve.lake.documents import Documents
    from neve.work.job import Progress
    from neve.work.task import Task

KEEP_MOST = 2000  # of those that are done with: all of them are read to count them
RETRY = Retry()
NOTHING: Mapping[str, object] = {}
Listed = list[Job]  # inside the class, `list` is how jobs are listed


class Jobs:
    """Every job of a lake; threads and processes may share them."""

    def __init__(
        self,
        documents: Documents,
        *,
        retry: Retry = RETRY,
        keep_days: float = 7,
        keep_most: int = KEEP_MOST,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._clock = clock or documents.now
        self._history = History(documents)
        self._open = OpenJobs(documents, self._history, retry, self._clock)
        self._retry = retry
        self._keep = timedelta(days=keep_days)
        self._keep_most = keep_most

    def want(self, task: Task, table: str, window: str = "", *, reason: str, not_before: datetime | None = None) -> Job:
        """Have something done, now or not before a time; folded into the open job of the same subject, if there is one.

        A job that runs already may have read what was there before: it is followed by another one. What died waits for
        as long as it would before its next attempt; a person who replays it does not wait.
        """

        def wanted(record: Record | None, now: datetime) -> Record:
            wish = self._open.held_back(_subject(task, table, window), Wanted(reason, not_before or now))
            return changes.folded(record, wish) if record else new(task, table, window, wish, now)

        return self._open.change(_subject(task, table, window), wanted).job

    def get(self, job_id: str) -> Job | None:
        """A job, open or ended; none where there is none, or where it was pruned."""
        # Once more at the end: it may have been replayed between the first look and the second.
        return self._open.find(job_id) or self._history.find(job_id) or self._open.find(job_id)

    def list(
        self,
        *,
        states: Collection[JobState] = (),
        task: Task | None = None,
        table: str | None = None,
        limit: int | None = None,
    ) -> Listed:
        """The jobs in such states (none given: in all), of a task, of a table; the newest first."""
        chosen = [state for state in JobState if not states or state in states]
        places = self._history.jobs(chosen)
        opened = sorted((record.job for _document, record in self._open.records()), key=_id, reverse=True)
        every = heapq.merge(opened, *places, key=_id, reverse=True)
        found = (
            job
            for job in (next(same) for _job_id, same in groupby(every, key=_id))
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
        """The job whose turn it is, if it is due and nothing speaks against it, for this owner alone for so long.

        What a worker that is silent too long had begun is due again; `allowed` tells why a job must wait. One whose
        table another one of its task is at waits, too.
        """
        now = self._clock()
        found = sorted(self._open.records(), key=lambda found: turn(found[1].job))
        taken = busy((record.job for _document, record in found), now)
        for document, seen in found:
            record = self._open.mended(document, seen, tasks, now)
            if record is None or record.job.not_before > now or place(record.job) in taken:
                continue
            if allowed(record.job) is not None:
                continue
            begun = changes.claimed(record, owner, now, seconds)
            if self._open.swap(record.document if record is not seen else document, begun):
                return begun.job
            taken.add(place(begun.job))  # another worker was quicker
        return None

    def renew(self, job: Job, seconds: float, progress: Progress | None = None) -> Job:
        """Keep a job for so long from now; raises `LeaseLost` when it is another's. The answer tells `cancel`."""
        return self._held(job, lambda record, now: changes.renewed(record, now, seconds, progress))

    def finish(self, job: Job, outcome: str, result: Mapping[str, object] = NOTHING) -> Job:
        """A job is done; what was wanted of its subject meanwhile is queued."""
        return self._closed(job, lambda record, now: changes.finished(record, outcome, result, now))

    def fail(self, job: Job, error: Exception) -> Job:
        """An attempt failed: the job is queued for later or, when it was the last one, dead."""
        return self._closed(job, lambda record, now: changes.failed(record, error, self._retry, now))

    def release(self, job: Job) -> Job:
        """Give a job back that was neither done nor failed, as when its worker is told to stop."""
        return self._closed(job, lambda record, now: changes.put_back(record, now, now))

    def cancel(self, job_id: str) -> Job:
        """A person wants a job no more; one that runs ends when its worker sees it."""

        def given_up(record: Record | None, now: datetime) -> Record:
            if record is None or record.job.id != job_id:
                raise self._refused(job_id, "cancelled", "queued or running")
            return changes.cancelled(record, now)

        found = self._open.find(job_id)
        if found is None:
            raise self._refused(job_id, "cancelled", "queued or running")
        return self._open.change(found.subject, given_up).job

    def replay(self, job_id: str) -> Job:
        """A person wants a dead or cancelled job tried again; it is folded into the open one of its subject, if any."""
        old = self.get(job_id)
        if old is None or old.state not in {JobState.DEAD, JobState.CANCELLED}:
            raise self._refused(job_id, "replayed", "dead or cancelled")

        def revived(record: Record | None, now: datetime) -> Record:
            if record is None:
                return changes.anew(old, now)
            if record.job.id == job_id:  # another person was quicker
                return record
            return changes.folded(record, Wanted(f"replay of {job_id}: {old.reason}", now))

        job = self._open.change(old.subject, revived).job
        if job.id == job_id:
            self._history.forget(old)
        else:
            self._history.keep(replace(old, state=JobState.CANCELLED, outcome=f"replayed as job {job.id}"))
        return job

    def prune(self) -> int:
        """Forget what was done with long ago, and the oldest of it; how many jobs that were. The dead stay."""
        return self._history.prune(self._clock() - self._keep, self._keep_most)

    def counts(self) -> dict[JobState, int]:
        """How many jobs are in each state, of those that are kept; those that are done with as of a minute ago."""
        opened = Counter(record.job.state for _document, record in self._open.records())
        found = self._history.counts(self._clock()) + opened
        return {state: found[state] for state in JobState}

    def now(self) -> datetime:
        """The time that all who share the jobs go by."""
        return self._clock()

    def _closed(self, job: Job, change: Callable[[Record, datetime], Record]) -> Job:
        try:
            return self._held(job, change)
        except LeaseLost:
            known = self._history.find(job.id)
            if known is not None and _claim_of(known) == _claim_of(job):
                return known  # it was ended by this very claim, whose answer was lost
            raise

    def _held(self, job: Job, change: Callable[[Record, datetime], Record]) -> Job:
        """Change a job that this very claim still has; raises `LeaseLost` where it has it no more."""
        try:
            return self._open.change(job.subject, lambda record, now: change(_ours(record, job), now)).job
        except WorkUnreadable as error:
            raise LeaseLost(f"{job.owner} lost job {job.id}: {error.message}", hint=error.hint) from error

    def _refused(self, job_id: str, verb: str, expected: str) -> WorkMissing | WorkRefused:
        job = self.get(job_id)
        if job is None:
            return WorkMissing(f"there is no job {job_id!r}", hint="`neve jobs list` shows those that there are")
        return WorkRefused(
            f"job {job_id} ({job.subject}) can't be {verb}: it is {job.state.value}, expected {expected}",
            hint="start its task anew instead" if job.state is JobState.DONE else None,
        )


def _subject(task: Task, table: str, window: str) -> str:
    return f"{task}/{table}/{window}"


def _id(job: Job) -> str:
    return job.id


def _claim_of(job: Job) -> tuple[object, ...]:
    """What tells one taking of a job from every other one."""
    return job.id, job.owner, job.started, job.attempts


def _ours(record: Record | None, job: Job) -> Record:
    if record is not None and record.job.state is JobState.RUNNING and _claim_of(record.job) == _claim_of(job):
        return record
    if record is None or record.job.id != job.id:
        where = "it has ended"
    else:
        where = f"it is {record.job.state.value}{f' with {record.job.owner}' if record.job.owner else ''}"
    raise LeaseLost(
        f"{job.owner} lost job {job.id} ({job.subject}): {where}",
        hint="its worker was silent for longer than its lease, and another one took over",
    )
