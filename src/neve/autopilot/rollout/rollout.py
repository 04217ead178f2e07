"""Rollout of an attempt: stage, canary, merge, measure and roll back.

A merge publishes under a lease, and rebases where main has moved meanwhile.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from neve.autopilot.attempt import BranchState
from neve.autopilot.rollout.canary import Canary
from neve.autopilot.rollout.publication import is_order_taken, publish_branch, restore_layout
from neve.autopilot.rollout.rebase import RebasedBranch, list_staged_swaps, name_rebase_branch, rebase_branch
from neve.autopilot.rollout.reports import CanaryTrial, MergeReport
from neve.autopilot.rollout.stager import Stager, check_branch_kind
from neve.autopilot.rollout.step_rewriter import ATTEMPT
from neve.errors import CommitConflict, LakeError
from neve.lake.commit.branches import MAIN_BRANCH, IcebergBranches, find_ref_snapshot, tag_name
from neve.lake.read.history import list_ancestors
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.attempt import StagedBranch
    from neve.autopilot.rollout.canary import MergeMeasurement
    from neve.autopilot.rollout.canary_queries import CanaryQuery
    from neve.autopilot.rollout.reports import DiscardReport, RollbackReport
    from neve.autopilot.rollout.stager import Progress
    from neve.lake.commit.branch_files import FileSwap
    from neve.state.leases import Lease


log = get_logger(__name__)


@dataclass(frozen=True)
class Rollout(Stager):
    """All steps of an attempt on its table: stage and discard as the base class does, and the steps after."""

    def canary(self, attempt_id: str, queries: Sequence[CanaryQuery], progress: Progress | None = None) -> CanaryTrial:
        """Run hot queries on main and on the branch; a branch that fails is rolled back at once."""
        report = self._queries.run(self.history.get_branch(attempt_id), queries, progress)
        return CanaryTrial(report, None if report.passed else self.discard(attempt_id, "; ".join(report.reasons)))

    def measure_again(self, attempt_id: str, queries: Sequence[CanaryQuery]) -> MergeMeasurement:
        """Measure what a merge delivered."""
        return self._queries.measure_again(self.history.get_branch(attempt_id), queries)

    @property
    def _queries(self) -> Canary:
        return Canary(self.lake, self.config.canary)

    def rollback(self, attempt_id: str, reason: str = "requested") -> RollbackReport | DiscardReport:
        """Roll an attempt back: its merge if the table has one, otherwise its branch."""
        record = self.history.get_branch(attempt_id)
        if tag_name(record.id) in self._table(record).metadata.refs:
            return self._restore(attempt_id)
        return self.discard(attempt_id, reason)

    def merge(self, attempt_id: str, message: str = "") -> MergeReport:
        """Publish a layout exactly once, even if a killed run has published it already."""
        check_branch_kind(self.config)
        started = time.monotonic()
        record = self.history.get_branch(attempt_id)
        with self.lease(record.table) as lease:
            record = self.history.get_branch(attempt_id)
            record = record.update(message=message or record.message)
            if tag_name(record.id) in self._table(record).metadata.refs:
                return self._record_merge(record, None, 0, started)
            if record.state is not BranchState.STAGED:
                raise LakeError(f"the attempt {attempt_id} is {record.state.value}, expected one that is staged")
            swaps = cache(lambda: list_staged_swaps(self.lake, record))
            for number in range(self.config.merge_attempts):
                rebased = self._attempt(record, swaps, number, lease)
                if rebased is not None:
                    return self._record_merge(record, rebased, number, started)
        raise CommitConflict(
            f"main of {record.table} changed during each of {self.config.merge_attempts} merge attempts",
            hint="nothing was published; merge again when there are fewer writers, or raise merge_attempts",
        )

    def _restore(self, attempt_id: str) -> RollbackReport:
        """Restore the layout that a merge replaced, as long as its tag exists."""
        record = self.history.get_branch(attempt_id)
        with self.lease(record.table):
            record = self._reconcile(self.history.get_branch(attempt_id))
            if record.state is not BranchState.MERGED:
                raise LakeError(f"the attempt {attempt_id} is {record.state.value}, expected one that is merged")
            report = restore_layout(self.lake, record, self.config.merge_attempts)
            self.history.put_branch(record.update(state=BranchState.ROLLED_BACK))
        return report

    def _reconcile(self, record: StagedBranch) -> StagedBranch:
        """Return the record of an attempt, including a merge that a killed run did not record."""
        table = self._table(record)
        before, after = find_ref_snapshot(table, tag_name(record.id)), find_merged_snapshot(table, record.id)
        if before is None or after is None:
            return record
        return self.history.put_branch(record.update(state=BranchState.MERGED, merged_from=before, merged_to=after))

    def _table(self, record: StagedBranch) -> Table:
        return self.lake.table(record.table)

    def _attempt(
        self, record: StagedBranch, swaps: Callable[[], Sequence[FileSwap]], number: int, lease: Lease
    ) -> RebasedBranch | None:
        """Publish on the current main, or return None if main moved in the meantime."""
        table = self._table(record)
        main, rebased = find_ref_snapshot(table, MAIN_BRANCH), RebasedBranch(record.branch, record.base, 0, 0)
        branch = name_rebase_branch(record, number)
        try:
            if main != record.base or is_order_taken(table.metadata, record):
                rebased = rebase_branch(self, record, swaps(), branch)
            publish_branch(self.lake, record, rebased.branch, rebased.main, lease.check)
        except CommitConflict as conflict:
            if find_ref_snapshot(self._table(record), MAIN_BRANCH) == main:
                raise
            log.info(
                "branch main changed before the merge, retrying",
                table=record.table,
                attempt=record.id,
                reason=conflict.message,
            )
            IcebergBranches(self.lake, record.table).remove(branch)
            return None
        return rebased

    def _record_merge(
        self, record: StagedBranch, rebased: RebasedBranch | None, number: int, started: float
    ) -> MergeReport:
        record = self._reconcile(record)
        before, after = record.merged_from, record.merged_to
        if before is None or after is None:
            raise LakeError(f"{record.table} has no merge of {record.id}, expected the tag {tag_name(record.id)}")
        replayed = rebased is not None and rebased.branch != record.branch
        return MergeReport(
            record.id,
            record.table,
            "nothing" if rebased is None else ("replay" if replayed else "fast-forward"),
            before,
            after,
            tag_name(record.id),
            number + 1 if replayed else number,
            rebased.redone if rebased else 0,
            time.monotonic() - started,
            _format_reasons(record, rebased),
        )


def find_merged_snapshot(table: Table, attempt_id: str) -> int | None:
    """Return the newest snapshot of main that an attempt created."""
    for snapshot_id in list_ancestors(table, find_ref_snapshot(table, MAIN_BRANCH)):
        snapshot = table.snapshot_by_id(snapshot_id)
        summary = snapshot.summary if snapshot else None
        if summary is not None and summary.additional_properties.get(ATTEMPT) == attempt_id:
            return snapshot_id
    return None


def _format_reasons(record: StagedBranch, rebased: RebasedBranch | None) -> tuple[str, ...]:
    if rebased is None:
        return ("already merged",)
    if rebased.branch == record.branch:
        return ("main had no new commits since the branch was created",)
    found = [f"main had new commits: the swap of {rebased.replayed} files was replayed on them"]
    if rebased.redone:
        found.append(f"{rebased.redone} files were changed on main, or added without the new columns: staged again")
    return tuple(found)
