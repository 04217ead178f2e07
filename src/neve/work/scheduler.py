"""The scheduler: wants the work that is due by the clock, and remembers when it did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.work.concerns import tables_for
from neve.work.due import Mark, next_time, why
from neve.work.refusals import WorkUnreadable
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from neve.lake.documents import Documents
    from neve.work.job import Job
    from neve.work.jobs import Jobs
    from neve.work.policies import Policies

SPACE = "schedule"


@dataclass(frozen=True)
class Scheduler:
    """Turns the clock into jobs; one at a time among all that share the store, though two at once do no harm.

    What was missed while nobody scheduled is wanted once, however often it was missed. What is due in quiet hours is
    due when they end.
    """

    documents: Documents
    jobs: Jobs
    policies: Callable[[], Policies]
    tables: Callable[[], Sequence[str]]
    clock: Callable[[], datetime] | None = None

    def turn(self) -> list[Job]:
        """Want all that is due now."""
        now = (self.clock or self.documents.now)()
        policies, tables = self.policies(), list(self.tables())
        known = marks(self.documents)
        wanted = [
            self._look(task, table, policies, known.get(key_of(task, table)), now)
            for task in Task
            for table in tables_for(task, tables)
        ]
        return [job for job in wanted if job is not None]

    def _look(self, task: Task, table: str, policies: Policies, mark: Mark | None, now: datetime) -> Job | None:
        found = policies.rule(task, table)
        if found is None or not found.rule.enabled:
            return None
        rule = found.rule
        when = next_time(rule, mark, now)
        if when is None:
            return None
        if when > now or policies.hush(task, table, now):
            if rule.clock and (mark is None or mark.cron != rule.clock):
                # From now on it counts, so that a time that is missed later is known to be missed.
                self._remember(task, table, Mark(mark.last if mark else None, rule.clock, now))
            return None
        try:
            job = self.jobs.want(task, table, reason=why(rule, mark, when, now))
        except WorkUnreadable:  # it stays due, and is wanted when those who know that job are done with it
            return None
        # After the job: whoever dies in between wants it twice, and not never.
        self._remember(task, table, Mark(now, rule.clock, now))
        return job

    def _remember(self, task: Task, table: str, mark: Mark) -> None:
        self.documents.put(SPACE, key_of(task, table), mark.document)


def marks(documents: Documents) -> dict[str, Mark]:
    """What is remembered of every schedule, by its key."""
    return {key: Mark.of(document) for key, document in documents.entries(SPACE)}


def key_of(task: Task, table: str) -> str:
    """The key of a schedule."""
    return f"{task}/{table}"
