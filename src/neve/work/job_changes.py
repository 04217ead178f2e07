"""What becomes of a job: values in, values out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import LeaseTaken, NeveError
from neve.work.job import Job, JobState, Progress
from neve.work.job_document import Record, Wanted, plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from neve.work.retry import Retry

SEPARATOR = "; "
MOST_REASONS = 4
LONGEST_ERROR = 2000
TOO_LATE = "done before the cancel was seen"
DEATHS, SINCE = "deaths", "since"  # in the result of a dead job


class WorkerSilent(NeveError):
    """Raised when a worker has not renewed its job in time: it is dead, or as good as dead."""


def folded(record: Record, wanted: Wanted) -> Record:
    """A subject that has an open job is wanted again.

    A job that waits for its next attempt keeps its time: what failed a moment ago is not mended by being wanted.
    """
    job = record.job
    if job.state is JobState.RUNNING:
        return record.followed_by(_both(record.following, wanted))
    not_before = job.not_before if job.attempts else min(job.not_before, wanted.not_before)
    return record.changed(reason=joined(job.reason, wanted.reason), not_before=not_before)


def claimed(record: Record, owner: str, now: datetime, seconds: float) -> Record:
    """A worker begins; all that was wanted so far is wanted of this run."""
    return record.changed(
        state=JobState.RUNNING,
        owner=owner,
        started=now,
        until=now + timedelta(seconds=seconds),
        attempts=record.job.attempts + 1,
        progress=Progress(),
    )


def renewed(record: Record, now: datetime, seconds: float, progress: Progress | None) -> Record:
    """Its worker is still at it."""
    until = now + timedelta(seconds=seconds)
    return record.changed(until=until, progress=record.job.progress if progress is None else progress)


def finished(record: Record, outcome: str, result: Mapping[str, object], now: datetime) -> Record:
    """It is done; where a person wanted it to stop, the outcome says that this came too late."""
    done = ended(record, JobState.DONE, now)
    if record.job.cancel:
        outcome = f"{outcome}{SEPARATOR}{TOO_LATE}" if outcome else TOO_LATE
    return done.changed(outcome=outcome, result=plain(result), error="", hint="")


def failed(record: Record, error: Exception, retry: Retry, now: datetime) -> Record:
    """An attempt failed: it waits for the next one, or for a person."""
    job = record.job
    if isinstance(error, LeaseTaken):  # another one does just this: no failure, and none to count
        return _with(put_back(record, now, now + timedelta(seconds=retry.first_seconds)), error)
    if job.cancel:
        return _with(ended(record, JobState.CANCELLED, now), error)
    if retry.is_last(job.attempts, error):
        return _with(ended(record, JobState.DEAD, now), error)
    return _with(_queued(record, now + timedelta(seconds=retry.delay(job.attempts))), error)


def died_again(job: Job, before: Job | None) -> Job:
    """A dead job with what the last dead one of its subject tells: how often it died, and since when.

    The same job once more is one death: it was moved twice.
    """
    if before is None:
        return job
    if before.id == job.id:
        return replace(job, outcome=before.outcome, result=before.result)
    deaths = int(str(before.result.get(DEATHS, 1))) + 1
    since = str(before.result.get(SINCE) or f"{before.ended or before.created:%Y-%m-%d %H:%M} UTC")
    return replace(job, outcome=f"{deaths:,} times since {since}", result={DEATHS: deaths, SINCE: since})


def held_back(wanted: Wanted, dead: Job | None, retry: Retry) -> Wanted:
    """What died a while ago is not tried at once because it is wanted: that would fail with every commit."""
    if dead is None or dead.ended is None:
        return wanted
    earliest = dead.ended + timedelta(seconds=retry.most_seconds)
    return replace(wanted, not_before=max(wanted.not_before, earliest))


def silenced(record: Record, retry: Retry, now: datetime) -> Record:
    """Its worker was not heard of in time: an attempt that failed, and that has cost time enough."""
    job = record.job
    error = WorkerSilent(
        f"worker {job.owner} was silent until {job.until:%Y-%m-%d %H:%M:%S} UTC, and is taken for dead"
    )
    left = failed(record, error, retry, now).changed(owner="")  # should it wake up, it is its job no longer
    return left.changed(not_before=now) if left.job.state is JobState.QUEUED else left


def put_back(record: Record, now: datetime, not_before: datetime) -> Record:
    """Its worker gives it up without a failure; where a person wanted it to stop, that is the end of it."""
    if record.job.cancel:
        return ended(record, JobState.CANCELLED, now)
    return _queued(record, not_before).changed(attempts=record.job.attempts - 1)


def cancelled(record: Record, now: datetime) -> Record:
    """A person wants none of what was wanted so far; what runs is told so, and ends when it sees it."""
    if record.job.state is JobState.RUNNING:
        return record.followed_by(None).changed(cancel=True)
    return ended(record, JobState.CANCELLED, now)


def ended(record: Record, state: JobState, now: datetime) -> Record:
    """Nothing more comes of the job itself."""
    return record.changed(state=state, ended=now, until=None)


def anew(job: Job, now: datetime) -> Record:
    """A job that had ended, as if it had never been tried."""
    return Record(Job(job.id, job.task, job.table, job.window, reason=job.reason, created=job.created, not_before=now))


def joined(reasons: str, further: str) -> str:
    """Both, nothing twice; of many, the first and the latest.

    >>> joined("cron", "14 files")
    'cron; 14 files'
    """
    first, *others = dict.fromkeys([*reasons.split(SEPARATOR), *further.split(SEPARATOR)])
    return SEPARATOR.join([first, *others[1 - MOST_REASONS :]])


def _both(one: Wanted | None, other: Wanted) -> Wanted:
    if one is None:
        return other
    return Wanted(joined(one.reason, other.reason), min(one.not_before, other.not_before))


def _queued(record: Record, not_before: datetime) -> Record:
    """Waiting again; what was wanted while it ran is wanted of the next run, which starts after it."""
    reason = joined(record.job.reason, record.following.reason) if record.following else record.job.reason
    return record.followed_by(None).changed(
        state=JobState.QUEUED, reason=reason, not_before=not_before, owner="", until=None, started=None
    )


def _with(record: Record, error: Exception) -> Record:
    if isinstance(error, NeveError):
        message, hint = error.message, error.hint or ""
    else:
        message, hint = f"{type(error).__name__}: {error}", ""
    return record.changed(error=message[:LONGEST_ERROR], hint=hint)
