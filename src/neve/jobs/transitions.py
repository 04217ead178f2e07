"""State transitions of a job (claim, renew, finish, fail, cancel, replay) and its retries, as pure functions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from neve.errors import ConfigError, EnvironmentFault, IncompatibleTable, LeaseTaken, NeveError
from neve.jobs.job import Job, JobState, Progress
from neve.jobs.record import JobRecord, JobRequest, to_json_values
from neve.model.settings import Section

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


# Errors that an operator has to fix first: another attempt would only fail again.
PERMANENT_ERRORS = (ConfigError, EnvironmentFault, IncompatibleTable)


class Retry(Section):
    """Retries of failed jobs. The delay doubles after each attempt, and the job is dead after the last one."""

    attempts: int = Field(5, ge=1, description="maximum number of attempts")
    first_seconds: float = Field(
        5, ge=0, description="delay after the first failure, in seconds; doubled after each other"
    )
    most_seconds: float = Field(600, ge=0, description="maximum delay, in seconds")

    @model_validator(mode="after")
    def _grows(self) -> Retry:
        if self.most_seconds < self.first_seconds:
            raise ValueError(
                f"most_seconds is {self.most_seconds:g}, expected at least first_seconds ({self.first_seconds:g})"
            )
        return self

    def delay(self, attempts: int) -> float:
        """Return the backoff in seconds after a number of failed attempts.

        >>> [Retry().delay(attempts) for attempts in (1, 2, 3, 9)]
        [5.0, 10.0, 20.0, 600.0]
        """
        doublings = min(max(attempts - 1, 0), 60)  # further ones change nothing but the size of the number
        return min(float(self.first_seconds * 2**doublings), float(self.most_seconds))

    def is_last(self, attempts: int, error: Exception) -> bool:
        """Return whether no attempt follows these."""
        return attempts >= self.attempts or isinstance(error, PERMANENT_ERRORS)


SEPARATOR = "; "
MAX_REASONS = 4
MAX_ERROR_CHARACTERS = 2000
CANCELLED_TOO_LATE = "finished before it noticed the cancellation"
DEATHS, SINCE = "deaths", "since"  # in the result of a dead job


class WorkerLost(NeveError):
    """Raised when a worker has not renewed its job in time: it is dead, or can't be distinguished from that."""


def fold_request(record: JobRecord, wanted: JobRequest) -> JobRecord:
    """Merge a request into the open job of its subject.

    A job that waits for its next attempt keeps its time: a new request does not fix the failure.
    """
    job = record.job
    if job.state is JobState.RUNNING:
        return record.follow_with(_merge_requests(record.following, wanted))
    not_before = job.not_before if job.attempts else min(job.not_before, wanted.not_before)
    return record.change(reason=join_reasons(job.reason, wanted.reason), not_before=not_before)


def claim(record: JobRecord, owner: str, now: datetime, seconds: float) -> JobRecord:
    """Start a run on a worker; it covers all requests so far."""
    return record.change(
        state=JobState.RUNNING,
        owner=owner,
        started=now,
        until=now + timedelta(seconds=seconds),
        attempts=record.job.attempts + 1,
        progress=Progress(),
    )


def renew(record: JobRecord, now: datetime, seconds: float, progress: Progress | None) -> JobRecord:
    """Extend the claim of the worker."""
    until = now + timedelta(seconds=seconds)
    return record.change(until=until, progress=record.job.progress if progress is None else progress)


def finish(record: JobRecord, outcome: str, result: Mapping[str, object], now: datetime) -> JobRecord:
    """End the job as done; if an operator cancelled it, the outcome notes that this came too late."""
    done = end(record, JobState.DONE, now)
    if record.job.cancel:
        outcome = f"{outcome}{SEPARATOR}{CANCELLED_TOO_LATE}" if outcome else CANCELLED_TOO_LATE
    return done.change(outcome=outcome, result=to_json_values(result), error="", hint="")


def fail(record: JobRecord, error: Exception, retry: Retry, now: datetime) -> JobRecord:
    """Record a failed attempt: the job waits for the next one, or for an operator."""
    job = record.job
    if isinstance(error, LeaseTaken):  # another process does the same work: no failure, and not counted
        return _with_error(put_back(record, now, now + timedelta(seconds=retry.first_seconds)), error)
    if job.cancel:
        return _with_error(end(record, JobState.CANCELLED, now), error)
    if retry.is_last(job.attempts, error):
        return _with_error(end(record, JobState.DEAD, now), error)
    return _with_error(_requeue(record, now + timedelta(seconds=retry.delay(job.attempts))), error)


def count_death(job: Job, before: Job | None) -> Job:
    """Return a dead job with the number of deaths of its subject, and the time of the first one.

    The same job a second time is one death: it was moved twice.
    """
    if before is None:
        return job
    if before.id == job.id:
        return replace(job, outcome=before.outcome, result=before.result)
    deaths = int(str(before.result.get(DEATHS, 1))) + 1
    since = str(before.result.get(SINCE) or f"{before.ended or before.created:%Y-%m-%d %H:%M} UTC")
    return replace(job, outcome=f"{deaths:,} times since {since}", result={DEATHS: deaths, SINCE: since})


def delay_after_death(wanted: JobRequest, dead: Job | None, retry: Retry) -> JobRequest:
    """Delay a request for a subject that died recently: without a delay it would fail with every commit."""
    if dead is None or dead.ended is None:
        return wanted
    earliest = dead.ended + timedelta(seconds=retry.most_seconds)
    return replace(wanted, not_before=max(wanted.not_before, earliest))


def expire_claim(record: JobRecord, retry: Retry, now: datetime) -> JobRecord:
    """Fail the attempt of a worker without heartbeats; the lost time replaces the backoff."""
    job = record.job
    error = WorkerLost(
        f"worker {job.owner} sent no heartbeat until {job.until:%Y-%m-%d %H:%M:%S} UTC, and is considered dead"
    )
    left = fail(record, error, retry, now).change(owner="")  # if the worker resumes, it no longer owns the job
    return left.change(not_before=now) if left.job.state is JobState.QUEUED else left


def put_back(record: JobRecord, now: datetime, not_before: datetime) -> JobRecord:
    """Release the job without a failure; if an operator cancelled it, it ends."""
    if record.job.cancel:
        return end(record, JobState.CANCELLED, now)
    return _requeue(record, not_before).change(attempts=record.job.attempts - 1)


def cancel(record: JobRecord, now: datetime, reason: str = "") -> JobRecord:
    """Cancel all requests so far; a running job is notified, and ends when its worker notices."""
    record = record.change(outcome=f"cancelled: {reason}") if reason else record
    if record.job.state is JobState.RUNNING:
        return record.follow_with(None).change(cancel=True)
    return end(record, JobState.CANCELLED, now)


def end(record: JobRecord, state: JobState, now: datetime) -> JobRecord:
    """End the job."""
    return record.change(state=state, ended=now, until=None)


def reset(job: Job, now: datetime) -> JobRecord:
    """Return an ended job in the state before its first attempt."""
    return JobRecord(
        Job(job.id, job.task, job.table, job.window, reason=job.reason, created=job.created, not_before=now)
    )


def join_reasons(reasons: str, further: str) -> str:
    """Join both reasons without duplicates; of many, keep the first and the latest.

    >>> join_reasons("cron", "14 files")
    'cron; 14 files'
    """
    first, *others = dict.fromkeys([*reasons.split(SEPARATOR), *further.split(SEPARATOR)])
    return SEPARATOR.join([first, *others[1 - MAX_REASONS :]])


def _merge_requests(one: JobRequest | None, other: JobRequest) -> JobRequest:
    if one is None:
        return other
    return JobRequest(join_reasons(one.reason, other.reason), min(one.not_before, other.not_before))


def _requeue(record: JobRecord, not_before: datetime) -> JobRecord:
    """Queue the job again; requests during its run are served by the next run, which starts after them."""
    reason = join_reasons(record.job.reason, record.following.reason) if record.following else record.job.reason
    return record.follow_with(None).change(
        state=JobState.QUEUED, reason=reason, not_before=not_before, owner="", until=None, started=None
    )


def _with_error(record: JobRecord, error: Exception) -> JobRecord:
    if isinstance(error, NeveError):
        message, hint = error.message, error.hint or ""
    else:
        message, hint = f"{type(error).__name__}: {error}", ""
    return record.change(error=message[:MAX_ERROR_CHARACTERS], hint=hint)
