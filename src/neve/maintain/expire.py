"""Forget snapshots, and remove the files that only they had."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import CommitConflict, LakeError
from neve.lake.calendar import EPOCH
from neve.lake.commits import TableMoved, append_once
from neve.maintain.expire_plan import plan_expiry
from neve.maintain.expiry import Carried, ExpirePlan, ExpirePolicy, Remembered
from neve.maintain.ledger import unfinished_batches
from neve.maintain.procedures import call, longs, moment
from neve.maintain.result import Cost, Gain, Outcome
from neve.maintain.snapshots import head_of, refs_of, snapshots_of
from neve.maintain.streams import newest_of_streams
from neve.maintain.words import counted
from neve.model.columns import FORMAT_VERSION_DEFAULT
from neve.model.commits import POSITIONS, STREAM

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.work import Work

STEP = "expire"
CARRIES = 5  # a stream that is at work may move while its position is carried
AT_ONCE = 1000  # snapshots in one call: each reads what is reachable before and after
MAX_AGE_MS = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
GC_ENABLED = "gc.enabled"
COUNTS = ("data", "position_delete", "equality_delete", "manifest", "statistics")


def expire(work: Work) -> Outcome:
    """Forget what the policy lets go; every branch, tag and stream reads as before."""
    table = work.table()
    if collects_nothing(table):
        return Outcome("the table says gc.enabled=false, so nothing of it may be removed")
    plan = _plan(work, table)
    if plan.refused:
        raise LakeError(
            f"nothing of {work.name} was expired: {plan.refused}",
            hint="give the branch a longer max-snapshot-age, or let the stream or batch go on first",
        )
    if plan.empty or work.dry_run:
        return _told(plan, len(table.metadata.snapshots))
    for _ in range(CARRIES):
        if not plan.carry:
            return _apply(work, plan)
        carry_positions(work, table, plan.carry)
        table = work.table()
        plan = replace(_plan(work, table), entries=plan.entries)
    raise CommitConflict(
        f"streams moved in {work.name} {CARRIES} times while their positions were carried", hint="run the command again"
    )


def collects_nothing(table: Table) -> bool:
    """Whether the table's owner has switched off that files are removed."""
    return table.properties.get(GC_ENABLED, "true").lower() == "false"


def policy_of(work: Work, table: Table) -> ExpirePolicy:
    """What the table says of itself wins over the settings; format version 3 can't be committed to without a JVM."""
    config, own = work.config.expire, table.properties
    age = timedelta(milliseconds=int(own[MAX_AGE_MS])) if MAX_AGE_MS in own else timedelta(hours=config.max_age_hours)
    return ExpirePolicy(
        max_age=age,
        min_snapshots=int(own.get(MIN_SNAPSHOTS, config.min_snapshots)),
        floor=work.guards.horizon,
        max_snapshots=config.max_snapshots,
        carry=config.carry_positions and table.metadata.format_version <= FORMAT_VERSION_DEFAULT,
    )


def _plan(work: Work, table: Table) -> ExpirePlan:
    known = Remembered(
        snapshots_of(table),
        refs_of(table),
        unfinished_batches(work.lake) | work.guards.batches(),
        work.guards.readers(work.name),
    )
    return plan_expiry(known, policy_of(work, table), work.now)


def carry_positions(work: Work, table: Table, carried: tuple[Carried, ...]) -> None:
    """Write each position into an empty snapshot; where the stream has moved meanwhile, its own commit says more."""
    for one in carried:
        work.check()

        def still(found: Table, one: Carried = one) -> None:
            newest = newest_of_streams(snapshots_of(found), head_of(refs_of(found))).get(one.stream)
            if newest is None or newest.id != one.snapshot.id:
                raise TableMoved(f"stream {one.stream} has moved in {work.name}")

        try:
            append_once(
                table,
                [],
                batch_id=f"carry:{one.stream}:{one.snapshot.id}",
                operation="carry-positions",
                summary={STREAM: one.stream, POSITIONS: one.snapshot.summary[POSITIONS]},
                guard=still,
            )
        except TableMoved:
            continue


def _apply(work: Work, plan: ExpirePlan) -> Outcome:
    ids = [snapshot.id for snapshot in plan.expire]
    chunks = [ids[first : first + AT_ONCE] for first in range(0, len(ids), AT_ONCE)] or [[]]
    removed: dict[str, int] = {}
    for done, chunk in enumerate(chunks):
        work.tell(STEP, done, len(chunks))
        work.check()
        answer = call(
            work.lake,
            "expire_snapshots",
            work.name,
            {
                # Age expires nothing here: the list does, and what branches say of themselves.
                "older_than": moment(EPOCH),
                "stream_results": "true",
                **({"snapshot_ids": longs(chunk)} if chunk else {}),
            },
        )
        for name, count in answer.items():
            removed[name] = removed.get(name, 0) + int(count or 0)
    work.tell(STEP, len(chunks), len(chunks))
    return _done(plan, removed, len(chunks))


def _done(plan: ExpirePlan, removed: dict[str, int], calls: int) -> Outcome:
    data, positions, equalities, manifests, statistics = (
        removed.get(f"deleted_{kind}_files_count", 0) for kind in COUNTS
    )
    lists = removed.get("deleted_manifest_lists_count", 0)
    gain = Gain(
        snapshots=len(plan.expire),
        refs=len(plan.drop),
        files=data,
        delete_files=positions + equalities,
        manifests=manifests,
        bytes=plan.bytes if data else 0,
    )
    every = data + positions + equalities + manifests + statistics + lists
    reason = f"{counted(len(plan.expire), 'snapshot')} expired, {counted(every, 'file')} removed"
    return Outcome(reason, True, plan.entries, gain, Cost(api_calls=every + 3 * calls))


def _told(plan: ExpirePlan, snapshots: int) -> Outcome:
    held = sum(entry.action == "keep" for entry in plan.entries)
    gain = Gain(snapshots=len(plan.expire), refs=len(plan.drop), bytes=plan.bytes)
    if not snapshots:
        return Outcome("the table has no snapshots")
    if plan.empty:
        kept = f" ({held} beyond it, each kept for a reason)" if held else ""
        return Outcome(f"none of {counted(snapshots, 'snapshot')} is past its age{kept}", entries=plan.entries)
    return Outcome(f"{len(plan.expire):,} of {counted(snapshots, 'snapshot')} can go", False, plan.entries, gain)
