"""Sampling job of a table: windows whose records changed are sampled again, and replaced in one commit.

Files are written first: the kept records, and deletes of the rows that they replace. They are invisible before the
commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import uuid4

from neve.errors import LakeError
from neve.lake.calendar import micros_of, now_utc
from neve.lake.commit.java_commit import RowChange, change_rows, retry_conflicts
from neve.lake.read.incremental import format_changed_windows, never_frozen
from neve.lake.read.snapshot_files import filter_by_time, scan_files
from neve.lake.spark.tasks import count_slices, run_tasks
from neve.lake.write.table_writer import Target
from neve.reservoir.metrics import count_failure, count_run
from neve.reservoir.results import TableRunResult, list_window_results
from neve.reservoir.tables.arrow_decide import count_kept
from neve.reservoir.tables.decide import DECIDED, FILE, Decider
from neve.reservoir.tables.expressions import explain_refusal
from neve.reservoir.tables.plan import Plan, Scope, plan_windows
from neve.reservoir.tables.run_context import RESERVOIR, RunContext
from neve.reservoir.tables.tasks import SCHEMA, FetchTask, MarkTask, parse_task_row
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from datetime import datetime

    from pyspark.sql import DataFrame

    from neve.lake.lake import Lake
    from neve.lake.read.incremental import Frozen
    from neve.lake.write.data_file_json import DataFileJson
    from neve.reservoir.config import LakeSampling
    from neve.reservoir.tables.plan import Counts
    from neve.reservoir.tables.tasks import FileChange
    from neve.state.documents import Documents
    from neve.state.leases import Lease


@dataclass(frozen=True)
class WrittenSample:
    """Added and removed rows, and the number of kept records of every window."""

    change: RowChange
    kept: Counts


@dataclass(frozen=True)
class SampleWriter:
    """Writer of the files of a plan, which are invisible before they are committed.

    `report` is called with each step.
    """

    lake: Lake
    context: RunContext
    plan: Plan
    decider: Decider
    report: Callable[[str], None]

    def write(self) -> WrittenSample:
        """Decide, write the kept records, and delete those that they replace."""
        added, kept = self._write_kept() if self.plan.records else ((), {})
        changes = self._delete_replaced()
        change = RowChange(
            added=added,
            deletes=tuple(file for one in changes for file in one.deletes),
            removed=tuple(file for one in changes for file in one.removed),
            from_snapshot=self.context.target_snapshot,
        )
        return WrittenSample(change, kept)

    def _delete_replaced(self) -> list[FileChange]:
        """Return the changes of the files that have rows of the windows."""
        context, micros = self.context, self.context.config.micros
        tasks = scan_files(context.target, filter_by_time(self.plan.time(micros)), snapshot_id=context.target_snapshot)
        if not tasks:
            return []
        marker = MarkTask(Target.of(context.target), self.plan.windows(micros))
        return run_tasks(self.lake.spark, marker, [task.file for task in tasks], slices=self._slices)

    @property
    def _slices(self) -> int:
        return count_slices(self.lake.spark)

    def _coalesce(self, decided: DataFrame) -> DataFrame:
        """Coalesce decisions to the number of cores.

        A cached result keeps the partitions of its shuffle, 200 for a few rows.
        """
        return decided.coalesce(self._slices)

    def _write_kept(self) -> tuple[tuple[DataFileJson, ...], Counts]:
        self.report("deciding")
        arrow = self.decider.arrow
        decisions = arrow.decide(self.plan) if arrow else None
        if decisions is not None:
            self.report("writing")
            placed = self.lake.spark.createDataFrame(decisions.select([*DECIDED, FILE]))
            return self._copy_records(placed, decisions.num_rows), count_kept(decisions)
        return self._write_kept_by_spark()

    def _write_kept_by_spark(self) -> tuple[tuple[DataFileJson, ...], Counts]:
        decided = self._coalesce(self.decider.decide(self.plan)).persist()
        try:
            kept, doubled = self.decider.count_kept(decided)
            if doubled:
                decided.unpersist()
                decided = self._coalesce(self.decider.decide_once(self.plan)).persist()
                kept, _doubled = self.decider.count_kept(decided)
            self.report("writing")
            placed = self.decider.locate(self.plan, decided).select(*DECIDED, FILE)
            return self._copy_records(placed, sum(kept.values())), kept
        finally:
            decided.unpersist()

    def _copy_records(self, placed: DataFrame, expected: int) -> tuple[DataFileJson, ...]:
        """Write the complete records of decisions, which have the files of the records, to new files."""
        context, config = self.context, self.context.config
        tasks = scan_files(context.source, filter_by_time(self.plan.time(config.micros)), snapshot_id=context.snapshot)
        fetch = FetchTask(
            source=Target.of(context.source),
            target=Target.of(context.target),
            files={task.file.file_path: task for task in tasks},
            config=config,
        )
        slices = max(1, min(len(tasks), self._slices))
        ordered = placed.repartition(slices, FILE).sortWithinPartitions(FILE)
        found = [parse_task_row((row.rows, row.files)) for row in ordered.mapInArrow(fetch, SCHEMA).collect()]
        rows = sum(number for number, _files in found)
        if rows != expected:
            name = ".".join(context.source.name())
            raise LakeError(
                f"{rows:,} records of {name} found for {expected:,} decisions",
                hint="nothing was changed; compact the table and sample again",
            )
        return tuple(file for _number, files in found for file in files)


Progress = Callable[[str, int, int], None]
EVERYTHING = Scope()
STEPS = ("counting", "deciding", "writing", "committing")


@dataclass(frozen=True)
class Sampler:
    """Sampler of one table of a lake into its sample table.

    Among all processes that share the state store, one run is active at a time. `frozen` returns the time before which
    an organization's rows may have been deleted by retention: samples of such rows stay.
    """

    lake: Lake
    table: str
    config: LakeSampling
    documents: Documents
    frozen: Frozen = never_frozen
    clock: Callable[[], datetime] = now_utc
    steal: bool = False
    progress: Progress = field(default=lambda _step, _done, _total: None)

    @property
    def target(self) -> str:
        """The table of the sample."""
        return f"{self.table}_sample"

    def run(self, scope: Scope = EVERYTHING) -> TableRunResult:
        """Sample the changes since the last run; plan again if another writer replaced files in the meantime."""
        self.lake.check_driver("sampling of a table")
        retry = retry_conflicts()
        name, seconds = f"reservoir:{self.target}", self.config.lease_seconds
        with hold_worker_lease(self.documents, name, seconds=seconds, what="reservoir", steal=self.steal) as lease:
            try:
                result: TableRunResult = retry(self._run, scope, lease)
            except Exception as error:
                count_failure(self.table)
                ours = explain_refusal(error, self.table)
                if ours is None:
                    raise
                raise ours from error
        count_run(result)
        return result

    def plan(self, scope: Scope = EVERYTHING) -> Plan:
        """Return the plan of a run.

        Records are counted, and nothing is written.
        """
        context = self._context(scope)
        return self._plan(context)[0]

    def _run(self, scope: Scope, lease: Lease) -> TableRunResult:
        began, context = time.monotonic(), self._context(scope)
        plan, wrong = self._plan(context)
        written = SampleWriter(self.lake, context, plan, self._decider(context), self._report).write()
        snapshot = ""
        if written.change.changes_rows or context.must_commit_position or (plan.to_sample and not context.previous):
            self._report("committing")
            lease.check()
            snapshot = str(self._commit(context, plan, written.change))
        change, position = written.change, context.position if snapshot else context.previous
        return TableRunResult(
            source=self.table,
            target=self.target,
            policy=self.config.policy,
            how=self.config.how,
            reason=context.reason,
            windows=list_window_results(plan.to_sample, written.kept, wrong),
            waiting=plan.waiting,
            left=plan.left,
            mixed=context.position.mixed,
            files_added=len(change.added),
            files_removed=len(change.removed),
            delete_files=len(change.deletes),
            bytes=sum(int(file["file-size-in-bytes"]) for file in (*change.added, *change.deletes)),
            source_snapshot=str(position.snapshot or "") if position else "",
            snapshot=snapshot,
            seconds=time.monotonic() - began,
        )

    def _context(self, scope: Scope) -> RunContext:
        source, target = self.lake.table(self.table), self.lake.table(self.target)
        return RunContext(source, target, self.config, scope, micros_of(self.clock()), self.frozen)

    def _decider(self, context: RunContext) -> Decider:
        return Decider(self.lake, self.config, self.table, context.source, context.snapshot or 0)

    def _plan(self, context: RunContext) -> tuple[Plan, Counts]:
        wanted = context.windows
        if context.snapshot is None or not wanted.time:
            return Plan(), {}
        self._report("counting")
        counts, wrong = self._decider(context).counts(wanted.time, wanted.scope.owner)
        return plan_windows(counts, wanted), wrong

    def _commit(self, context: RunContext, plan: Plan, change: RowChange) -> int:
        commit = change_rows(
            self.lake,
            self.target,
            change,
            batch_id=f"{RESERVOIR}:{self.target}:{uuid4().hex}",
            operation=RESERVOIR,
            summary={
                **context.position.to_summary(RESERVOIR),
                **format_changed_windows(plan.windows(self.config.micros)),
            },
        )
        return commit.snapshot_id

    def _report(self, step: str) -> None:
        self.progress(step, STEPS.index(step), len(STEPS))
