"""Rebase of a staged layout onto the current main: replay swaps of untouched files, stage the others again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.autopilot.rollout.row_proof import prove_rows
from neve.autopilot.rollout.stage_files import list_data_files, pack_steps
from neve.autopilot.rollout.step_rewriter import ATTEMPT, PINNED, make_batch_id
from neve.autopilot.table_layout import resolve_sort_order
from neve.errors import CommitConflict, LakeError
from neve.lake.commit.branch_files import EQUALITY_DELETES, find_applied_deletes, list_swaps, swap_on_branch
from neve.lake.commit.branches import MAIN_BRANCH, IcebergBranches, find_ref_snapshot
from neve.lake.commit.java_commit import Replacement, TableBusy
from neve.logger import get_logger

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.attempt import StagedBranch
    from neve.autopilot.rollout.stage_files import StageFile
    from neve.autopilot.rollout.stager import Stager
    from neve.lake.commit.branch_files import FileSwap
    from neve.lake.lake import Lake

log = get_logger(__name__)


@dataclass(frozen=True)
class RebasedBranch:
    """The branch that has the layout now."""

    branch: str
    main: int
    replayed: int  # files that were swapped by metadata alone
    redone: int  # files that were staged again
    lost: int = 0  # files that main has replaced since


@dataclass(frozen=True)
class RebasePlan:
    """The swaps of an attempt that can be replayed on main's snapshot, and the files to stage again."""

    clean: tuple[FileSwap, ...]
    again: tuple[StageFile, ...]
    lost: int


def plan_rebase(
    swaps: Sequence[FileSwap],
    then: Mapping[str, frozenset[str]],
    now: Mapping[str, frozenset[str]],
    live: Mapping[str, StageFile],
    catch_up: Collection[str] = (),
) -> RebasePlan:
    """Plan a rebase: replay clean swaps, and stage the files of the others again.

    A swap is clean if each of its files still exists with the same deletes. Of a swap that is not clean, the files that
    main still has are staged again, and files that main has replaced stay as main has them. `catch_up` has further
    files that must be staged, because they lack a new column.
    """
    touched = [one for one in swaps if any(_differs(path, then, now, pinned=one.pinned) for path in one.paths)]
    dirty = {one.snapshot_id for one in touched}
    paths = sorted({path for one in touched for path in one.paths if path in live} | set(catch_up))
    clean = tuple(one for one in swaps if one.snapshot_id not in dirty)
    if touched:
        # The files that are staged again may need a delete file that was removed because a clean swap was its last
        # user.
        clean = tuple(replace(one, removed_deletes=()) for one in clean)
    lost = sum(path not in live for one in touched for path in one.paths)
    return RebasePlan(clean, tuple(live[path] for path in paths), lost)


def _differs(path: str, then: Mapping[str, frozenset[str]], now: Mapping[str, frozenset[str]], *, pinned: bool) -> bool:
    """Return whether main made a change to a file that a swap would undo.

    An equality delete also applies to the new files, if they have the sequence number of the old ones.
    """
    if path not in now:
        return True
    changed = now[path] ^ then.get(path, frozenset())
    return any(not (pinned and one.startswith(EQUALITY_DELETES)) for one in changed)


def list_staged_swaps(lake: Lake, record: StagedBranch) -> tuple[FileSwap, ...]:
    """Return the file swaps on an attempt's branch."""
    head = find_ref_snapshot(lake.table(record.table), record.branch)
    if head is None:
        raise LakeError(f"{record.table} has no branch {record.branch}: it was rolled back, or is already merged")
    return tuple(list_swaps(lake, record.table, record.base, head, PINNED))


def rebase_branch(stager: Stager, record: StagedBranch, swaps: Sequence[FileSwap], branch: str) -> RebasedBranch:
    """Create a branch at main's head with the new layout.

    Main may move again at any time, so the fast way is tried first: Iceberg itself detects whether a file was changed.
    Only if one was, every file is checked.
    """
    if not record.layout.promoted:
        try:
            return _apply_rebase(stager, record, RebasePlan(tuple(swaps), (), 0), branch)
        except TableBusy:
            raise
        except CommitConflict as conflict:
            log.info(
                "a staged file was changed on main", table=record.table, attempt=record.id, reason=conflict.message
            )
    return _apply_rebase(stager, record, _inspect_main(stager.lake, record, swaps), branch)


def _inspect_main(lake: Lake, record: StagedBranch, swaps: Sequence[FileSwap]) -> RebasePlan:
    table = lake.table(record.table)
    main = _main_snapshot(table)
    live = list_data_files(table, main)
    then, now = (find_applied_deletes(lake, record.table, one) for one in (record.base, main))
    return plan_rebase(swaps, then, now, live, _find_catch_up(table, record, live))


def _apply_rebase(stager: Stager, record: StagedBranch, todo: RebasePlan, branch: str) -> RebasedBranch:
    lake, name = stager.lake, record.table
    branches = IcebergBranches(lake, name)
    branches.remove(branch)  # a remainder of a killed merge or of the fast way
    table = lake.table(name)
    main = _main_snapshot(table)
    branches.create(branch, str(main))
    order_id = resolve_sort_order(table.metadata, record.layout.sort).order_id if record.sets_order else record.order_id
    for pinned in (True, False):
        _replay_swaps(lake, record, branch, [one for one in todo.clean if one.pinned is pinned], order_id)
    for step in pack_steps(todo.again, stager.config.step_bytes):
        stager.rewriter(record.update(order_id=order_id), branch).rewrite(step)
    if todo.again:
        at = find_ref_snapshot(lake.table(name), branch)
        prove_rows(lake, name, main, main if at is None else at, record.layout.promoted)
    return RebasedBranch(branch, main, sum(len(one.removed) for one in todo.clean), len(todo.again), todo.lost)


def _main_snapshot(table: Table) -> int:
    main = find_ref_snapshot(table, MAIN_BRANCH)
    if main is None:
        raise LakeError(f"{'.'.join(table.name())} has no rows any more")
    return main


def _find_catch_up(table: Table, record: StagedBranch, live: Mapping[str, StageFile]) -> list[str]:
    """Return the files that were added to main since the base and lack the values of new columns."""
    if not record.layout.promoted:
        return []
    before = list_data_files(table, record.base)
    return [path for path in live if path not in before]


def _replay_swaps(lake: Lake, record: StagedBranch, branch: str, swaps: Sequence[FileSwap], order_id: int) -> None:
    """Swap the files of several steps in one commit; Iceberg checks that they are unchanged since the base."""
    if not swaps:
        return
    base = lake.table(record.table).snapshot_by_id(record.base)
    pinned = swaps[0].pinned
    replacement = Replacement(
        removed=tuple(file for one in swaps for file in one.removed),
        added=tuple({**file, "sort-order-id": order_id} for one in swaps for file in one.added),
        from_snapshot=record.base,
        data_sequence=base.sequence_number if pinned and base is not None else None,
        removed_deletes=tuple(file for one in swaps for file in one.removed_deletes),
    )
    paths = frozenset(path for one in swaps for path in one.paths)
    at = find_ref_snapshot(lake.table(record.table), branch)
    swap_on_branch(
        lake,
        record.table,
        branch,
        replacement,
        batch_id=make_batch_id(record.id, at, paths),
        summary={ATTEMPT: record.id, PINNED: str(pinned).lower()},
    )


def name_rebase_branch(record: StagedBranch, number: int) -> str:
    """Return the branch of a merge's n-th rebase."""
    return f"{record.branch}.r{number}"
