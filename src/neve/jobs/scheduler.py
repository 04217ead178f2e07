"""The scheduler: requests the jobs that are due by interval or cron, and stores when it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.jobs.job import Task, WorkUnreadable
from neve.jobs.routing import tables_for
from neve.jobs.schedule import ScheduleMark, explain_schedule, next_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from neve.jobs.job import Job
    from neve.jobs.policies import Policies
    from neve.jobs.queue import JobQueue
    from neve.state.documents import Documents

SPACE = "schedule"


@dataclass(frozen=True)
class Scheduler:
    """Scheduler of jobs by the clock; one instance runs per store, though two at once do no harm.

    Times that were missed while no scheduler ran cause one request, however many there were. A job that is due in quiet
    hours is due when they end.
    """

    documents: Documents
    jobs: JobQueue
    policies: Callable[[], Policies]
    tables: Callable[[], Sequence[str]]
    clock: Callable[[], datetime] | None = None

    def turn(self) -> list[Job]:
        """Request all jobs that are due now."""
        now = (self.clock or self.documents.now)()
        policies, tables = self.policies(), list(self.tables())
        known = load_marks(self.documents)
        wanted = [
            self._request(task, table, policies, known.get(schedule_key(task, table)), now)
            for task in Task
            for table in tables_for(task, tables)
        ]
        return [job for job in wanted if job is not None]

    def _request(
        self, task: Task, table: str, policies: Policies, mark: ScheduleMark | None, now: datetime
    ) -> Job | None:
        found = policies.rule(task, table)
        if found is None or not found.rule.enabled:
            return None
        rule = found.rule
        when = next_time(rule, mark, now)
        if when is None:
            return None
        if when > now or policies.quiet_period(task, table, now):
            if rule.clock and (mark is None or mark.cron != rule.clock):
                # The expression applies from now on, so that a time that is missed later is recognized.
                self._remember(task, table, ScheduleMark(mark.last if mark else None, rule.clock, now))
            return None
        try:
            job = self.jobs.request(task, table, reason=explain_schedule(rule, mark, when, now))
        except WorkUnreadable:  # it stays due, and is requested when the newer release has finished that job
            return None
        # After the job: a crash in between causes a second request, not a lost one.
        self._remember(task, table, ScheduleMark(now, rule.clock, now))
        return job

    def _remember(self, task: Task, table: str, mark: ScheduleMark) -> None:
        self.documents.put(SPACE, schedule_key(task, table), mark.document)


def load_marks(documents: Documents) -> dict[str, ScheduleMark]:
    """Load the state of every schedule, by its key."""
    return {key: ScheduleMark.of(document) for key, document in documents.entries(SPACE)}


def schedule_key(task: Task, table: str) -> str:
    """Return the key of a schedule."""
    return f"{task}/{table}"
