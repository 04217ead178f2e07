"""What an operator sees and does: the same for the command line and for the network."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING

from neve.app.outlook import look_ahead
from neve.app.policies import build_policy_store, compact_budgets
from neve.app.reports import OutlookReport
from neve.app.status import Statuses
from neve.app.wiring import build_documents
from neve.errors import ConfigError
from neve.lake.kept import Kept
from neve.work.board import Board
from neve.work.concerns import ALL_TABLES, tables_for
from neve.work.jobs import Jobs
from neve.work.pauses import Pauses
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.app.past import Past
    from neve.app.reports import LagsReport, StatusReport, TableReport
    from neve.app.settings import Settings
    from neve.app.table_reports import TableReports
    from neve.compact.compactor import Compactor
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.work.job import Job
    from neve.work.pauses import Pause
    from neve.work.policy_store import PolicyStore

FRESH_SECONDS = 5.0  # for which what is dear to look at is not looked at again


@dataclass(frozen=True)
class Control:
    """One lake, and all that tends it; threads may share it."""

    settings: Settings
    lake: Lake
    documents: Documents

    @cached_property
    def jobs(self) -> Jobs:
        """All jobs."""
        return Jobs(self.documents)

    @cached_property
    def pauses(self) -> Pauses:
        """What is held up."""
        return Pauses(self.documents)

    @cached_property
    def policies(self) -> PolicyStore:
        """What applies to which tables."""
        return build_policy_store(self.settings, self.documents)

    @cached_property
    def board(self) -> Board:
        """What the parts say of themselves."""
        return Board(self.documents)

    @cached_property
    def past(self) -> Past:
        """What was done."""
        from neve.app.past import Past  # noqa: PLC0415 - as below

        return Past(self.documents, self.jobs)

    @cached_property
    def reports(self) -> TableReports:
        """How the tables are."""
        from neve.app.table_reports import TableReports  # noqa: PLC0415 - other rooms are not for who asks for jobs

        return TableReports(self._compactor)

    def tables(self) -> list[TableReport]:
        """Every table with its health, as it was a few seconds ago at most."""
        return self._tables.get()

    def status(self) -> StatusReport:
        """How everything is now."""
        return Statuses(self.documents, self.board, self.jobs, self.pauses, self._lags.get).look()

    def outlook(self) -> OutlookReport:
        """What would be done next."""
        return OutlookReport.model_validate(look_ahead(self.documents, self.policies, self.lake.table_names()))

    def start(self, task: Task, table: str, window: str, *, reason: str) -> Job:
        """Have something done now; raises `ConfigError` where there is no such work."""
        known = tables_for(task, self.lake.table_names())
        if table not in known:
            expected = "none, for it is about all tables" if ALL_TABLES in known else ", ".join(known) or "a lake"
            raise ConfigError(f"table is {table!r}, expected for {task.value} {expected}")
        if window and task is not Task.COMPACT:
            raise ConfigError(f"window is {window!r}, expected none: only {Task.COMPACT.value} is done day by day")
        if window and not _is_day(window):
            raise ConfigError(f"window is {window!r}, expected a day as YYYY-MM-DD")
        return self.jobs.want(task, table, window, reason=reason)

    def pause(self, task: Task | None, tables: str, *, by: str, reason: str, until: datetime | None) -> Pause:
        """Hold work up; raises `ConfigError` for a time that is over."""
        if until is not None and until <= self.documents.now():
            raise ConfigError(f"until is {until:%Y-%m-%dT%H:%M:%SZ}, expected a time to come")
        return self.pauses.pause(task=task, tables=tables, by=by, reason=reason, until=until)

    def _compactor(self) -> Compactor:
        """A compactor within the budgets of now, which plans and never compacts."""
        from neve.compact.compactor import Compactor  # noqa: PLC0415 - as above

        return Compactor(
            self.lake,
            documents=self.documents,
            config=self.settings.compact,
            prices=self.settings.prices,
            budgets=compact_budgets(self.policies.load()),
        )

    @cached_property
    def _tables(self) -> Kept[list[TableReport]]:
        return Kept(self.reports.all, FRESH_SECONDS)

    @cached_property
    def _lags(self) -> Kept[LagsReport]:
        from neve.app.lags import Lags  # noqa: PLC0415 - as above

        return Kept(Lags(self.settings, self.lake).look, FRESH_SECONDS)


@contextmanager
def open_control(settings: Settings, lake: Lake) -> Iterator[Control]:
    """The control of a lake, with documents of its own."""
    documents = build_documents(settings)
    try:
        yield Control(settings, lake, documents)
    finally:
        documents.close()


def _is_day(text: str) -> bool:
    """Whether a text names a day as windows do.

    >>> _is_day("2026-01-31"), _is_day("20260131"), _is_day("2026-02-30")
    (True, False, False)
    """
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
