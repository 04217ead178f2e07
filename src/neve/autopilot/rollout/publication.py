"""Publication of a staged layout on main, and its rollback; each ends in one guarded commit.

Publishing moves main to the head of the branch, sets spec, sort order and properties, and tags the old main. A
rollback restores the old files if nothing else changed them, and always the old spec and sort order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.update import (
    AddSortOrderUpdate,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
)

from neve.autopilot.rollout.reports import RollbackReport
from neve.autopilot.rollout.step_rewriter import ATTEMPT, PINNED, make_batch_id
from neve.autopilot.table_layout import resolve_sort_order
from neve.errors import CommitConflict, LakeError
from neve.lake.commit.append import TableMoved
from neve.lake.commit.branch_files import find_applied_deletes, list_swaps, swap_on_branch
from neve.lake.commit.branches import (
    MAIN_BRANCH,
    IcebergBranches,
    find_ref_snapshot,
    list_branch_refs,
    make_branch_update,
    make_tag_update,
    tag_name,
)
from neve.lake.commit.java_commit import Replacement
from neve.lake.commit.metadata import MetadataChange, commit_metadata
from neve.lake.read.history import list_ancestors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    from neve.autopilot.attempt import StagedBranch
    from neve.autopilot.rollout.reports import RollbackFiles
    from neve.lake.commit.branch_files import FileSwap
    from neve.lake.lake import Lake


def publish_branch(lake: Lake, record: StagedBranch, branch: str, main: int, still_ours: Callable[[], None]) -> Table:
    """Move main to the head of the branch.

    Raises `TableMoved` if main is no longer at `main`. The catalog applies all updates or none, and none if another
    writer committed in between.
    """

    def decide(table: Table) -> MetadataChange | None:
        if tag_name(record.id) in table.metadata.refs:
            return None
        still_ours()
        return _build_publication(table, record, branch, main)

    return commit_metadata(lake, record.table, decide)


def is_order_taken(metadata: TableMetadata, record: StagedBranch) -> bool:
    """Return whether staged files name a sort order id that another sort order has taken since."""
    return record.sets_order and resolve_sort_order(metadata, record.layout.sort).order_id != record.order_id


def build_property_updates(changed: Mapping[str, str | None]) -> list[TableUpdate]:
    """Return the updates that set properties, and remove those whose value is None."""
    given = {key: value for key, value in changed.items() if value is not None}
    removed = [key for key, value in changed.items() if value is None]
    updates: list[TableUpdate] = [SetPropertiesUpdate(updates=given)] if given else []
    return [*updates, RemovePropertiesUpdate(removals=removed)] if removed else updates


def _build_publication(table: Table, record: StagedBranch, branch: str, main: int) -> MetadataChange:
    metadata, head, now = table.metadata, find_ref_snapshot(table, branch), find_ref_snapshot(table, MAIN_BRANCH)
    if head is None or record.spec_id is None:
        raise LakeError(f"{record.table} has no branch {branch}: it was rolled back, or is not staged yet")
    if now != main or main not in list_ancestors(table, head):
        raise TableMoved(f"main of {record.table} is at {now}, which is not an ancestor of {branch}")
    if metadata.default_spec_id not in (record.before.spec_id, record.spec_id):
        raise LakeError(
            f"{record.table} has the partition spec {metadata.default_spec_id}, expected {record.before.spec_id}",
            hint="roll the attempt back: its estimate was for another layout",
        )
    updates: list[TableUpdate] = [
        make_branch_update(table, MAIN_BRANCH, head),
        make_tag_update(tag_name(record.id), main),
        *_build_layout_updates(metadata, record),
        *build_property_updates(
            {key: value for key, value in record.properties.items() if not _has_property(table, key, value)}
        ),
        *(RemoveSnapshotRefUpdate(ref_name=name) for name in list_branch_refs(table, record.branch)),
    ]
    return MetadataChange(
        tuple(updates),
        (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main), AssertRefSnapshotId(ref=branch, snapshot_id=head)),
    )


def _has_property(table: Table, key: str, value: str | None) -> bool:
    return table.properties.get(key) == value


def _build_layout_updates(metadata: TableMetadata, record: StagedBranch) -> list[TableUpdate]:
    updates: list[TableUpdate] = []
    if record.spec_id is not None and record.spec_id != metadata.default_spec_id:
        updates.append(SetDefaultSpecUpdate(spec_id=record.spec_id))
    if record.sets_order:
        order = resolve_sort_order(metadata, record.layout.sort)
        if all(one.order_id != order.order_id for one in metadata.sort_orders):
            updates.append(AddSortOrderUpdate(sort_order=order))
        updates.append(SetDefaultSortOrderUpdate(sort_order_id=order.order_id))
    return updates


def restore_layout(lake: Lake, record: StagedBranch, attempts: int) -> RollbackReport:
    """Roll a merge back; main keeps every row that was added since."""
    tag = tag_name(record.id)
    for _attempt in range(attempts):
        table = lake.table(record.table)
        before, main = find_ref_snapshot(table, tag), find_ref_snapshot(table, MAIN_BRANCH)
        if before is None or main is None:
            raise LakeError(f"{record.table} has no tag {tag} any more, so the merge can't be rolled back")
        try:
            if main == record.merged_to:
                _commit_rollback(lake, record, main, before)
                return _build_report(record, "restored", before, "main had no new commits since the merge")
            return _restore_moved(lake, record, before, main)
        except TableMoved:
            continue
    raise CommitConflict(f"main of {record.table} changed during each of {attempts} rollback attempts")


def _restore_moved(lake: Lake, record: StagedBranch, before: int, main: int) -> RollbackReport:
    """Roll back if main has new commits: swap the files back if they are unchanged, otherwise leave them."""
    try:
        swaps = tuple(list_swaps(lake, record.table, before, record.merged_to or main, PINNED))
    except CommitConflict as forgotten:
        return _keep_files(lake, record, main, forgotten.message)
    deletes = find_applied_deletes(lake, record.table, before)
    if any(deletes.get(path) for one in swaps for path in one.paths):
        return _keep_files(lake, record, main, "deletes had been applied to the old files")
    branch = f"{record.branch}.back"
    branches = IcebergBranches(lake, record.table)
    branches.remove(branch)  # a remainder of a killed run
    branches.create(branch, str(main))
    try:
        _swap_files_back(lake, record, branch, swaps, before)
    except CommitConflict as conflict:
        branches.remove(branch)
        return _keep_files(lake, record, main, conflict.message)
    head = find_ref_snapshot(lake.table(record.table), branch)
    _commit_rollback(lake, record, main, main if head is None else head, branch)
    return _build_report(
        record, "swapped back", main if head is None else head, "main has new commits: their files stay"
    )


def _keep_files(lake: Lake, record: StagedBranch, main: int, why: str) -> RollbackReport:
    _commit_rollback(lake, record, main, main)
    return _build_report(
        record, "kept", main, f"{why}: the files stay until compaction rewrites them in the old layout"
    )


def _swap_files_back(lake: Lake, record: StagedBranch, branch: str, swaps: Sequence[FileSwap], before: int) -> None:
    table = lake.table(record.table)
    old, merged = table.snapshot_by_id(before), record.merged_to
    if merged is None or old is None:
        raise LakeError(f"the record of {record.id} has no merged snapshot of {record.table}")
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
        batch_id=make_batch_id(record.id, find_ref_snapshot(table, branch), paths),
        summary={ATTEMPT: f"{record.id}:back"},
    )


def _commit_rollback(lake: Lake, record: StagedBranch, main: int, target: int, branch: str | None = None) -> None:
    """Commit main, default spec, sort order and properties at once, and remove the tag."""
    tag = tag_name(record.id)

    def decide(table: Table) -> MetadataChange | None:
        if tag not in table.metadata.refs:
            return None
        now = find_ref_snapshot(table, MAIN_BRANCH)
        if now != main:
            raise TableMoved(f"main of {record.table} is at {now}, expected {main}")
        refs = [tag] if branch is None else [tag, branch]
        updates: list[TableUpdate] = [
            *([make_branch_update(table, MAIN_BRANCH, target)] if target != main else []),
            *_build_old_layout(table, record),
            *(RemoveSnapshotRefUpdate(ref_name=name) for name in refs),
        ]
        return MetadataChange(tuple(updates), (AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=main),))

    commit_metadata(lake, record.table, decide)


def _build_old_layout(table: Table, record: StagedBranch) -> list[TableUpdate]:
    """Return the updates that restore the old metadata; settings that someone else has changed since are left."""
    metadata, before = table.metadata, record.before
    updates: list[TableUpdate] = []
    if metadata.default_spec_id == record.spec_id and record.spec_id != before.spec_id:
        updates.append(SetDefaultSpecUpdate(spec_id=before.spec_id))
    if record.sets_order and metadata.default_sort_order_id != before.order_id:
        updates.append(SetDefaultSortOrderUpdate(sort_order_id=before.order_id))
    ours = [key for key, value in record.properties.items() if table.properties.get(key) == value]
    old = {key: before.properties[key] for key in ours if table.properties.get(key) != before.properties[key]}
    return [*updates, *build_property_updates(old)]


def _build_report(record: StagedBranch, files: RollbackFiles, main: int, why: str) -> RollbackReport:
    reasons = [why, f"partition spec {record.before.spec_id} and sort order {record.before.order_id} are the default"]
    if record.layout.promoted:
        names = ", ".join(one.name for one in record.layout.promoted)
        reasons.append(f"the columns {names} stay, because queries may use them; they are null in the old files")
    return RollbackReport(record.id, record.table, files, main, tuple(reasons))
