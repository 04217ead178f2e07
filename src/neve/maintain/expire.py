"""Expire snapshots and remove files that only they contain, except those that unfinished batches and streams need."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from neve.errors import CommitConflict, LakeError, TableMissing
from neve.lake.calendar import EPOCH
from neve.lake.commit.append import TableMoved, append_once
from neve.maintain.expire_plan import CarriedPosition, ExpirePlan, ExpirePolicy, TableState, plan_expiry
from neve.maintain.procedures import call_procedure, format_longs, format_timestamp
from neve.maintain.snapshots import find_newest_of_streams, head_of, refs_of, snapshots_of
from neve.maintain.step import Cost, Gain, Outcome
from neve.model.commits import POSITIONS, STREAM
from neve.model.properties import FORMAT_VERSION_DEFAULT
from neve.model.tables import INGESTED_FILES
from neve.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.maintain.step import StepContext


PLANNED = "planned"


def find_unfinished(lines: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the batches that have only planned lines.

    >>> sorted(find_unfinished([("a", "planned"), ("b", "planned"), ("b", "done")]))
    ['a']
    """
    planned: set[str] = set()
    ended: set[str] = set()
    for batch, state in lines:
        (planned if state == PLANNED else ended).add(batch)
    return frozenset(planned - ended)


def load_unfinished_batches(lake: Lake) -> frozenset[str]:
    """Return unfinished batches of all organizations, by the ledger of ingestion, or none without that table."""
    try:
        table = lake.table(INGESTED_FILES.name)
    except TableMissing:
        return frozenset()
    if table.current_snapshot() is None:
        return frozenset()
    rows = table.scan(selected_fields=("batch_id", "state")).to_arrow()
    return find_unfinished(zip(rows.column("batch_id").to_pylist(), rows.column("state").to_pylist(), strict=True))


STEP = "expire"
MAX_CARRIES = 5  # a running stream may move while its position is carried
SNAPSHOTS_PER_CALL = 1000  # snapshots in one call: each call finds the reachable files before and after it
MAX_AGE_MS = "history.expire.max-snapshot-age-ms"
MIN_SNAPSHOTS = "history.expire.min-snapshots-to-keep"
GC_ENABLED = "gc.enabled"
COUNTS = ("data", "position_delete", "equality_delete", "manifest", "statistics")


def expire_snapshots(work: StepContext) -> Outcome:
    """Expire the snapshots that the policy does not keep. Every branch, tag and stream reads as before."""
    table = work.table()
    if is_gc_disabled(table):
        return Outcome("nothing is expired: the table property gc.enabled is false")
    plan = _make_plan(work, table)
    if plan.refused:
        raise LakeError(
            f"nothing of {work.name} was expired: {plan.refused}",
            hint="give the branch a longer max-snapshot-age, or let the stream or batch continue first",
        )
    if plan.empty or work.dry_run:
        return _report_plan(plan, len(table.metadata.snapshots))
    for _ in range(MAX_CARRIES):
        if not plan.carry:
            return _apply(work, plan)
        carry_positions(work, table, plan.carry)
        table = work.table()
        plan = replace(_make_plan(work, table), entries=plan.entries)
    raise CommitConflict(
        f"streams moved in {work.name} {MAX_CARRIES} times while their positions were carried",
        hint="run the command again",
    )


def is_gc_disabled(table: Table) -> bool:
    """Return whether the table's owner has disabled the removal of files."""
    return table.properties.get(GC_ENABLED, "true").lower() == "false"


def make_policy(work: StepContext, table: Table) -> ExpirePolicy:
    """Return the policy.

    Table properties override settings, and format version 3 can't be committed to without a JVM.
    """
    config, own = work.config.expire, table.properties
    age = timedelta(milliseconds=int(own[MAX_AGE_MS])) if MAX_AGE_MS in own else timedelta(hours=config.max_age_hours)
    return ExpirePolicy(
        max_age=age,
        min_snapshots=int(own.get(MIN_SNAPSHOTS, config.min_snapshots)),
        floor=work.guards.horizon,
        max_snapshots=config.max_snapshots,
        carry=config.carry_positions and table.metadata.format_version <= FORMAT_VERSION_DEFAULT,
    )


def _make_plan(work: StepContext, table: Table) -> ExpirePlan:
    known = TableState(
        snapshots_of(table),
        refs_of(table),
        load_unfinished_batches(work.lake) | work.guards.batches(),
        work.guards.readers(work.name),
    )
    return plan_expiry(known, make_policy(work, table), work.now)


def carry_positions(work: StepContext, table: Table, carried: tuple[CarriedPosition, ...]) -> None:
    """Write each position into an empty snapshot. If the stream has moved, its own commit is newer and is kept."""
    for one in carried:
        work.check()

        def still(found: Table, one: CarriedPosition = one) -> None:
            newest = find_newest_of_streams(snapshots_of(found), head_of(refs_of(found))).get(one.stream)
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


def _apply(work: StepContext, plan: ExpirePlan) -> Outcome:
    ids = [snapshot.id for snapshot in plan.expire]
    chunks = [ids[first : first + SNAPSHOTS_PER_CALL] for first in range(0, len(ids), SNAPSHOTS_PER_CALL)] or [[]]
    removed: dict[str, int] = {}
    for done, chunk in enumerate(chunks):
        work.report_progress(STEP, done, len(chunks))
        work.check()
        answer = call_procedure(
            work.lake,
            "expire_snapshots",
            work.name,
            {
                # The age expires nothing here. The list of ids and the settings of branches do.
                "older_than": format_timestamp(EPOCH),
                "stream_results": "true",
                **({"snapshot_ids": format_longs(chunk)} if chunk else {}),
            },
        )
        for name, count in answer.items():
            removed[name] = removed.get(name, 0) + int(count or 0)
    work.report_progress(STEP, len(chunks), len(chunks))
    return _report_done(plan, removed, len(chunks))


def _report_done(plan: ExpirePlan, removed: dict[str, int], calls: int) -> Outcome:
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
    reason = f"{format_count(len(plan.expire), 'snapshot')} expired, {format_count(every, 'file')} removed"
    return Outcome(reason, True, plan.entries, gain, Cost(api_calls=every + 3 * calls))


def _report_plan(plan: ExpirePlan, snapshots: int) -> Outcome:
    held = sum(entry.action == "keep" for entry in plan.entries)
    gain = Gain(snapshots=len(plan.expire), refs=len(plan.drop), bytes=plan.bytes)
    if not snapshots:
        return Outcome("the table has no snapshots")
    if plan.empty:
        kept = f" ({held} older ones are kept for a reason)" if held else ""
        return Outcome(f"none of {format_count(snapshots, 'snapshot')} can expire{kept}", entries=plan.entries)
    return Outcome(
        f"{len(plan.expire):,} of {format_count(snapshots, 'snapshot')} can expire", False, plan.entries, gain
    )
