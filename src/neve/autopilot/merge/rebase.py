"""A staged layout moved onto what main has become: swaps of untouched files replayed, touched ones staged again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import structlog

from neve.autopilot.stage.listing import files_at
from neve.autopilot.stage.proof import proven
from neve.autopilot.stage.rewrite import ATTEMPT, PINNED, batch_id
from neve.autopilot.stage.shape import order_for
from neve.autopilot.stage.steps import steps_of
from neve.errors import CommitConflict, LakeError
from neve.lake.branch_files import EQUALITY, applied_deletes, swap_on_branch, swaps_between
from neve.lake.branches import MAIN, IcebergBranches, snapshot_of
from neve.lake.java_commit import TableBusy
from neve.lake.replace import Replacement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from pyiceberg.table import Table

    from neve.autopilot.stage.record import Record
    from neve.autopilot.stage.stager import Stager
    from neve.autopilot.stage.steps import StageFile
    from neve.lake.branch_files import Swap
    from neve.lake.lake import Lake

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Rebased:
    """The branch that a layout is on now."""

    branch: str
    main: int
    replayed: int  # files that were swapped by metadata alone
    redone: int  # files that were staged again
    lost: int = 0  # files that main has replaced itself meanwhile


@dataclass(frozen=True)
class Rebase:
    """What of an attempt can be replayed on main's snapshot, and what has to be staged again."""

    clean: tuple[Swap, ...]
    again: tuple[StageFile, ...]
    lost: int


def decide(
    swaps: Sequence[Swap],
    then: Mapping[str, frozenset[str]],
    now: Mapping[str, frozenset[str]],
    live: Mapping[str, StageFile],
    catch_up: Collection[str] = (),
) -> Rebase:
    """A swap is clean while each of its files is still there with the deletes that it had; nothing else is redone.

    Of a swap that is not clean the files that main still has are staged again; what main made of the others stays as
    main has it. `catch_up` names further files that have to be staged, because they lack a new column.
    """
    touched = [one for one in swaps if any(_differs(path, then, now, pinned=one.pinned) for path in one.paths)]
    dirty = {one.snapshot_id for one in touched}
    paths = sorted({path for one in touched for path in one.paths if path in live} | set(catch_up))
    clean = tuple(one for one in swaps if one.snapshot_id not in dirty)
    if touched:
        # A delete file that a clean swap was the last to need may be needed again by what is staged again.
        clean = tuple(replace(one, removed_deletes=()) for one in clean)
    lost = sum(path not in live for one in touched for path in one.paths)
    return Rebase(clean, tuple(live[path] for path in paths), lost)


def _differs(path: str, then: Mapping[str, frozenset[str]], now: Mapping[str, frozenset[str]], *, pinned: bool) -> bool:
    """Whether main did something to a file that a swap would undo.

    A delete by values applies to the new files as well where they count as written when the old ones were.
    """
    if path not in now:
        return True
    changed = now[path] ^ then.get(path, frozenset())
    return any(not (pinned and one.startswith(EQUALITY)) for one in changed)


def staged_swaps(lake: Lake, record: Record) -> tuple[Swap, ...]:
    """What an attempt's branch put in the place of what."""
    head = snapshot_of(lake.table(record.table), record.branch)
    if head is None:
        raise LakeError(f"{record.table} has no branch {record.branch}: it was taken back, or is merged already")
    return tuple(swaps_between(lake, record.table, record.base, head, PINNED))


def rebase(stager: Stager, record: Record, swaps: Sequence[Swap], branch: str) -> Rebased:
    """Make a branch at main's head that has the new layout.

    Main may move again at any time, so the quick way is tried first: Iceberg finds out by itself whether a file was
    touched. Only where it was is every file looked at.
    """
    if not record.layout.promoted:
        try:
            return _rebased(stager, record, Rebase(tuple(swaps), (), 0), branch)
        except TableBusy:
            raise
        except CommitConflict as conflict:
            log.info(
                "a staged file was touched on main", table=record.table, attempt=record.id, reason=conflict.message
            )
    return _rebased(stager, record, _looked_at(stager.lake, record, swaps), branch)


def _looked_at(lake: Lake, record: Record, swaps: Sequence[Swap]) -> Rebase:
    table = lake.table(record.table)
    main = _main(table)
    live = files_at(table, main)
    then, now = (applied_deletes(lake, record.table, one) for one in (record.base, main))
    return decide(swaps, then, now, live, _catch_up(table, record, live))


def _rebased(stager: Stager, record: Record, todo: Rebase, branch: str) -> Rebased:
    lake, name = stager.lake, record.table
    branches = IcebergBranches(lake, name)
    branches.remove(branch)  # what a killed merge or the quick way left
    table = lake.table(name)
    main = _main(table)
    branches.create(branch, str(main))
    order_id = order_for(table.metadata, record.layout.sort).order_id if record.sets_order else record.order_id
    for pinned in (True, False):
        _replay(lake, record, branch, [one for one in todo.clean if one.pinned is pinned], order_id)
    for step in steps_of(todo.again, stager.config.step_bytes):
        stager.rewriter(record.changed(order_id=order_id), branch).rewrite(step)
    if todo.again:
        at = snapshot_of(lake.table(name), branch)
        proven(lake, name, main, main if at is None else at, record.layout.promoted)
    return Rebased(branch, main, sum(len(one.removed) for one in todo.clean), len(todo.again), todo.lost)


def _main(table: Table) -> int:
    main = snapshot_of(table, MAIN)
    if main is None:
        raise LakeError(f"{'.'.join(table.name())} has no rows any more")
    return main


def _catch_up(table: Table, record: Record, live: Mapping[str, StageFile]) -> list[str]:
    """Files that came to main since the base and lack the values of new columns."""
    if not record.layout.promoted:
        return []
    before = files_at(table, record.base)
    return [path for path in live if path not in before]


def _replay(lake: Lake, record: Record, branch: str, swaps: Sequence[Swap], order_id: int) -> None:
    """Swap the files of several steps in one commit; Iceberg checks that nobody touched them since the base."""
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
    at = snapshot_of(lake.table(record.table), branch)
    swap_on_branch(
        lake,
        record.table,
        branch,
        replacement,
        batch_id=batch_id(record.id, at, paths),
        summary={ATTEMPT: record.id, PINNED: str(pinned).lower()},
    )


def next_branch(record: Record, number: int) -> str:
    """The branch of a merge's n-th rebase."""
    return f"{record.branch}.r{number}"
