"""The compactor: recover dead runs, plan, rewrite, verify, publish, and report the work with its reasons."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from pydantic import ByteSize, TypeAdapter, ValidationError

from neve.compact.budgets import NO_BUDGETS, Allowances, BudgetLedger, OrganizationBudget, find_organization_places
from neve.compact.config import CompactConfig
from neve.compact.journal import Entry, Journal, Run
from neve.compact.partition_memory import PartitionMemories
from neve.compact.plan import Request
from neve.compact.planning.cost_model import calibrate
from neve.compact.planning.limits import Limits
from neve.compact.planning.table_planning import PlanHistory, TablePlanner
from neve.compact.result import (
    CompactResult,
    History,
    RunFacts,
    collect_measurements,
    make_result,
    select_published,
    sum_dollars_since,
)
from neve.compact.run_proof import RunProofs, make_proof
from neve.errors import ConfigError
from neve.lake.calendar import now_utc
from neve.lake.config import PricesConfig
from neve.lake.duckdb import connect
from neve.lake.lake import Lake, parse_table_name
from neve.lake.read.file_index import FileIndex
from neve.lake.read.snapshot_files import find_live_paths
from neve.lake.spark.java_table import DATA_PATH, remove_dangling_deletes
from neve.logger import get_logger
from neve.state.config import StateConfig
from neve.state.leases import Lease, hold_worker_lease
from neve.state.sqlite_documents import open_state_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager

    import duckdb
    from pyiceberg.table import Table

    from neve.compact.execution.group_runner import Progress
    from neve.compact.health import TableHealth
    from neve.compact.plan import Group, Plan
    from neve.compact.planning.cost_model import Calibration
    from neve.compact.recovery import RecoveredRun
    from neve.lake.read.file_index import SizeClass
    from neve.state.documents import Documents

HOUR = timedelta(hours=1)
log = get_logger(__name__)


def parse_size(size: int | str | None) -> int | None:
    """Parse a size: a number of bytes, or a text like 256MB.

    >>> parse_size("256MB"), parse_size("1GiB"), parse_size(None)
    (256000000, 1073741824, None)
    """
    if size is None or isinstance(size, int):
        return size
    try:
        return int(TypeAdapter(ByteSize).validate_python(size))
    except ValidationError as error:
        raise ConfigError(f"the size is {size!r}, expected bytes like 256MB or 1GiB") from error


@dataclass(frozen=True)
class Compactor:
    """Compacts the tables of one lake. Processes that share the state store run one compaction per table at a time.

    `budgets` are the daily budgets of organizations for all tables together.
    """

    lake: Lake
    strategy: str | None = None
    target_file_size: int | str | None = None
    documents: Documents = field(default_factory=lambda: open_state_file(StateConfig()))
    config: CompactConfig = field(default_factory=CompactConfig)
    prices: PricesConfig = field(default_factory=PricesConfig)
    clock: Callable[[], datetime] = now_utc
    budgets: tuple[OrganizationBudget, ...] = ()

    def plan(self, name: str, request: Request = Request()) -> Plan:  # noqa: B008 - frozen
        """Return the plan of a run now. This needs no Spark, and changes nothing."""
        return self._plan(self.lake.table_metadata(name), request)

    def _plan(self, table: Table, request: Request) -> Plan:
        from neve.compact import metrics  # noqa: PLC0415 - Prometheus' client, not for the health of a table

        plan = self._planner(table, request, lambda: self._past(table)).plan()
        metrics.count_plan(plan)
        return plan

    def _planner(self, table: Table, request: Request, past: Callable[[], PlanHistory]) -> TablePlanner:
        strategy, size = request.strategy or self.strategy, request.target_bytes or parse_size(self.target_file_size)
        wanted = replace(request, strategy=strategy, target_bytes=size)
        return TablePlanner(table, self.config, self.clock(), self._duck, wanted, self.prices, past)

    def _past(self, table: Table) -> PlanHistory:
        name = ".".join(table.name())
        return PlanHistory(
            self._memories(table).load(), self._calibration(name), self._spent(), self._allowances(table)
        )

    def _memories(self, table: Table) -> PartitionMemories:
        return PartitionMemories(self.documents, ".".join(table.name()), str(table.metadata.table_uuid))

    def _calibration(self, full_name: str) -> Calibration:
        return calibrate(collect_measurements(History(self.documents).of(full_name)))

    def _spent(self) -> float:
        """Return the dollars that all tables took in the last hour. They are read only if there is a limit."""
        return sum_dollars_since(History(self.documents).of(), self.clock() - HOUR) if self.config.max_dollars else 0.0

    def _allowances(self, table: Table) -> Allowances:
        """Return the remaining budgets of this day. They are read only if there are budgets."""
        if not self.budgets:
            return NO_BUDGETS
        return Allowances(
            self.budgets, find_organization_places(table), BudgetLedger.at(self.documents, self.clock()).spent()
        )

    def health(self, name: str, request: Request = Request()) -> TableHealth:  # noqa: B008 - frozen
        """Measure the health of a table and its partitions, from metadata alone."""
        table = self.lake.table_metadata(name)
        return self._planner(table, request, lambda: PlanHistory(self._memories(table).load())).health()

    def size_classes(self, name: str) -> list[SizeClass]:
        """Return the distribution of a table's file sizes, from metadata alone."""
        with FileIndex(self.lake.table_metadata(name), self._duck) as index:
            return index.size_classes()

    def history(self, name: str | None = None) -> list[CompactResult]:
        """Return finished runs of one table or of all, oldest first."""
        return History(self.documents).of(".".join(parse_table_name(name)) if name else None)

    def compact(
        self,
        name: str,
        request: Request = Request(),  # noqa: B008 - frozen
        *,
        progress: Progress | None = None,
        steal: bool = False,
    ) -> CompactResult:
        """Recover dead runs, then plan and run the work.

        Raises `LeaseTaken` while another process compacts the table.
        """
        from neve.compact import metrics  # noqa: PLC0415 - not for plans
        from neve.compact.execution.duplicate_search import find_clean_partitions  # noqa: PLC0415 - as above

        self.lake.check_driver("compaction")
        full_name = ".".join(self.lake.table(name).name())
        with self._lease(full_name, steal=steal) as lease:
            recovered = self._recover_dead(name, full_name, lease)
            started, began = self.clock(), time.monotonic()
            table = self.lake.table(name)
            memories = self._memories(table)
            thorough = request.thorough or memories.is_check_due(started, self.config.thorough_seconds)
            plan = self._search_duplicates(table, self._plan(table, replace(request, thorough=thorough)))
            allowances, ledger = self._allowances(table), BudgetLedger.at(self.documents, started)
            plan = ledger.pay(plan, allowances)
            entries: list[Entry] | None = None
            try:
                entries = self._execute(name, table, plan, lease, progress) if plan.groups else []
            finally:  # also after a cancellation: the budget belongs to the organization, not to the run
                ledger.refund(self._find_unstarted(plan, entries), allowances)
            done = {entry.group.id for entry in select_published(entries)}
            self._tidy(name, select_published(entries), lease)
            memories.learn(plan, done, started, find_clean_partitions(plan, done))
            if thorough and not request.partitions:
                memories.record_check(started, plan)
            after = self.health(name, request).score if done else plan.health
            facts = RunFacts(started, time.monotonic() - began, after, tuple(recovered))
            result = make_result(plan, entries, facts, self.prices)
            if entries or recovered:
                History(self.documents).add(result)
                RunProofs(self.documents).add(result, make_proof(plan, entries))
            metrics.count_run(result)
            return result

    def _search_duplicates(self, table: Table, plan: Plan) -> Plan:
        """Return the plan after closed partitions were searched for duplicates."""
        if not plan.check_duplicates:
            return plan
        from neve.compact.execution.duplicate_search import DuplicateSearch  # noqa: PLC0415 - as above

        past = PlanHistory(calibration=self._calibration(plan.table))
        context = self._planner(table, Request(target_bytes=plan.target_bytes), PlanHistory).context(past)
        limits, allowances = Limits.of(self.config, self._spent()), self._allowances(table)
        return DuplicateSearch(self.lake.spark, table, context, self._duck, limits, allowances).extend(plan)

    def _execute(self, name: str, table: Table, plan: Plan, lease: Lease, progress: Progress | None) -> list[Entry]:
        from neve.compact import metrics  # noqa: PLC0415 - as above
        from neve.compact.execution.group_runner import GroupRunner, Publisher  # noqa: PLC0415 - as above
        from neve.compact.execution.verification import choose_hashed_columns  # noqa: PLC0415 - as above

        folder = run_folder(table, plan.id)
        journal = Journal(self.documents, plan.table)
        journal.begin(plan, folder, self.clock())
        execution = GroupRunner(
            lake=self.lake,
            table=table,
            plan=plan,
            folder=folder,
            journal=journal,
            publisher=Publisher(self.lake, name, journal, plan.id, plan.start, plan.sequence, lease.check),
            hashed=choose_hashed_columns(table.schema(), table.sort_order(), self.config.verify),
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

    def _find_unstarted(self, plan: Plan, entries: Sequence[Entry] | None) -> list[Group]:
        """Return the groups that were not started. The journal has them if a run was aborted without entries."""
        if entries is None:
            journal = Journal(self.documents, plan.table)
            entries = journal.entries(plan.id)
            if not journal.knows(plan.id):  # another process has recovered the run: the started groups are unknown
                return []
        started_ids = {entry.group.id for entry in entries}
        return [group for group in plan.groups if group.id not in started_ids]

    def _tidy(self, name: str, entries: Sequence[Entry], lease: Lease) -> None:
        """Remove delete files that several groups no longer need: none of them could know that it was the last."""
        if any(entry.group.has_deletes for entry in entries):
            lease.check()
            removed = remove_dangling_deletes(self.lake.spark, self.lake.spark_name(name))
            log.info("removed dangling deletes", table=name, files=removed)

    def _leave(self, journal: Journal, plan: Plan, folder: str, name: str, entries: Sequence[Entry]) -> None:
        """Remove unused files of the run, and its journal unless the outcome of a commit is unknown."""
        from neve.compact.recovery import find_paths_to_keep, remove_leftovers  # noqa: PLC0415 - as above

        try:
            remove_leftovers(folder, self.lake.s3, find_paths_to_keep(entries), self._live(name, plan.sequence))
        except OSError as error:  # published groups stay published; `neve maintain orphans` finds the rest
            log.warning("leftover files not removed", run=plan.id, error=str(error))
        if not any(entry.is_pending for entry in entries):
            journal.end(plan.id)

    def _recover_dead(self, name: str, full_name: str, lease: Lease) -> list[RecoveredRun]:
        from neve.compact.execution.group_runner import Publisher  # noqa: PLC0415 - as above
        from neve.compact.recovery import recover_run  # noqa: PLC0415 - as above

        journal = Journal(self.documents, full_name)
        journal.forget_strays()
        recovered = []
        for run in list(journal.runs()):

            def publish(run: Run, entries: Sequence[Entry]) -> list[Entry]:
                publisher = Publisher(self.lake, name, journal, run.id, run.snapshot_id, run.sequence, lease.check)
                return publisher.publish(entries)

            done = recover_run(
                run, self.lake.table(name), journal, self.lake.s3, publish, self._live(name, run.sequence)
            )
            log.info("recovered a dead run", run=run.id, published=done.published_now, orphans=done.orphans)
            in_table = {entry.group.id for entry in select_published(done.entries)}
            self._memories(self.lake.table(name)).learn(run.plan, in_table, self.clock())
            if not any(entry.is_pending for entry in done.entries):
                journal.end(run.id)
            recovered.append(done)
        return recovered

    def _live(self, name: str, since: int) -> Callable[[Iterable[str]], set[str]]:
        """Return a function that finds the files of a run in the table.

        Only snapshots since its start can contain them.
        """
        return lambda paths: find_live_paths(self.lake.table(name), paths, since)

    def _lease(self, full_name: str, *, steal: bool) -> AbstractContextManager[Lease]:
        seconds = self.config.lease_seconds
        return hold_worker_lease(
            self.documents, f"compact:{full_name}", seconds=seconds, what="compaction", steal=steal
        )

    def _duck(self) -> duckdb.DuckDBPyConnection:
        on_s3 = self.lake.lake.on_s3
        needed = ("avro", "httpfs") if on_s3 else ("avro",)
        return connect(self.lake.s3, on_s3=on_s3, memory_limit=self.config.plan_memory, extensions=needed)


def run_folder(table: Table, run_id: str) -> str:
    """Return the output folder of a run. It is separate, so that leftovers can be found without reading the table."""
    data = table.properties.get(DATA_PATH) or f"{table.location().rstrip('/')}/data"
    return f"{data.rstrip('/')}/neve-{run_id}"
