"""The forecast: jobs that would run next, when and why, and what delays them; no clock, no storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.jobs.job import JobState, Task
from neve.jobs.routing import tables_for
from neve.jobs.schedule import explain_schedule, next_time
from neve.jobs.scheduler import schedule_key
from neve.text import format_bytes, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.jobs.batcher import PendingBatch
    from neve.jobs.job import Job
    from neve.jobs.pauses import Pause
    from neve.jobs.policies import MatchedRule, Policies
    from neve.jobs.policy import Batch
    from neve.jobs.schedule import ScheduleMark


class ForecastState(StrEnum):
    """The state of a forecast entry."""

    RUNNING = "running"
    DUE = "due"  # as soon as a worker is free
    WAITING = "waiting"  # for its time
    FILLING = "filling"  # commits are collected for it
    QUIET = "quiet"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True)
class ForecastEntry:
    """One future job; `when` is none if it is unknown, and `policy` is the one that requests it, if any does."""

    task: Task
    table: str
    window: str
    when: datetime | None
    state: ForecastState
    why: str
    policy: str = ""
    done: int = 0  # files of a batch that fills, or units of a running job
    total: int = 0  # 0 if unknown
    share: float | None = None  # of the limit that is reached first; none if nothing fills or runs

    def delay(self, state: ForecastState, when: datetime | None, reason: str) -> ForecastEntry:
        """Return the entry, delayed until a time."""
        return replace(self, state=state, when=when, why=f"{self.why}; {reason}")


@dataclass(frozen=True)
class ForecastInput:
    """The input of a forecast."""

    now: datetime
    policies: Policies
    tables: Sequence[str]
    marks: Mapping[str, ScheduleMark]
    jobs: Sequence[Job] = ()
    pending_batches: Sequence[PendingBatch] = ()
    pauses: Sequence[Pause] = ()


def forecast_jobs(view: ForecastInput) -> list[ForecastEntry]:
    """Return running jobs first, then the next ones, then those that do not start by themselves."""
    found = [*_job_entries(view), *_batch_entries(view), *_schedule_entries(view)]
    return sorted(found, key=lambda line: _sort_key(line, view.now))


def _sort_key(line: ForecastEntry, now: datetime) -> tuple[int, datetime, str, str, str]:
    rank = 0 if line.state is ForecastState.RUNNING else 1 if line.when else 2
    return rank, line.when or now, line.task.value, line.table, line.window


def _job_entries(view: ForecastInput) -> Iterator[ForecastEntry]:
    """Yield the entries of queued and running jobs."""
    for job in view.jobs:
        if job.state is JobState.RUNNING:
            entry = ForecastEntry(
                job.task, job.table, job.window, job.started, ForecastState.RUNNING, _describe_running(job)
            )
            done, total = job.progress.done, job.progress.total
            yield replace(entry, done=done, total=total, share=min(1.0, done / total) if total else None)
        elif job.state is JobState.QUEUED:
            state = ForecastState.WAITING if job.not_before > view.now else ForecastState.DUE
            yield _apply_holds(
                ForecastEntry(job.task, job.table, job.window, job.not_before, state, _describe_queued(job)), view
            )


def _batch_entries(view: ForecastInput) -> Iterator[ForecastEntry]:
    """Yield the entries of pending batches; batches that no policy collects any more are about to be dropped."""
    for pending in view.pending_batches:
        found = view.policies.rule(pending.task, pending.table)
        batch = view.policies.batch(pending.task, pending.table)
        if found is None or batch is None:
            continue
        reason = pending.due(batch, view.now)
        when = view.now if reason else pending.first_at + timedelta(seconds=batch.age_seconds)
        state = ForecastState.DUE if reason else ForecastState.FILLING
        why = reason or _describe_filling(pending, batch, view.now)
        entry = ForecastEntry(pending.task, pending.table, pending.window, when, state, why, found.policy)
        share = _measure_filling(pending, batch, view.now)
        yield _apply_holds(replace(entry, done=pending.count, total=batch.count, share=share), view)


def _measure_filling(pending: PendingBatch, batch: Batch, now: datetime) -> float:
    """Return the share of the limit that a pending batch reaches first; a limit of 0 is none."""
    age = max(0.0, (now - pending.first_at).total_seconds())
    limits = ((pending.count, batch.count), (pending.bytes, batch.bytes), (age, batch.age_seconds))
    return min(1.0, max((value / limit for value, limit in limits if limit), default=0.0))


def _schedule_entries(view: ForecastInput) -> Iterator[ForecastEntry]:
    """Yield the entries of schedules, and of tasks that nothing starts."""
    for task in Task:
        for table in tables_for(task, view.tables):
            found = view.policies.rule(task, table)
            line = _schedule_entry(task, table, found, view) if found else None
            if line is not None:
                yield line


def _schedule_entry(task: Task, table: str, found: MatchedRule, view: ForecastInput) -> ForecastEntry | None:
    rule, mark = found.rule, view.marks.get(schedule_key(task, table))
    if not rule.enabled:
        return ForecastEntry(task, table, "", None, ForecastState.DISABLED, "its rule has enabled: false", found.policy)
    when = next_time(rule, mark, view.now)
    if when is None:
        return None
    state = ForecastState.DUE if when <= view.now else ForecastState.WAITING
    return _apply_holds(
        ForecastEntry(task, table, "", when, state, explain_schedule(rule, mark, when, view.now), found.policy), view
    )


def _apply_holds(line: ForecastEntry, view: ForecastInput) -> ForecastEntry:
    """Return an entry with the delay by pauses and quiet hours."""
    begins = max(line.when or view.now, view.now)
    for pause in view.pauses:
        if pause.holds(line.task, line.table) and (pause.until is None or pause.until > begins):
            return line.delay(ForecastState.PAUSED, pause.until, f"paused by {pause.by}: {pause.reason}")
    quiet = view.policies.quiet_period(line.task, line.table, begins)
    if quiet is None:
        return line
    return line.delay(ForecastState.QUIET, None if quiet.endless else quiet.window.end, str(quiet))


def _describe_running(job: Job) -> str:
    step = f" ({job.progress.step} {job.progress.done} of {job.progress.total})" if job.progress.total else ""
    return f"{job.reason}; running on {job.owner}{step}"


def _describe_queued(job: Job) -> str:
    return f"{job.reason}; attempt {job.attempts} failed: {job.error}" if job.attempts and job.error else job.reason


def _describe_filling(pending: PendingBatch, batch: Batch, now: datetime) -> str:
    age = max(0.0, (now - pending.first_at).total_seconds())
    return (
        f"{pending.count} of {batch.count} files, {format_bytes(pending.bytes)} of {format_bytes(batch.bytes)}, "
        f"{format_duration(age)} of {format_duration(batch.age_seconds)}"
    )
