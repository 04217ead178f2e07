"""What was done to the tables: of every room that remembers, and of the jobs that ended, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from neve.app.reports import JobReport, PastReport
from neve.compact.history import History as Compactions
from neve.lake.lake import identify
from neve.maintain.history import History as Maintenance
from neve.model.tables import NAMESPACE
from neve.work.job import JobState
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.documents import Documents
    from neve.work.jobs import Jobs

# Whose rooms remember what they did, whoever asked them: their jobs would be told twice.
REMEMBERED = (Task.COMPACT, Task.MAINTAIN)
MOST_JOBS = 1000


@dataclass(frozen=True)
class Past:
    """What is remembered in a state store."""

    documents: Documents
    jobs: Jobs

    def of(self, table: str | None, limit: int) -> list[PastReport]:
        """The last of what was done to a table, or to all."""
        found = [*self._compactions(table), *self._maintenance(table), *self._jobs(table)]
        return sorted(found, key=lambda one: one.started, reverse=True)[:limit]

    def _compactions(self, table: str | None) -> Iterator[PastReport]:
        for one in Compactions(self.documents).of(_full(table)):
            yield PastReport(
                what=Task.COMPACT.value,
                table=_short(one.table),
                started=datetime.fromisoformat(one.started),
                seconds=one.seconds,
                words=f"{one.committed:,} of {one.planned:,} groups published: {one.reason}",
                error="; ".join(one.errors),
                details=one.as_document(),
            )

    def _maintenance(self, table: str | None) -> Iterator[PastReport]:
        for one in Maintenance(self.documents).runs(_full(table) or ""):
            yield PastReport(
                what=f"{Task.MAINTAIN.value}: {one['step']}",
                table=_short(one["table"]),
                started=datetime.fromisoformat(one["started_at"]),
                seconds=one["seconds"],
                words=one["reason"],
                error=one["error"] or "",
                details=one,
            )

    def _jobs(self, table: str | None) -> Iterator[PastReport]:
        for job in self.jobs.list(states=(JobState.DONE, JobState.DEAD), table=table, limit=MOST_JOBS):
            if job.started is None or job.ended is None or job.task in REMEMBERED:
                continue
            yield PastReport(
                what=job.task.value,
                table=job.table,
                started=job.started,
                seconds=(job.ended - job.started).total_seconds(),
                words=job.outcome,
                error=job.error,
                details=JobReport.model_validate(job).plain,
            )


def _full(table: str | None) -> str | None:
    return ".".join(identify(table)) if table else None


def _short(table: str) -> str:
    """A name as people say it: the namespace only where it is not the lake's own.

    >>> _short("telemetry.spans"), _short("other.spans")
    ('spans', 'other.spans')
    """
    return table.removeprefix(f"{NAMESPACE}.")
