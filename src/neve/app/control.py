"""Operator functions for the command line and the API: status, forecast, starting jobs and pausing work."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from neve.app.reports import (
    JobReport,
    OutlookReport,
    PauseReport,
    QueryUsageReport,
    QueueReport,
    ServePartReport,
    StatusReport,
)
from neve.app.wiring import build_documents, build_policy_store, compact_budgets
from neve.errors import ConfigError
from neve.jobs.job import JobState, Task
from neve.jobs.pauses import Pauses
from neve.jobs.queue import JobQueue
from neve.jobs.routing import ALL_TABLES, tables_for
from neve.jobs.status_board import StatusBoard
from neve.lake.ttl_cache import TtlCache
from neve.query.daily_usage import bytes_of_day
from neve.state.audit import AuditLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from neve.app.activity import ActivityLog
    from neve.app.lake_reports import TableReports
    from neve.app.reports import LagsReport, TableReport
    from neve.app.settings import Settings
    from neve.compact.compactor import Compactor
    from neve.jobs.forecast import ForecastEntry
    from neve.jobs.job import Job
    from neve.jobs.pauses import Pause
    from neve.jobs.policies import PolicyStore
    from neve.lake.lake import Lake
    from neve.state.documents import Documents


MOST_RUNNING = 50
MOST_ENDED = 10
MOST_READ = 100  # jobs are listed by the time of their request, and one may have run for long
MOST_DEAD = 20
MOST_USAGE = 20


@dataclass(frozen=True)
class StatusReader:
    """Reader of the status of one lake; `lags` cost more than the rest, and may be a few seconds old."""

    documents: Documents
    board: StatusBoard
    jobs: JobQueue
    pauses: Pauses
    lags: Callable[[], LagsReport]

    def look(self) -> StatusReport:
        """Return the whole status."""
        now = self.documents.now()
        waiting = self.jobs.list(states=(JobState.QUEUED, JobState.RUNNING, JobState.DEAD))
        ended = self.jobs.list(states=(JobState.DONE, JobState.CANCELLED), limit=MOST_READ)
        ended.sort(key=lambda job: job.ended or job.created, reverse=True)
        running = [job for job in waiting if job.state is JobState.RUNNING]
        dead = [job for job in waiting if job.state is JobState.DEAD]
        return StatusReport(
            at=now,
            parts=[ServePartReport.model_validate(part) for part in self.board.all()],
            queues=[count_queue(task, waiting, now) for task in Task],
            running=_job_reports(running[:MOST_RUNNING]),
            ended=_job_reports(ended[:MOST_ENDED]),
            dead=_job_reports(dead[:MOST_DEAD]),
            pauses=[PauseReport.model_validate(pause) for pause in self.pauses.list()],
            lags=self.lags(),
            query_usage=[
                QueryUsageReport(organization=organization, bytes=read)
                for organization, read in bytes_of_day(self.documents, now)[:MOST_USAGE]
            ],
        )


def count_queue(task: Task, jobs: Sequence[Job], now: datetime) -> QueueReport:
    """Count the jobs of a task by state."""
    mine = [job for job in jobs if job.task is task]
    queued = [job for job in mine if job.state is JobState.QUEUED]
    waits = [(now - job.not_before).total_seconds() for job in queued]
    return QueueReport(
        task=task.value,
        queued=len(queued),
        running=sum(job.state is JobState.RUNNING for job in mine),
        dead=sum(job.state is JobState.DEAD for job in mine),
        oldest_seconds=max(0.0, *waits) if waits else None,
    )


def _job_reports(jobs: Sequence[Job]) -> list[JobReport]:
    return [JobReport.model_validate(job) for job in jobs]


@dataclass(frozen=True)
class Forecast:
    """The next jobs, by the store's clock.

    `source` names the origin of the policies. `warnings` are rules that have no effect.
    """

    at: datetime
    source: str
    lines: tuple[ForecastEntry, ...]
    warnings: tuple[str, ...]


def build_forecast(settings: Settings, lake: Lake) -> Forecast:
    """Build the forecast of a lake, through a separate connection to the state store."""
    documents = build_documents(settings)
    try:
        return read_forecast(documents, build_policy_store(settings, documents), lake.table_names())
    finally:
        documents.close()


def read_forecast(documents: Documents, store: PolicyStore, tables: Sequence[str]) -> Forecast:
    """Compute the forecast of tables from the stored documents, without changing anything."""
    from neve.jobs.batcher import load_pending  # noqa: PLC0415 - not for those who ask for the status
    from neve.jobs.forecast import ForecastInput, forecast_jobs  # noqa: PLC0415 - as above
    from neve.jobs.scheduler import load_marks  # noqa: PLC0415 - as above

    policies, now = store.load(), documents.now()
    view = ForecastInput(
        now=now,
        policies=policies,
        tables=tables,
        marks=load_marks(documents),
        jobs=JobQueue(documents).list(states=(JobState.QUEUED, JobState.RUNNING)),
        pending_batches=load_pending(documents),
        pauses=Pauses(documents).list(),
    )
    return Forecast(now, store.source(), tuple(forecast_jobs(view)), tuple(policies.warnings(tables)))


FRESH_SECONDS = 5.0  # TTL of values that are expensive to read


@dataclass(frozen=True)
class Control:
    """Control of one lake and its services; threads may share it."""

    settings: Settings
    lake: Lake
    documents: Documents

    @cached_property
    def jobs(self) -> JobQueue:
        """The job queue."""
        return JobQueue(self.documents)

    @cached_property
    def pauses(self) -> Pauses:
        """The pauses in force."""
        return Pauses(self.documents)

    @cached_property
    def audit(self) -> AuditLog:
        """The audit log."""
        return AuditLog(self.documents)

    @cached_property
    def policies(self) -> PolicyStore:
        """The job policies of tables."""
        return build_policy_store(self.settings, self.documents)

    @cached_property
    def board(self) -> StatusBoard:
        """The status board of the parts."""
        return StatusBoard(self.documents)

    @cached_property
    def past(self) -> ActivityLog:
        """The activity log."""
        from neve.app.activity import ActivityLog  # noqa: PLC0415 - as below

        return ActivityLog(self.documents, self.jobs)

    @cached_property
    def reports(self) -> TableReports:
        """The reports on tables."""
        from neve.app.lake_reports import TableReports  # noqa: PLC0415 - other rooms are not for who asks for jobs

        return TableReports(self._compactor)

    def tables(self) -> list[TableReport]:
        """Return every table with its health, at most a few seconds old."""
        return self._tables.get()

    def status(self) -> StatusReport:
        """Return the current status of the lake and its services."""
        return StatusReader(self.documents, self.board, self.jobs, self.pauses, self._lags.get).look()

    def outlook(self) -> OutlookReport:
        """Return the forecast of the next jobs."""
        return OutlookReport.model_validate(read_forecast(self.documents, self.policies, self.lake.table_names()))

    def start(self, task: Task, table: str, window: str, *, reason: str) -> Job:
        """Request a job now; raises `ConfigError` if there is no such task, table or window."""
        known = tables_for(task, self.lake.table_names())
        if table not in known:
            expected = "none, because it concerns all tables" if ALL_TABLES in known else ", ".join(known) or "a lake"
            raise ConfigError(f"table is {table!r}, expected for {task.value} {expected}")
        if window and task is not Task.COMPACT:
            raise ConfigError(f"window is {window!r}, expected none: only {Task.COMPACT.value} works by day")
        if window and not _is_day(window):
            raise ConfigError(f"window is {window!r}, expected a day as YYYY-MM-DD")
        return self.jobs.request(task, table, window, reason=reason)

    def pause(self, task: Task | None, tables: str, *, by: str, reason: str, until: datetime | None) -> Pause:
        """Pause work; raises `ConfigError` if the end of the pause is in the past."""
        if until is not None and until <= self.documents.now():
            raise ConfigError(f"until is {until:%Y-%m-%dT%H:%M:%SZ}, expected a time in the future")
        return self.pauses.pause(task=task, tables=tables, by=by, reason=reason, until=until)

    def _compactor(self) -> Compactor:
        """Return a compactor with the current budgets, which only plans and never compacts."""
        from neve.compact.compactor import Compactor  # noqa: PLC0415 - as above

        return Compactor(
            self.lake,
            documents=self.documents,
            config=self.settings.compact,
            prices=self.settings.prices,
            budgets=compact_budgets(self.policies.load()),
        )

    @cached_property
    def _tables(self) -> TtlCache[list[TableReport]]:
        return TtlCache(self.reports.all, FRESH_SECONDS)

    @cached_property
    def _lags(self) -> TtlCache[LagsReport]:
        from neve.app.lake_reports import LagReader  # noqa: PLC0415 - as above

        return TtlCache(LagReader(self.settings, self.lake).look, FRESH_SECONDS)


@contextmanager
def open_control(settings: Settings, lake: Lake) -> Iterator[Control]:
    """Open the control of a lake, with its own connection to the state store."""
    documents = build_documents(settings)
    try:
        yield Control(settings, lake, documents)
    finally:
        documents.close()


def _is_day(text: str) -> bool:
    """Return whether a text is a day in the format of windows.

    >>> _is_day("2026-01-31"), _is_day("20260131"), _is_day("2026-02-30")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
