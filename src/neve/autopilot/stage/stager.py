"""Staging: a new layout on a branch, in steps that a killed run does not lose, proven against main."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.stage.begin import begun
from neve.autopilot.stage.discard import discard
from neve.autopilot.stage.gain import said
from neve.autopilot.stage.listing import files_at, folder_of, remove_unused
from neve.autopilot.stage.prepare import stage_metadata
from neve.autopilot.stage.proof import proven
from neve.autopilot.stage.record import Record, Records, State
from neve.autopilot.stage.result import DiscardReport, StageReport
from neve.autopilot.stage.rewrite import Curve, StepRewriter
from neve.autopilot.stage.steps import Step, steps_of
from neve.errors import ConfigError, LakeError
from neve.lake.branches import IcebergBranches, ancestors, set_tag, snapshot_of, tag_name
from neve.lake.leases import work_under
from neve.lake.metadata_commit import MetadataChange, commit_metadata

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyiceberg.table import Table

    from neve.autopilot.stage.begin import Change
    from neve.autopilot.stage.steps import StageFile
    from neve.autopilot.stage_config import StageConfig
    from neve.lake.documents import Documents
    from neve.lake.lake import Lake
    from neve.lake.leases import Lease

BASE = ".base"
Progress = Callable[[int, int], None]
UNSUITED = {
    "nessie": "Nessie's branches have a catalog of their own each, which a lake's session is not connected to",
    "lakefs": "lakeFS's open version has no Iceberg catalog: its branches hold files, not a table's snapshots",
}


@dataclass(frozen=True)
class Stager:
    """Stages layouts and takes them back."""

    lake: Lake
    config: StageConfig
    documents: Documents
    curve: Curve

    @property
    def records(self) -> Records:
        """What is known of attempts."""
        return Records(self.documents)

    def lease(self, table: str, *, steal: bool = False) -> AbstractContextManager[Lease]:
        """The right to change a table's layout, which one process has at a time."""
        name = f"autopilot:{'.'.join(self.lake.table(table).name())}"
        return work_under(self.documents, name, seconds=self.config.lease_seconds, what="autopilot", steal=steal)

    def stage(self, change: Change, progress: Progress | None = None, *, steal: bool = False) -> StageReport:
        """Put the layout on a branch, or go on where a killed run stopped; main reads as before."""
        check_native(self.config)
        started = time.monotonic()
        with self.lease(change.table, steal=steal) as lease:
            record = self.records.find(change.attempt_id) or self.records.put(
                begun(self.lake.table(change.table), change)
            )
            _check_state(record, change)
            record = self.records.put(stage_metadata(self.lake, record))
            found = self._branch(record)
            steps = self._steps(record)
            for number, step in enumerate(steps):
                lease.check()
                self.rewriter(record, record.branch).rewrite(step)
                if progress is not None:
                    progress(number + 1, len(steps))
            report = self._proven(record, steps, found, started)
            self.records.put(record.changed(state=State.STAGED))
        return report

    def discard(self, attempt_id: str, reason: str, *, steal: bool = False) -> DiscardReport:
        """Take an attempt back that was not merged."""
        record = self.records.get(attempt_id)
        with self.lease(record.table, steal=steal):
            # What the table says: a run that was killed just after its merge has not noted it.
            if tag_name(attempt_id) in self.lake.table(record.table).metadata.refs:
                raise LakeError(
                    f"the attempt {attempt_id} was merged", hint="`neve autopilot rollback` restores the layout"
                )
            report = discard(self.lake, record, reason)
            self.records.put(record.changed(state=State.ROLLED_BACK))
        return report

    def rewriter(self, record: Record, branch: str) -> StepRewriter:
        """What rewrites steps on a branch of the attempt; the folder is the attempt's, whichever branch it is."""
        folder = folder_of(self.lake.table(record.table), record.branch)
        return StepRewriter(self.lake, record, branch, folder, self.curve)

    def _branch(self, record: Record) -> int:
        """Make the branch, or tidy the one that is there; how many steps it has already."""
        branches = IcebergBranches(self.lake, record.table)
        head = branches.head(record.branch)
        if head is None:
            branches.create(record.branch, str(record.base))
        table = commit_metadata(self.lake, record.table, lambda found: _keeping_base(found, record))
        if head is None:
            return 0
        # Files of a step that was not committed; the lease says that nobody writes any now.
        remove_unused(self.lake, table, folder_of(table, record.branch))
        return ancestors(table, int(head)).index(record.base)

    def _steps(self, record: Record) -> tuple[Step, ...]:
        table = self.lake.table(record.table)
        return steps_of(waiting(table, record), self.config.step_bytes)

    def _proven(self, record: Record, steps: tuple[Step, ...], found: int, started: float) -> StageReport:
        table = self.lake.table(record.table)
        head = snapshot_of(table, record.branch)
        if head is None:
            raise LakeError(f"the branch {record.branch} of {record.table} was removed while it was staged")
        proof = proven(self.lake, record.table, record.base, head, record.layout.promoted)
        before, after = files_at(table, record.base), files_at(table, head)
        gone = [file for path, file in before.items() if path not in after]
        new = [file for path, file in after.items() if path not in before]
        return StageReport(
            record.id,
            record.table,
            record.branch,
            record.base,
            head,
            len(steps),
            found,
            len(gone),
            len(new),
            sum(file.bytes for file in gone),
            sum(file.bytes for file in new),
            proof.rows,
            time.monotonic() - started,
            _reasons(record, proof.rows),
            record.left_out,
        )


def _keeping_base(table: Table, record: Record) -> MetadataChange | None:
    """A tag on what is compared with and replayed from: main may move on, and forget it, before somebody approves."""
    name = f"{record.branch}{BASE}"
    return None if name in table.metadata.refs else MetadataChange((set_tag(name, record.base),))


def waiting(table: Table, record: Record) -> list[StageFile]:
    """The files that are still to be rewritten: those of the base that the branch still has."""
    head = snapshot_of(table, record.branch)
    before, after = files_at(table, record.base), files_at(table, head if head is not None else record.base)
    wanted = before if record.files is None else record.files
    unknown = [path for path in wanted if path not in before]
    if unknown:
        raise ConfigError(f"{len(unknown)} files are not in {record.table} at {record.base}, the first is {unknown[0]}")
    return [before[path] for path in wanted if path in after]


def check_native(config: StageConfig) -> None:
    """Raises `LakeError` where a table can't be staged on the branches that are configured."""
    if config.branches != "iceberg":
        raise LakeError(
            f"autopilot.stage.branches is {config.branches!r}: {UNSUITED[config.branches]}",
            hint="set it to iceberg, which works on every catalog",
        )


def _check_state(record: Record, change: Change) -> None:
    if record.state in (State.MERGED, State.ROLLED_BACK):
        raise ConfigError(f"the attempt {record.id} is {record.state.value}, expected one that is not over")
    files = record.files if change.files is None else change.files
    if (record.table, record.layout, record.files) != (change.table, change.layout, files):
        raise ConfigError(f"the attempt {record.id} is about another change of {record.table}: {record.layout}")


def _reasons(record: Record, rows: int) -> tuple[str, ...]:
    found = [] if not record.left_out else [said(len(record.files or ()), record.left_out)]
    found.append(f"{rows:,} rows are the same on main and on {record.branch}, by number and by hash")
    if record.new_spec is not None:
        found.append(f"partition spec {record.new_spec} was added and is not the default")
    if record.schema_id is not None:
        names = ", ".join(one.name for one in record.layout.promoted)
        found.append(f"new columns: {names}; on main they are null until the merge, later where writers leave them out")
    return tuple(found)
