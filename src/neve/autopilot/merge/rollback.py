"""The way back from a merge: the old files where nothing else was done to them, and always the old spec and order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemoveSnapshotRefUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
)

from neve.autopilot.merge.publish import property_updates
from neve.autopilot.merge.result import RollbackReport
from neve.autopilot.stage.rewrite import ATTEMPT, PINNED, batch_id
from neve.errors import CommitConflict, LakeError
from neve.lake.branch_files import applied_deletes, swap_on_branch, swaps_between
from neve.lake.branches import MAIN, IcebergBranches, set_branch, snapshot_of, tag_name
from neve.lake.commits import TableMoved
from neve.lake.metadata_commit import MetadataChange, commit_metadata
from neve.lake.replace import Replacement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableUpdate

    from neve.autopilot.merge.result import Files
    from neve.autopilot.stage.record import Record
    from neve.lake.branch_files import Swap
    from neve.lake.lake import Lake


def restore(lake: Lake, record: Record, attempts: int) -> RollbackReport:
    """Take a merge back; main keeps every row that it has got since."""
    tag = tag_name(record.id)
    for _attempt in range(attempts):
        table = lake.table(record.table)
        before, main = snapshot_of(table, tag), snapshot_of(table, MAIN)
        if before is None or main is None:
            raise LakeError(f"{record.table} has no tag {tag} any more, so what was merged can't be taken back")
        try:
            if main == record.merged_to:
                _commit(lake, record, main, before)
                return _report(record, "restored", before, "main had not moved since the merge")
            return _moved(lake, record, before, main)
        except TableMoved:
            continue
    raise CommitConflict(f"main of {record.table} moved under each of {attempts} attempts to roll back")


def _moved(lake: Lake, record: Record, before: int, main: int) -> RollbackReport:
    """Main has got more since: swap the files back if nobody touched them, otherwise leave them."""
    try:
        swaps = tuple(swaps_between(lake, record.table, before, record.merged_to or main, PINNED))
    except CommitConflict as forgotten:
        return _kept(lake, record, main, forgotten.message)
    deletes = applied_deletes(lake, record.table, before)
    if any(deletes.get(path) for one in swaps for path in one.paths):
        return _kept(lake, record, main, "deletes had been applied to the old files")
    branch = f"{record.branch}.back"
    branches = IcebergBranches(lake, record.table)
    branches.remove(branch)  # what a killed run left
    branches.create(branch, str(main))
    try:
        _swap_back(lake, record, branch, swaps, before)
    except CommitConflict as conflict:
        branches.remove(branch)
        return _kept(lake, record, main, conflict.message)
    head = snapshot_of(lake.table(record.table), branch)
    _commit(lake, record, main, main if head is None else head, branch)
    return _report(record, "swapped back", main if head is None else head, "main had moved on: its new files stay")


def _kept(lake: Lake, record: Record, main: int, why: str) -> RollbackReport:
    _commit(lake, record, main, main)
    return _report(record, "kept", main, f"{why}: the files stay until compaction rewrites them in the old layout")


def _swap_back(lake: Lake, record: Record, branch: str, swaps: Sequence[Swap], before: int) -> None:
    table = lake.table(record.table)
    old, merged = table.snapshot_by_id(before), record.merged_to
    if merged is None or old is None:
        raise LakeError(f"nobody knows what {record.id} put on main of {record.table}")
    added = tuple(file for one in swaps for file in one.added)
    paths = frozenset(str(file["file-path"]) for file in added)
    replacement = Replacement(
        added, tuple(file for one in swaps for file in one.removed), merged, data_sequence=old.sequence_number
    )
    swap_on_branch(
        lake,
        record.table,
        branch,
        replacement,
        batch_id=batch_id(record.id, snapshot_of(table, branch), paths),
        summary={ATTEMPT: f"{record.id}:back"},
    )


def _commit(lake: Lake, record: Record, main: int, target: int, branch: str | None = None) -> None:
    """One commit: main, default spec, sort order, properties; the tag goes."""
    tag = tag_name(record.id)

    def decide(table: Table) -> MetadataChange | None:
        if tag not in table.metadata.refs:
            return None
        now = snapshot_of(table, MAIN)
        if now != main:
            raise TableMoved(f"main of {record.table} is at {now}, expected {main}")
        refs = [tag] if branch is None else [tag, branch]
        updates: list[TableUpdate] = [
            *([set_branch(table, MAIN, target)] if target != main else []),
            *_old_layout(table, record),
            *(RemoveSnapshotRefUpdate(ref_name=name) for name in refs),
        ]
        return MetadataChange(tuple(updates), (AssertRefSnapshotId(ref=MAIN, snapshot_id=main),))

    commit_metadata(lake, record.table, decide)


def _old_layout(table: Table, record: Record) -> list[TableUpdate]:
    """What goes back of the table's own words; what somebody else has changed since is left alone."""
    metadata, before = table.metadata, record.before
    updates: list[TableUpdate] = []
    if metadata.default_spec_id == record.spec_id and record.spec_id != before.spec_id:
        updates.append(SetDefaultSpecUpdate(spec_id=before.spec_id))
    if record.sets_order and metadata.default_sort_order_id != before.order_id:
        updates.append(SetDefaultSortOrderUpdate(sort_order_id=before.order_id))
    ours = [key for key, value in record.properties.items() if table.properties.get(key) == value]
    old = {key: before.properties[key] for key in ours if table.properties.get(key) != before.properties[key]}
    return [*updates, *property_updates(old)]


def _report(record: Record, files: Files, main: int, why: str) -> RollbackReport:
    reasons = [why, f"partition spec {record.before.spec_id} and sort order {record.before.order_id} are the default"]
    if record.layout.promoted:
        names = ", ".join(one.name for one in record.layout.promoted)
        reasons.append(f"the columns {names} stay, since queries may use them; they are null in the old files")
    return RollbackReport(record.id, record.table, files, main, tuple(reasons))
