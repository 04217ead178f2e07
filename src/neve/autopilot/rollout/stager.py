"""Staging: rewrite a table into a new layout on a branch, in resumable steps, and prove its rows against main.

`discard_attempt` removes a branch that was not merged: its refs, snapshots, files and staged metadata.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    RemovePartitionSpecsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
)

from neve.autopilot.attempt import BranchState, StagedBranch
from neve.autopilot.rollout.reports import DiscardReport, StageReport
from neve.autopilot.rollout.row_proof import prove_rows
from neve.autopilot.rollout.stage_files import (
    Step,
    attempt_folder,
    format_selection,
    list_data_files,
    pack_steps,
    remove_unused_files,
)
from neve.autopilot.rollout.stage_setup import begin_attempt, stage_metadata
from neve.autopilot.rollout.step_rewriter import ATTEMPT, Curve, StepRewriter
from neve.errors import ConfigError, LakeError
from neve.lake.commit.branches import (
    IcebergBranches,
    find_ref_snapshot,
    list_branch_refs,
    make_tag_update,
    tag_name,
)
from neve.lake.commit.metadata import MetadataChange, commit_metadata
from neve.lake.read.history import list_ancestors
from neve.lake.read.snapshot_files import list_manifests
from neve.state.leases import hold_worker_lease

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate

    from neve.autopilot.config import StageConfig
    from neve.autopilot.history import History
    from neve.autopilot.rollout.stage_files import StageFile
    from neve.autopilot.rollout.stage_setup import StageRequest
    from neve.lake.lake import Lake
    from neve.state.leases import Lease


GROWING_METADATA = "last-updated-ms, last-sequence-number and metadata-log, which only grow"


@dataclass(frozen=True)
class AttemptRemains:
    """Remains of an attempt that was not merged, in the table's metadata."""

    refs: tuple[str, ...]
    snapshots: tuple[Snapshot, ...]
    spec_id: int | None
    schema_id: int | None
    kept_schema: str = ""  # why the schema stays

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """The updates that remove all of it."""
        found: list[TableUpdate] = [RemoveSnapshotRefUpdate(ref_name=name) for name in self.refs]
        if self.snapshots:
            found.append(RemoveSnapshotsUpdate(snapshot_ids=[one.snapshot_id for one in self.snapshots]))
        return tuple(found)


def discard_attempt(lake: Lake, record: StagedBranch, reason: str) -> DiscardReport:
    """Remove everything that an attempt has in a table; main's snapshot is not changed."""
    first = lake.table(record.table)
    remains = find_remains(first, record)
    manifests = _list_own_manifests(first, remains)
    table = commit_metadata(lake, record.table, lambda found: _build_removal(find_remains(found, record), record))
    for path in manifests:
        table.io.delete(path)
    removed = remove_unused_files(lake, table, attempt_folder(table, record.branch))
    return DiscardReport(
        record.id,
        record.table,
        record.branch,
        len(remains.snapshots),
        removed + len(manifests),
        reason,
        _list_leftovers(remains),
    )


def find_remains(table: Table, record: StagedBranch) -> AttemptRemains:
    """Find what has to be removed."""
    metadata = table.metadata
    refs = list_branch_refs(table, record.branch)
    others = [ref.snapshot_id for name, ref in metadata.refs.items() if name not in refs]
    needed = {one for head in others for one in list_ancestors(table, head)}
    snapshots = tuple(
        one
        for one in metadata.snapshots
        if one.snapshot_id not in needed
        and one.summary is not None
        and one.summary.additional_properties.get(ATTEMPT) == record.id
    )
    gone = {one.snapshot_id for one in snapshots}
    spec = record.new_spec
    has_spec = any(one.spec_id == spec for one in metadata.partition_specs) and metadata.default_spec_id != spec
    schema_id, kept = _find_removable_schema(table, record, gone)
    return AttemptRemains(refs, snapshots, spec if has_spec else None, schema_id, kept)


def _find_removable_schema(table: Table, record: StagedBranch, gone: set[int]) -> tuple[int | None, str]:
    """Return the schema that can be removed, or the reason why it can't."""
    staged, metadata = record.schema_id, table.metadata
    if staged is None or all(one.schema_id != staged for one in metadata.schemas):
        return None, ""
    names = ", ".join(one.name for one in record.layout.promoted)
    if metadata.current_schema_id != staged:
        return None, f"{names}: the schema was changed again since"
    used = [one.snapshot_id for one in metadata.snapshots if one.schema_id == staged and one.snapshot_id not in gone]
    if used:
        return None, f"{names}: snapshot {used[-1]} was written with them, where they are null"
    return staged, ""


def _build_removal(remains: AttemptRemains, record: StagedBranch) -> MetadataChange | None:
    updates = list(remains.updates)
    if remains.schema_id is not None:
        updates.append(SetCurrentSchemaUpdate(schema_id=record.before.schema_id))
        updates.append(RemoveSchemasUpdate(schema_ids=[remains.schema_id]))
    if remains.spec_id is not None:
        updates.append(RemovePartitionSpecsUpdate(spec_ids=[remains.spec_id]))
    return MetadataChange(tuple(updates)) if updates else None


def _list_own_manifests(table: Table, remains: AttemptRemains) -> list[str]:
    """Return the manifest lists of the snapshots, and the manifests that these snapshots added."""
    ids = {one.snapshot_id for one in remains.snapshots}
    found = [
        manifest.manifest_path
        for one in remains.snapshots
        for manifest in list_manifests(table, one)
        if manifest.added_snapshot_id in ids
    ]
    return sorted({*found, *(one.manifest_list for one in remains.snapshots)})


def _list_leftovers(remains: AttemptRemains) -> tuple[str, ...]:
    left = [GROWING_METADATA]
    if remains.spec_id is not None:
        left.append("last-partition-id, which counts the fields of the spec that was staged")
    if remains.schema_id is not None:
        left.append("last-column-id, which counts the columns that were staged")
    if remains.kept_schema:
        left.append(f"the columns {remains.kept_schema}")
    return tuple(left)


BASE_SUFFIX = ".base"
Progress = Callable[[int, int], None]
UNSUPPORTED_BRANCHES = {
    "nessie": "each branch of Nessie has its own catalog, to which the session of the lake is not connected",
    "lakefs": "the open version of lakeFS has no Iceberg catalog: its branches have files, not snapshots of tables",
}


@dataclass(frozen=True)
class Stager:
    """Stager of layouts, which also discards them; `steal` takes the lease from a run that is known to be dead."""

    lake: Lake
    config: StageConfig
    history: History
    curve: Curve
    steal: bool = False

    def lease(self, table: str) -> AbstractContextManager[Lease]:
        """Acquire the lease on a table's layout, which one process has at a time."""
        name, seconds = f"autopilot:{'.'.join(self.lake.table(table).name())}", self.config.lease_seconds
        return hold_worker_lease(self.history.documents, name, seconds=seconds, what="autopilot", steal=self.steal)

    def stage(self, change: StageRequest, progress: Progress | None = None) -> StageReport:
        """Stage the layout on a branch, or resume a run that was killed; main returns the same rows as before."""
        check_branch_kind(self.config)
        started = time.monotonic()
        with self.lease(change.table) as lease:
            record = self.history.find_branch(change.attempt_id) or self.history.put_branch(
                begin_attempt(self.lake.table(change.table), change)
            )
            _check_state(record, change)
            record = self.history.put_branch(stage_metadata(self.lake, record))
            found = self._branch(record)
            steps = self._steps(record)
            for number, step in enumerate(steps):
                lease.check()
                self.rewriter(record, record.branch).rewrite(step)
                if progress is not None:
                    progress(number + 1, len(steps))
            report = self._prove_rows(record, steps, found, started)
            self.history.put_branch(record.update(state=BranchState.STAGED))
        return report

    def discard(self, attempt_id: str, reason: str) -> DiscardReport:
        """Discard an attempt that was not merged."""
        record = self.history.get_branch(attempt_id)
        with self.lease(record.table):
            # The table decides, not the record: a run that was killed just after its merge has not recorded it.
            if tag_name(attempt_id) in self.lake.table(record.table).metadata.refs:
                raise LakeError(
                    f"the attempt {attempt_id} was merged", hint="`neve autopilot rollback` restores the layout"
                )
            report = discard_attempt(self.lake, record, reason)
            self.history.put_branch(record.update(state=BranchState.ROLLED_BACK))
        return report

    def rewriter(self, record: StagedBranch, branch: str) -> StepRewriter:
        """Return the rewriter for a branch of the attempt; all branches of the attempt share its folder."""
        folder = attempt_folder(self.lake.table(record.table), record.branch)
        return StepRewriter(self.lake, record, branch, folder, self.curve)

    def _branch(self, record: StagedBranch) -> int:
        """Create the branch, or clean up an existing one, and return the number of steps that it has already."""
        branches = IcebergBranches(self.lake, record.table)
        head = branches.head(record.branch)
        if head is None:
            branches.create(record.branch, str(record.base))
        table = commit_metadata(self.lake, record.table, lambda found: _tag_base(found, record))
        if head is None:
            return 0
        # Files of a step that was not committed. The lease guarantees that no other process writes any now.
        remove_unused_files(self.lake, table, attempt_folder(table, record.branch))
        return list_ancestors(table, int(head)).index(record.base)

    def _steps(self, record: StagedBranch) -> tuple[Step, ...]:
        table = self.lake.table(record.table)
        return pack_steps(list_pending_files(table, record), self.config.step_bytes)

    def _prove_rows(self, record: StagedBranch, steps: tuple[Step, ...], found: int, started: float) -> StageReport:
        table = self.lake.table(record.table)
        head = find_ref_snapshot(table, record.branch)
        if head is None:
            raise LakeError(f"the branch {record.branch} of {record.table} was removed while it was staged")
        proof = prove_rows(self.lake, record.table, record.base, head, record.layout.promoted)
        before, after = list_data_files(table, record.base), list_data_files(table, head)
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
            _format_reasons(record, proof.rows),
            record.left_out,
        )


def _tag_base(table: Table, record: StagedBranch) -> MetadataChange | None:
    """Tag the base of the comparison and the replay, because main may move on and expire it before an approval."""
    name = f"{record.branch}{BASE_SUFFIX}"
    return None if name in table.metadata.refs else MetadataChange((make_tag_update(name, record.base),))


def list_pending_files(table: Table, record: StagedBranch) -> list[StageFile]:
    """Return the files that are still to be rewritten: files of the base that the branch still has."""
    head = find_ref_snapshot(table, record.branch)
    before, after = (
        list_data_files(table, record.base),
        list_data_files(table, head if head is not None else record.base),
    )
    wanted = before if record.files is None else record.files
    unknown = [path for path in wanted if path not in before]
    if unknown:
        raise ConfigError(f"{len(unknown)} files are not in {record.table} at {record.base}, the first is {unknown[0]}")
    return [before[path] for path in wanted if path in after]


def check_branch_kind(config: StageConfig) -> None:
    """Raise `LakeError` if a table can't be staged on the configured branches."""
    if config.branches != "iceberg":
        raise LakeError(
            f"autopilot.stage.branches is {config.branches!r}: {UNSUPPORTED_BRANCHES[config.branches]}",
            hint="set it to iceberg, which works on every catalog",
        )


def _check_state(record: StagedBranch, change: StageRequest) -> None:
    if record.state in (BranchState.MERGED, BranchState.ROLLED_BACK):
        raise ConfigError(f"the attempt {record.id} is {record.state.value}, expected an unfinished attempt")
    files = record.files if change.files is None else change.files
    if (record.table, record.layout, record.files) != (change.table, change.layout, files):
        raise ConfigError(f"the attempt {record.id} is another change of {record.table}: {record.layout}")


def _format_reasons(record: StagedBranch, rows: int) -> tuple[str, ...]:
    found = [] if not record.left_out else [format_selection(len(record.files or ()), record.left_out)]
    found.append(f"{rows:,} rows are equal on main and on {record.branch}, by count and by hash")
    if record.new_spec is not None:
        found.append(f"partition spec {record.new_spec} was added and is not the default")
    if record.schema_id is not None:
        names = ", ".join(one.name for one in record.layout.promoted)
        found.append(
            f"new columns: {names}; they are null on main until the merge, and later in rows of writers that omit them"
        )
    return tuple(found)
