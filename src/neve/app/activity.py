"""Recent activity on tables: runs of compaction and maintenance, and ended jobs, the newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from neve.app.reports import JobReport, PastReport
from neve.compact.result import History as Compactions
from neve.jobs.job import JobState, Task
from neve.lake.lake import parse_table_name
from neve.maintain.step import History as Maintenance
from neve.model.signals import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.jobs.queue import JobQueue
    from neve.state.documents import Documents

# Compaction and maintenance record all of their runs. Listing their jobs too would duplicate the entries.
TASKS_WITH_HISTORY = (Task.COMPACT, Task.MAINTAIN)
MOST_JOBS = 1000


@dataclass(frozen=True)
class ActivityLog:
    """The history of table activity in a state store."""

    documents: Documents
    jobs: JobQueue

    def of(self, table: str | None, limit: int) -> list[PastReport]:
        """Return the latest activity on a table, or on all tables."""
        found = [*self._compactions(table), *self._maintenance(table), *self._jobs(table)]
        return sorted(found, key=lambda one: one.started, reverse=True)[:limit]

    def _compactions(self, table: str | None) -> Iterator[PastReport]:
        for one in Compactions(self.documents).of(_full_name(table)):
            yield PastReport(
                what=Task.COMPACT.value,
                table=_short_name(one.table),
                started=datetime.fromisoformat(one.started),
                seconds=one.seconds,
                words=f"{one.committed:,} of {one.planned:,} groups published: {one.reason}",
                error="; ".join(one.errors),
                details=one.as_document(),
            )

    def _maintenance(self, table: str | None) -> Iterator[PastReport]:
        for one in Maintenance(self.documents).runs(_full_name(table) or ""):
            yield PastReport(
                what=f"{Task.MAINTAIN.value}: {one['step']}",
                table=_short_name(one["table"]),
                started=datetime.fromisoformat(one["started_at"]),
                seconds=one["seconds"],
                words=one["reason"],
                error=one["error"] or "",
                details=one,
            )

    def _jobs(self, table: str | None) -> Iterator[PastReport]:
        for job in self.jobs.list(states=(JobState.DONE, JobState.DEAD), table=table, limit=MOST_JOBS):
            if job.started is None or job.ended is None or job.task in TASKS_WITH_HISTORY:
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


def _full_name(table: str | None) -> str | None:
    return ".".join(parse_table_name(table)) if table else None


def _short_name(table: str) -> str:
    """Return a table's name, with its namespace only if that is not the lake's own.

    >>> _short_name("telemetry.spans"), _short_name("other.spans")
    ('spans', 'other.spans')
    """
    return table.removeprefix(f"{NAMESPACE}.")
