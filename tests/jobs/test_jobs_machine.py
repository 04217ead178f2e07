"""Whatever happens to jobs and their workers, in whatever order: nothing is forgotten, and nothing is run by two."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from neve.errors import ConfigError, LakeError, LeaseLost, LeaseTaken
from neve.jobs.job import JobState, Task, WorkStateError
from neve.jobs.queue import JobQueue
from neve.jobs.transitions import Retry
from tests.jobs.support import Clock, sqlite

if TYPE_CHECKING:
    from datetime import datetime

    from neve.jobs.job import Job

LEASE = 60.0
RETRY = Retry(attempts=2, first_seconds=5, most_seconds=20)
TABLES = ("logs", "spans")
OWNERS = ("a", "b", "c")
ERRORS = (LakeError("away"), ConfigError("bad"), LeaseTaken("held"), ZeroDivisionError())
WORK = ("take", "renew", "die", "done", "done", "stop", *ERRORS)
OPEN = (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Held:
    """What a worker believes that it has; `tick` is when it began."""

    job: Job
    tick: int

    def lives_at(self, now: datetime) -> bool:
        """Whether nobody may take it for dead."""
        return self.job.until is not None and self.job.until > now


class Working(RuleBasedStateMachine):
    """Workers, people and the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = Clock(moment=timedelta(microseconds=1))  # ids that repeat, so that histories do
        self.documents = sqlite(self.folder)
        self.jobs = JobQueue(self.documents, retry=RETRY, clock=self.clock)
        self.ticks = count()
        self.held: dict[str, Held] = {}
        self.begun: dict[str, int] = {}  # the tick of each job's latest start
        self.wishes: dict[str, list[int]] = {table: [] for table in TABLES}  # that nothing was done about yet

    def teardown(self) -> None:
        """Leave no file behind."""
        self.documents.close()
        shutil.rmtree(self.folder)

    @initialize()
    def begin(self) -> None:
        """There is something to do."""
        for table in TABLES:
            self.want(table)

    @rule(table=st.sampled_from(TABLES))
    def want(self, table: str) -> None:
        """Something is wanted."""
        self.wishes[table].append(next(self.ticks))
        self.jobs.request(Task.COMPACT, table, reason="wanted")

    @rule(owner=st.sampled_from(OWNERS), does=st.sampled_from(WORK))
    def work(self, owner: str, does: str | Exception) -> None:
        """A worker takes a job, goes on with it, ends it, or dies over it."""
        if owner not in self.held or does == "take":
            self.take(owner)
        if does == "die":
            self.held.pop(owner, None)
        elif does != "take" and owner in self.held:
            self.go_on(owner, does)

    @rule(seconds=st.sampled_from([1.0, 7.0, 25.0, LEASE, LEASE]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.clock.forward(seconds)

    @rule(which=st.integers(0, 5), is_wanted=st.booleans())
    def decide(self, which: int, is_wanted: bool) -> None:
        """A person wants something no more, or again after all; what does not suit its state is refused."""
        jobs = self.jobs.list()
        if not jobs:
            return
        job = jobs[which % len(jobs)]
        try:
            if is_wanted:
                assert self.jobs.replay(job.id).state.is_open
                self.wishes[job.table].append(next(self.ticks))
            else:
                self.jobs.cancel(job.id)
                self.wishes[job.table].clear()
        except WorkStateError:
            refused = {JobState.DONE, *OPEN} if is_wanted else set(JobState) - set(OPEN)
            assert job.state in refused

    @invariant()
    def all_is_well(self) -> None:
        """One open job and one dead one a subject, attempts that end, counts that are right, and nothing forgotten."""
        jobs = self.jobs.list()
        subjects = [job.subject for job in jobs if job.state in OPEN]
        assert len(subjects) == len(set(subjects))
        dead = [job.subject for job in jobs if job.state is JobState.DEAD]
        assert len(dead) == len(set(dead))
        assert all(0 <= job.attempts <= RETRY.attempts for job in jobs)
        counts = JobQueue(self.documents, clock=self.clock).counts()  # one that has not counted yet
        assert counts == {state: sum(job.state is state for job in jobs) for state in JobState}
        for table in TABLES:
            self.remembers(table, [job for job in jobs if job.table == table])

    def take(self, owner: str) -> None:
        """Nobody who lives may have what a worker gets."""
        tick = next(self.ticks)
        job = self.jobs.claim(owner, [Task.COMPACT], LEASE)
        if job is not None:
            others = [held for name, held in self.held.items() if name != owner and held.lives_at(self.clock())]
            assert job.table not in [held.job.table for held in others]
            self.held[owner] = Held(job, tick)
            self.begun[job.id] = tick

    def go_on(self, owner: str, does: str | Exception) -> None:
        """What a worker says of its job counts only while it is its own."""
        held = self.held.pop(owner)
        try:
            if does == "renew":
                self.held[owner] = replace(held, job=self.jobs.renew(held.job, LEASE))
            elif does == "stop":
                self.jobs.release(held.job)
            elif isinstance(does, Exception):
                self.jobs.fail(held.job, does)
            else:
                assert self.jobs.finish(held.job, "done").state is JobState.DONE
                self.wishes[held.job.table] = [wish for wish in self.wishes[held.job.table] if wish > held.tick]
        except LeaseLost:
            assert not held.lives_at(self.clock())

    def remembers(self, table: str, jobs: list[Job]) -> None:
        """What nothing was done about is open, or among the dead, having been begun after it was wanted."""
        is_open = any(job.state in OPEN for job in jobs)
        tried = max((self.begun[job.id] for job in jobs if job.state is JobState.DEAD), default=-1)
        assert is_open or all(wish < tried for wish in self.wishes[table])


class WorkingLong(Working):
    """The same, for long."""


TestWorking = pytest.mark.slow(Working.TestCase)
TestWorking.settings = settings(max_examples=12, stateful_step_count=30)
TestWorkingLong = pytest.mark.long(WorkingLong.TestCase)
TestWorkingLong.settings = settings(max_examples=100, stateful_step_count=50)
