"""The outlook: what would be done next, when and why, and what holds it up; no clock, no storage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from neve.work.batch import MB
from neve.work.concerns import tables_for
from neve.work.due import next_time, why
from neve.work.job import JobState
from neve.work.scheduler import key_of
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.work.batch import Batch
    from neve.work.box import Box
    from neve.work.due import Mark
    from neve.work.job import Job
    from neve.work.pauses import Pause
    from neve.work.policies import Found, Policies


class State(StrEnum):
    """How something that is to be done stands."""

    RUNNING = "running"
    DUE = "due"  # as soon as a worker is free
    WAITING = "waiting"  # for its time
    FILLING = "filling"  # commits are gathered for it
    QUIET = "quiet"
    PAUSED = "paused"
    DISABLED = "disabled"


@dataclass(frozen=True)
class Line:
    """One thing to be done; `when` is none where nobody can tell, and `policy` is the one that says so, if any does."""

    task: Task
    table: str
    window: str
    when: datetime | None
    state: State
    why: str
    policy: str = ""

    def held(self, state: State, when: datetime | None, words: str) -> Line:
        """The same, held up until a time."""
        return replace(self, state=state, when=when, why=f"{self.why}; {words}")


@dataclass(frozen=True)
class View:
    """All that an outlook is made of."""

    now: datetime
    policies: Policies
    tables: Sequence[str]
    marks: Mapping[str, Mark]
    jobs: Sequence[Job] = ()
    boxes: Sequence[Box] = ()
    pauses: Sequence[Pause] = ()


def outlook(view: View) -> list[Line]:
    """What is under way first, then what comes next, then what does not come by itself."""
    found = [*_jobs(view), *_boxes(view), *_schedules(view)]
    return sorted(found, key=lambda line: _order(line, view.now))


def _order(line: Line, now: datetime) -> tuple[int, datetime, str, str, str]:
    rank = 0 if line.state is State.RUNNING else 1 if line.when else 2
    return rank, line.when or now, line.task.value, line.table, line.window


def _jobs(view: View) -> Iterator[Line]:
    """What is handed out, or waits to be."""
    for job in view.jobs:
        if job.state is JobState.RUNNING:
            yield Line(job.task, job.table, job.window, job.started, State.RUNNING, _running(job))
        elif job.state is JobState.QUEUED:
            state = State.WAITING if job.not_before > view.now else State.DUE
            yield _as_held(Line(job.task, job.table, job.window, job.not_before, state, _queued(job)), view)


def _boxes(view: View) -> Iterator[Line]:
    """What commits have begun to ask for; boxes that nothing is gathered in any more are about to be dropped."""
    for box in view.boxes:
        found = view.policies.rule(box.task, box.table)
        batch = view.policies.batch(box.task, box.table)
        if found is None or batch is None:
            continue
        reason = box.due(batch, view.now)
        when = view.now if reason else box.first_at + timedelta(seconds=batch.age_seconds)
        state = State.DUE if reason else State.FILLING
        words = reason or _filling(box, batch, view.now)
        yield _as_held(Line(box.task, box.table, box.window, when, state, words, found.policy), view)


def _schedules(view: View) -> Iterator[Line]:
    """What the clock starts, and what nothing does."""
    for task in Task:
        for table in tables_for(task, view.tables):
            found = view.policies.rule(task, table)
            line = _schedule(task, table, found, view) if found else None
            if line is not None:
                yield line


def _schedule(task: Task, table: str, found: Found, view: View) -> Line | None:
    rule, mark = found.rule, view.marks.get(key_of(task, table))
    if not rule.enabled:
        return Line(task, table, "", None, State.DISABLED, "its rule has enabled: false", found.policy)
    when = next_time(rule, mark, view.now)
    if when is None:
        return None
    state = State.DUE if when <= view.now else State.WAITING
    return _as_held(Line(task, table, "", when, state, why(rule, mark, when, view.now), found.policy), view)


def _as_held(line: Line, view: View) -> Line:
    """A line as pauses and quiet hours let it be."""
    begins = max(line.when or view.now, view.now)
    for pause in view.pauses:
        if pause.holds(line.task, line.table) and (pause.until is None or pause.until > begins):
            return line.held(State.PAUSED, pause.until, f"paused by {pause.by}: {pause.reason}")
    hush = view.policies.hush(line.task, line.table, begins)
    if hush is None:
        return line
    return line.held(State.QUIET, None if hush.endless else hush.window.end, str(hush))


def _running(job: Job) -> str:
    step = f" ({job.progress.step} {job.progress.done} of {job.progress.total})" if job.progress.total else ""
    return f"{job.reason}; {job.owner} is at it{step}"


def _queued(job: Job) -> str:
    return f"{job.reason}; attempt {job.attempts} failed: {job.error}" if job.attempts and job.error else job.reason


def _filling(box: Box, batch: Batch, now: datetime) -> str:
    age = max(0.0, (now - box.first_at).total_seconds())
    return (
        f"{box.count} of {batch.count} files, {box.bytes / MB:.1f} of {batch.bytes / MB:.0f} MB, "
        f"{age:.0f} of {batch.age_seconds:g} s"
    )
