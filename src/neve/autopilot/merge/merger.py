"""The merge of a staged layout into main, whatever main did meanwhile; and the way back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import structlog

from neve.autopilot.merge.publish import moved_order, publish
from neve.autopilot.merge.rebase import Rebased, next_branch, rebase, staged_swaps
from neve.autopilot.merge.result import MergeReport, RollbackReport
from neve.autopilot.merge.rollback import restore
from neve.autopilot.stage.record import State
from neve.autopilot.stage.rewrite import ATTEMPT
from neve.autopilot.stage.stager import check_native
from neve.errors import CommitConflict, LakeError
from neve.lake.branches import MAIN, IcebergBranches, ancestors, snapshot_of, tag_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.stage.record import Record
    from neve.autopilot.stage.stager import Stager
    from neve.lake.branch_files import Swap
    from neve.lake.leases import Lease

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Merger:
    """Publishes staged layouts and takes published ones back."""

    stager: Stager

    def merge(self, attempt_id: str, message: str = "", *, steal: bool = False) -> MergeReport:
        """Publish a layout; once, also where a killed run has done it already."""
        check_native(self.stager.config)
        started = time.monotonic()
        record = self.stager.records.get(attempt_id)
        with self.stager.lease(record.table, steal=steal) as lease:
            record = self.stager.records.get(attempt_id)
            record = record.changed(message=message or record.message)
            if tag_name(record.id) in self._table(record).metadata.refs:
                return self._noted(record, None, 0, started)
            if record.state is not State.STAGED:
                raise LakeError(f"the attempt {attempt_id} is {record.state.value}, expected one that is staged")
            swaps = cache(lambda: staged_swaps(self.stager.lake, record))
            for number in range(self.stager.config.merge_attempts):
                rebased = self._attempt(record, swaps, number, lease)
                if rebased is not None:
                    return self._noted(record, rebased, number, started)
        raise CommitConflict(
            f"main of {record.table} moved under each of {self.stager.config.merge_attempts} attempts to merge",
            hint="nothing was published; merge again when there are fewer writers, or raise merge_attempts",
        )

    def rollback(self, attempt_id: str, *, steal: bool = False) -> RollbackReport:
        """Restore the layout that a merge replaced, while its tag lives."""
        record = self.stager.records.get(attempt_id)
        with self.stager.lease(record.table, steal=steal):
            record = self._settled(self.stager.records.get(attempt_id))
            if record.state is not State.MERGED:
                raise LakeError(f"the attempt {attempt_id} is {record.state.value}, expected one that is merged")
            report = restore(self.stager.lake, record, self.stager.config.merge_attempts)
            self.stager.records.put(record.changed(state=State.ROLLED_BACK))
        return report

    def is_merged(self, attempt_id: str) -> bool:
        """Whether an attempt is on main, by what the table says."""
        record = self.stager.records.get(attempt_id)
        return tag_name(record.id) in self._table(record).metadata.refs

    def _settled(self, record: Record) -> Record:
        """The record of an attempt, with a merge that a killed run has not noted."""
        table = self._table(record)
        before, after = snapshot_of(table, tag_name(record.id)), merged_snapshot(table, record.id)
        if before is None or after is None:
            return record
        return self.stager.records.put(record.changed(state=State.MERGED, merged_from=before, merged_to=after))

    def _table(self, record: Record) -> Table:
        return self.stager.lake.table(record.table)

    def _attempt(
        self, record: Record, swaps: Callable[[], Sequence[Swap]], number: int, lease: Lease
    ) -> Rebased | None:
        """Publish on what main is now; none where it moved before that was done."""
        table = self._table(record)
        main, rebased = snapshot_of(table, MAIN), Rebased(record.branch, record.base, 0, 0)
        branch = next_branch(record, number)
        try:
            if main != record.base or moved_order(table.metadata, record):
                rebased = rebase(self.stager, record, swaps(), branch)
            publish(self.stager.lake, record, rebased.branch, rebased.main, lease.check)
        except CommitConflict as conflict:
            if snapshot_of(self._table(record), MAIN) == main:
                raise
            log.info("main moved before a merge", table=record.table, attempt=record.id, reason=conflict.message)
            IcebergBranches(self.stager.lake, record.table).remove(branch)
            return None
        return rebased

    def _noted(self, record: Record, rebased: Rebased | None, number: int, started: float) -> MergeReport:
        record = self._settled(record)
        before, after = record.merged_from, record.merged_to
        if before is None or after is None:
            raise LakeError(f"{record.table} shows no merge of {record.id}, expected it under {tag_name(record.id)}")
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
            _reasons(record, rebased),
        )


def merged_snapshot(table: Table, attempt_id: str) -> int | None:
    """The newest snapshot of main that an attempt made."""
    for snapshot_id in ancestors(table, snapshot_of(table, MAIN)):
        snapshot = table.snapshot_by_id(snapshot_id)
        summary = snapshot.summary if snapshot else None
        if summary is not None and summary.additional_properties.get(ATTEMPT) == attempt_id:
            return snapshot_id
    return None


def _reasons(record: Record, rebased: Rebased | None) -> tuple[str, ...]:
    if rebased is None:
        return ("it was merged before",)
    if rebased.branch == record.branch:
        return ("main had not moved since the branch was made",)
    found = [f"main had moved on: the swap of {rebased.replayed} files was replayed on it"]
    if rebased.redone:
        found.append(
            f"{rebased.redone} files were touched on main meanwhile, or came without new columns: staged again"
        )
    return tuple(found)
