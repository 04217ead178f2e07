"""The compactor: look, plan, rewrite, prove, publish, and say what was done and why."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog
from pydantic import ByteSize, TypeAdapter, ValidationError

from neve.compact import metrics
from neve.compact.budgets import NO_BUDGETS, Allowances, OrganizationBudget, organization_places
from neve.compact.config import CompactConfig
from neve.compact.cost import calibrate
from neve.compact.duplicates import Search, clean_partitions
from neve.compact.execute import Execution
from neve.compact.fingerprint import hashed_columns
from neve.compact.history import History
from neve.compact.journal import Entry, Journal, Run
from neve.compact.ledger import Ledger
from neve.compact.limits import Limits
from neve.compact.memory_store import Memories
from neve.compact.observe import context_of, idle_plan, measure_table, plan_table
from neve.compact.publish import Publisher
from neve.compact.result import Circumstances, CompactResult, measured, published, result_of, spent_since
from neve.compact.settle import Settled, kept_paths, settle, sweep
from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.dangling import remove_dangling_deletes
from neve.lake.duck import connect
from neve.lake.java_table import DATA_PATH
from neve.lake.lake import Lake, identify
from neve.lake.leases import Lease, work_under
from neve.lake.live import live_among
from neve.lake.prices import PricesConfig
from neve.lake.sql_documents import SqlDocuments
from neve.lake.state import State
from neve.lake.state_config import StateConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import duckdb
    from pyiceberg.table import Table

    from neve.compact.execute import Progress
    from neve.compact.measure import TableHealth
    from neve.compact.plan import Group, Plan
    from neve.lake.documents import Documents

HOUR = timedelta(hours=1)
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Request:
    """What one run is asked for, where that is not what the configuration says."""

    strategy: str | None = None
    target_bytes: int | None = None
    level: str | None = None
    partitions: str | None = None
    thorough: bool = False


def bytes_of(given: int | str | None) -> int | None:
    """A size as users write it: a number of bytes, or a text like 256MB.

    >>> bytes_of("256MB"), bytes_of("1GiB"), bytes_of(None)
    (256000000, 1073741824, None)
    """
    if given is None or isinstance(given, int):
        return given
    try:
        return int(TypeAdapter(ByteSize).validate_python(given))
    except ValidationError as error:
        raise ConfigError(f"the size is {given!r}, expected bytes like 256MB or 1GiB") from error


@dataclass(frozen=True)
class Compactor:
    """Compacts the tables of one lake; among all that share the state store, one run at a time for each table.

    `budgets` are what organizations may spend in a day, on all tables together.
    """

    lake: Lake
    strategy: str | None = None
    target_file_size: int | str | None = None
    documents: Documents = field(default_factory=lambda: SqlDocuments(State(StateConfig())))
    config: CompactConfig = field(default_factory=CompactConfig)
    prices: PricesConfig = field(default_factory=PricesConfig)
    clock: Callable[[], datetime] = now_utc
    budgets: tuple[OrganizationBudget, ...] = ()

    def plan(self, name: str, request: Request = Request()) -> Plan:  # noqa: B008 - frozen
        """What a run would do now; needs no Spark, and changes nothing."""
        return self._plan(self.lake.table(name), request)

    def _plan(self, table: Table, request: Request) -> Plan:
        idle = idle_plan(
            table,
            self.config,
            now=self.clock(),
            strategy=request.strategy or self.strategy,
            target_bytes=self._target(request),
            level=request.level,
            partitions=request.partitions,
            thorough=request.thorough,
        )
        plan = idle or self._plan_with_past(table, request)
        metrics.count_plan(plan)
        return plan

    def _plan_with_past(self, table: Table, request: Request) -> Plan:
        full_name = ".".join(table.name())
        past = History(self.documents).of(full_name)
        return plan_table(
            table,
            self.config,
            now=self.clock(),
            duck=self._duck,
            prices=self.prices,
            memories=Memories(self.documents, full_name, str(table.metadata.table_uuid)).load(),
            calibration=calibrate(measured(past)),
            strategy=request.strategy or self.strategy,
            target_bytes=self._target(request),
            level=request.level,
            partitions=request.partitions,
            thorough=request.thorough,
            spent_dollars=self._spent(),
            allowances=self._allowances(table),
        )

    def _spent(self) -> float:
        """The dollars that all tables took in the last hour; only a limit makes them worth a look."""
        return spent_since(History(self.documents).of(), self.clock() - HOUR) if self.config.max_dollars else 0.0

    def _allowances(self, table: Table) -> Allowances:
        """What organizations have left of this day; only budgets make that worth a look."""
        if not self.budgets:
            return NO_BUDGETS
        return Allowances(self.budgets, organization_places(table), Ledger.at(self.documents, self.clock()).spent())

    def _target(self, request: Request) -> int | None:
        return request.target_bytes or bytes_of(self.target_file_size)

    def health(self, name: str, request: Request = Request()) -> TableHealth:  # noqa: B008 - frozen
        """How a table and its partitions are, from metadata alone."""
        table = self.lake.table(name)
        return measure_table(
            table,
            self.config,
            now=self.clock(),
            duck=self._duck,
            memories=Memories(self.documents, ".".join(table.name()), str(table.metadata.table_uuid)).load(),
            target_bytes=self._target(request),
            partitions=request.partitions,
        )

    def history(self, name: str | None = None) -> list[CompactResult]:
        """The runs that ended, of one table or of all, oldest first."""
        return History(self.documents).of(".".join(identify(name)) if name else None)

    def compact(
        self,
        name: str,
        request: Request = Request(),  # noqa: B008 - frozen
        *,
        progress: Progress | None = None,
        steal: bool = False,
    ) -> CompactResult:
        """Finish what a dead run left, then do what there is to do; raises `LeaseTaken` while another one is at it."""
        full_name = ".".join(self.lake.table(name).name())
        with self._lease(full_name, steal=steal) as lease:
            settled = self._settle_dead(name, full_name, lease)
            started, began = self.clock(), time.monotonic()
            table = self.lake.table(name)
            memories = Memories(self.documents, full_name, str(table.metadata.table_uuid))
            thorough = request.thorough or memories.is_look_due(started, self.config.thorough_seconds)
            plan = self._searched(table, self._plan(table, replace(request, thorough=thorough)))
            allowances, ledger = self._allowances(table), Ledger.at(self.documents, started)
            plan = ledger.pay(plan, allowances)
            entries: list[Entry] | None = None
            try:
                entries = self._execute(name, table, plan, lease, progress) if plan.groups else []
            finally:  # also where it is cancelled: the budget is the organization's, not the run's
                ledger.give_back(self._not_begun(plan, entries), allowances)
            done = {entry.group.id for entry in published(entries)}
            self._tidy(name, published(entries), lease)
            memories.learn(plan, done, started, clean_partitions(plan, done))
            if thorough and not request.partitions:
                memories.looked(started, plan)
            after = self.health(name, request).score if done else plan.health
            circumstances = Circumstances(started, time.monotonic() - began, after, tuple(settled))
            result = result_of(plan, entries, circumstances, self.prices)
            if entries or settled:
                History(self.documents).add(result)
            metrics.count_run(result)
            return result

    def _searched(self, table: Table, plan: Plan) -> Plan:
        """The plan, after closed partitions were looked through for duplicates."""
        if not plan.check_duplicates:
            return plan
        context = context_of(
            table,
            self.config,
            now=self.clock(),
            prices=self.prices,
            calibration=calibrate(measured(History(self.documents).of(plan.table))),
            target_bytes=plan.target_bytes,
        )
        limits = Limits.of(self.config, self._spent())
        return Search(self.lake.spark, table, context, self._duck, limits, self._allowances(table)).extend(plan)

    def _execute(self, name: str, table: Table, plan: Plan, lease: Lease, progress: Progress | None) -> list[Entry]:
        folder = run_folder(table, plan.id)
        journal = Journal(self.documents, plan.table)
        journal.begin(plan, folder, self.clock())
        execution = Execution(
            lake=self.lake,
            table=table,
            plan=plan,
            folder=folder,
            journal=journal,
            publisher=Publisher(self.lake, name, journal, plan.id, plan.start, plan.sequence, lease.check),
            hashed=hashed_columns(table.schema(), table.sort_order(), self.config.verify),
            sort_memory=self.config.sort_memory_bytes,
            concurrency=min(self.config.concurrency, self.config.cores or self.config.concurrency),
            cores=self.config.cores,
            groups_per_commit=self.config.groups_per_commit,
            deadline=time.monotonic() + self.config.max_seconds if self.config.max_seconds else None,
        )
        entries = execution.run(progress)
        for entry in entries:
            metrics.count_group(plan.table, entry)
        self._leave(journal, plan, folder, name, entries)
        return entries

    def _not_begun(self, plan: Plan, entries: Sequence[Entry] | None) -> list[Group]:
        """The groups that nothing was done for; the journal knows them where a run was broken off, without entries."""
        if entries is None:
            journal = Journal(self.documents, plan.table)
            entries = journal.entries(plan.id)
            if not journal.knows(plan.id):  # another one has settled it: nobody can tell what it had begun
                return []
        begun = {entry.group.id for entry in entries}
        return [group for group in plan.groups if group.id not in begun]

    def _tidy(self, name: str, entries: Sequence[Entry], lease: Lease) -> None:
        """Remove delete files that several groups were done with: none of them alone could tell it was the last."""
        if any(entry.group.has_deletes for entry in entries):
            lease.check()
            removed = remove_dangling_deletes(self.lake.spark, self.lake.spark_name(name))
            log.info("removed dangling deletes", table=name, files=removed)

    def _leave(self, journal: Journal, plan: Plan, folder: str, name: str, entries: Sequence[Entry]) -> None:
        """Remove what the run wrote in vain, and forget it, unless a commit is still in doubt."""
        try:
            sweep(folder, self.lake.s3, kept_paths(entries), self._live(name, plan.sequence))
        except OSError as error:  # what is published is published; `neve maintain orphans` finds the rest
            log.warning("leavings stay", run=plan.id, error=str(error))
        if not any(entry.is_unsettled for entry in entries):
            journal.end(plan.id)

    def _settle_dead(self, name: str, full_name: str, lease: Lease) -> list[Settled]:
        journal = Journal(self.documents, full_name)
        journal.forget_strays()
        settled = []
        for run in list(journal.runs()):

            def publish(run: Run, entries: Sequence[Entry]) -> list[Entry]:
                publisher = Publisher(self.lake, name, journal, run.id, run.snapshot_id, run.sequence, lease.check)
                return publisher.publish(entries)

            done = settle(run, self.lake.table(name), journal, self.lake.s3, publish, self._live(name, run.sequence))
            log.info("finished a dead run", run=run.id, published=done.published_now, orphans=done.orphans)
            in_table = {entry.group.id for entry in published(done.entries)}
            uuid = str(self.lake.table(name).metadata.table_uuid)
            Memories(self.documents, full_name, uuid).learn(run.plan, in_table, self.clock())
            if not any(entry.is_unsettled for entry in done.entries):
                journal.end(run.id)
            settled.append(done)
        return settled

    def _live(self, name: str, since: int) -> Callable[[Iterable[str]], set[str]]:
        """Which files of a run are in the table: only snapshots that were made since it began can have them."""
        return lambda paths: live_among(self.lake.table(name), paths, since)

    def _lease(self, full_name: str, *, steal: bool) -> AbstractContextManager[Lease]:
        seconds = self.config.lease_seconds
        return work_under(self.documents, f"compact:{full_name}", seconds=seconds, what="compaction", steal=steal)

    def _duck(self) -> duckdb.DuckDBPyConnection:
        on_s3 = self.lake.lake.on_s3
        needed = ("avro", "httpfs") if on_s3 else ("avro",)
        return connect(self.lake.s3, on_s3=on_s3, memory_limit=self.config.plan_memory, extensions=needed)


def run_folder(table: Table, run_id: str) -> str:
    """Where a run writes: a folder of its own, so that what it leaves can be found without looking at the table."""
    data = table.properties.get(DATA_PATH) or f"{table.location().rstrip('/')}/data"
    return f"{data.rstrip('/')}/neve-{run_id}"
