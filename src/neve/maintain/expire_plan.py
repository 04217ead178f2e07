"""Plan the expiry of snapshots: expired and kept snapshots, with reasons. A pure function of snapshots and refs.

Iceberg's own expiry does more than the list of snapshots that it is given (RemoveSnapshots of 1.12): it also drops refs
past their own age, and snapshots past the age of their branch. The plan takes that into account.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from neve.maintain.snapshots import (
    MAIN,
    Ref,
    Snapshot,
    ancestors,
    find_newest_of_streams,
    find_path_to,
    format_time,
    head_of,
)
from neve.maintain.step import KEEP, Entry
from neve.model.commits import BATCH_ID
from neve.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


@dataclass(frozen=True)
class ExpirePolicy:
    """Snapshots to expire: older than `max_age` and beyond the last `min_snapshots` of a branch.

    Snapshots younger than `floor` never expire. Snapshots beyond the last `max_snapshots` of a branch may expire before
    `max_age`. 0 means no such limit.
    """

    max_age: timedelta
    min_snapshots: int
    floor: timedelta
    max_snapshots: int = 0
    carry: bool = True


@dataclass(frozen=True)
class TableState:
    """Snapshots and refs of a table, the batches whose id must still be found in it, and its incremental readers.

    Each of the `readers` has a name, and the snapshot that it has read last.
    """

    snapshots: tuple[Snapshot, ...]
    refs: tuple[Ref, ...]
    needed_batches: frozenset[str] = frozenset()
    readers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class CarriedPosition:
    """A stream whose position is written into a new snapshot, because its last snapshot will expire."""

    stream: str
    snapshot: Snapshot


@dataclass(frozen=True)
class ExpirePlan:
    """Snapshots to expire, and the reason for each kept snapshot beyond the age."""

    expire: tuple[Snapshot, ...] = ()
    drop: tuple[Ref, ...] = ()
    carry: tuple[CarriedPosition, ...] = ()
    entries: tuple[Entry, ...] = ()
    refused: str = ""
    bytes: int = 0

    @property
    def empty(self) -> bool:
        """True if there is nothing to do."""
        return not (self.expire or self.drop)


def find_expired_refs(snapshots: Sequence[Snapshot], refs: Sequence[Ref], now: datetime) -> tuple[Ref, ...]:
    """Return branches and tags past their own age, which counts from their snapshot. `main` never expires."""
    known = {snapshot.id: snapshot for snapshot in snapshots}
    return tuple(
        ref
        for ref in refs
        if ref.name != MAIN
        and ref.max_age is not None
        and ref.snapshot_id in known
        and now - known[ref.snapshot_id].at > ref.max_age
    )


def find_expired_by_iceberg(snapshots: Sequence[Snapshot], refs: Sequence[Ref], now: datetime) -> set[int]:
    """Return snapshots that only branches with their own age reach, and that are beyond it."""
    kept = {ref.snapshot_id for ref in refs}
    reachable: set[int] = set()
    for ref in (ref for ref in refs if ref.is_branch):
        line = list(ancestors(snapshots, ref.snapshot_id))
        reachable |= {snapshot.id for snapshot in line}
        kept |= {snapshot.id for snapshot in line[: _count_kept(line, ref, now)]}
    return reachable - kept


def _count_kept(line: list[Snapshot], ref: Ref, now: datetime) -> int:
    """Count the snapshots of a branch that are kept, from its head: Iceberg stops at the first expired one."""
    if ref.max_snapshot_age is None:
        return len(line)
    oldest, least = now - ref.max_snapshot_age, ref.min_snapshots or 1
    for place, snapshot in enumerate(line):
        if place >= least and snapshot.at < oldest:
            return place
    return len(line)


EXPIRE, DROP, CARRY = "expire", "drop", "carry"
MAX_READER_LAG = timedelta(days=7)
YOUNG = "younger than the maximum age of its branch"


@dataclass
class _NeededSnapshots:
    """The kept snapshots, each with the first reason that was found."""

    reasons: dict[int, str] = field(default_factory=dict)

    def keep(self, ids: Iterable[int], reason: str) -> None:
        for snapshot_id in ids:
            self.reasons.setdefault(snapshot_id, reason)


def plan_expiry(known: TableState, policy: ExpirePolicy, now: datetime) -> ExpirePlan:
    """Plan the expiry of a table. The head of a branch or tag and snapshots that ingestion needs never expire."""
    dropped = find_expired_refs(known.snapshots, known.refs, now)
    refs = tuple(ref for ref in known.refs if ref not in dropped)
    keeping = _NeededSnapshots()
    _keep_refs(keeping, known.snapshots, refs, policy, now)
    _keep_young(keeping, known.snapshots, refs, policy, now)
    needed = _find_needed(known, policy, now)
    for snapshot_id, reason in needed.items():
        keeping.keep([snapshot_id], reason)
    _keep_readers(keeping, known, refs, now)
    carry = _keep_streams(keeping, known.snapshots, refs, policy, now)
    kept = keeping.reasons
    expire = tuple(snapshot for snapshot in known.snapshots if snapshot.id not in kept)
    refused = _check_iceberg_expiry(known, refs, needed, kept, now) or _check_carry_age(refs, policy, carry)
    # Without a snapshot to expire there is no reason to carry a position.
    return ExpirePlan(
        expire=expire,
        drop=dropped,
        carry=carry if expire else (),
        entries=(
            *_list_expired(expire, dropped, carry if expire else (), policy, now),
            *_list_kept(known, kept, now - policy.max_age),
        ),
        refused=refused,
        bytes=_sum_freed_bytes(known.snapshots, expire),
    )


def _keep_refs(
    keeping: _NeededSnapshots,
    snapshots: tuple[Snapshot, ...],
    refs: tuple[Ref, ...],
    policy: ExpirePolicy,
    now: datetime,
) -> None:
    """Keep the head of each branch and tag, and the last few and the young snapshots of a branch."""
    for ref in refs:
        keeping.keep([ref.snapshot_id], f"the head of {ref}" if ref.is_branch else f"{ref} points to it")
    for ref in (ref for ref in refs if ref.is_branch):
        oldest = now - (policy.max_age if ref.max_snapshot_age is None else ref.max_snapshot_age)
        least = ref.min_snapshots or policy.min_snapshots
        most = max(least, policy.max_snapshots) if policy.max_snapshots else len(snapshots)
        for place, snapshot in enumerate(ancestors(snapshots, ref.snapshot_id)):
            if snapshot.at >= oldest and place < most:
                keeping.keep([snapshot.id], YOUNG)
            elif place < least:
                keeping.keep([snapshot.id], f"one of the last {least} of {ref}")
            else:
                break


def _keep_young(
    keeping: _NeededSnapshots,
    snapshots: tuple[Snapshot, ...],
    refs: tuple[Ref, ...],
    policy: ExpirePolicy,
    now: datetime,
) -> None:
    """Keep young snapshots that no branch reaches any more until their age: a reader may be about to use them."""
    reachable = {snapshot.id for ref in refs for snapshot in ancestors(snapshots, ref.snapshot_id) if ref.is_branch}
    for snapshot in snapshots:
        if snapshot.id not in reachable and snapshot.at >= now - policy.max_age:
            keeping.keep([snapshot.id], YOUNG)


def _find_needed(known: TableState, policy: ExpirePolicy, now: datetime) -> dict[int, str]:
    """Return the snapshots that ingestion needs: of unfinished batches, and within the horizon of duplicates."""
    needed = {}
    for snapshot in known.snapshots:
        batch = snapshot.summary.get(BATCH_ID)
        if batch in known.needed_batches:
            needed[snapshot.id] = f"batch {batch} is unfinished, and recognized by it"
        elif snapshot.at >= now - policy.floor:
            needed[snapshot.id] = "so young that ingestion may still need it"
    return needed


def _keep_streams(
    keeping: _NeededSnapshots,
    snapshots: tuple[Snapshot, ...],
    refs: tuple[Ref, ...],
    policy: ExpirePolicy,
    now: datetime,
) -> tuple[CarriedPosition, ...]:
    """Keep the path to each stream's position, or carry the position.

    A stream finds its position by walking back from the current snapshot, so there must be no gap before it.
    """
    current = head_of(refs)
    streams = sorted(find_newest_of_streams(snapshots, current).items())
    paths = {stream: find_path_to(snapshots, current, snapshot.id) for stream, snapshot in streams}
    lost = {stream for stream, path in paths.items() if any(one not in keeping.reasons for one in path)}
    if policy.carry and lost:
        # Each carried position pushes others out of the last snapshots, so all that are old or near are carried.
        oldest = now - max(_max_age_of_main(refs, policy), policy.floor)
        last = policy.max_snapshots - len(streams) if policy.max_snapshots else len(snapshots)
        safe = {one.id for one in islice(ancestors(snapshots, current), max(0, last)) if one.at >= oldest}
        return tuple(CarriedPosition(stream, one) for stream, one in streams if stream in lost or one.id not in safe)
    for stream, snapshot in streams:
        if stream in lost:
            keeping.keep([snapshot.id], f"stream {stream} continues from it")
            keeping.keep(paths[stream], f"stream {stream} finds its position through it")
    return ()


def _keep_readers(keeping: _NeededSnapshots, known: TableState, refs: tuple[Ref, ...], now: datetime) -> None:
    """Keep the snapshots since the last read of each incremental reader.

    A reader that lags too far reads everything.
    """
    current = head_of(refs)
    times = {snapshot.id: snapshot.at for snapshot in known.snapshots}
    for reader, snapshot_id in known.readers:
        if times.get(snapshot_id, now - 2 * MAX_READER_LAG) >= now - MAX_READER_LAG:
            keeping.keep(find_path_to(known.snapshots, current, snapshot_id), f"{reader} continues from there")


def _max_age_of_main(refs: tuple[Ref, ...], policy: ExpirePolicy) -> timedelta:
    """Return the maximum age of snapshots of the main branch."""
    own = next((ref.max_snapshot_age for ref in refs if ref.name == MAIN), None)
    return policy.max_age if own is None else own


def _check_carry_age(refs: tuple[Ref, ...], policy: ExpirePolicy, carry: tuple[CarriedPosition, ...]) -> str:
    """Return an error if the main branch expires snapshots within the horizon: carried positions would be lost."""
    if not carry or _max_age_of_main(refs, policy) >= policy.floor:
        return ""
    return "the main branch's own max-snapshot-age is so short that the positions of streams would be lost"


def _check_iceberg_expiry(
    known: TableState, refs: tuple[Ref, ...], needed: dict[int, str], kept: dict[int, str], now: datetime
) -> str:
    """Return an error if Iceberg would expire a needed snapshot by a branch's own age, whatever the list."""
    streams = {snapshot_id for snapshot_id, reason in kept.items() if reason.startswith("stream ")}
    lost = find_expired_by_iceberg(known.snapshots, refs, now) & (set(needed) | streams)
    if not lost:
        return ""
    first = min(lost)
    return f"a branch's own max-snapshot-age would expire snapshot {first}, which must stay: {kept[first]}"


def _list_expired(
    expire: tuple[Snapshot, ...],
    dropped: tuple[Ref, ...],
    carry: tuple[CarriedPosition, ...],
    policy: ExpirePolicy,
    now: datetime,
) -> list[Entry]:
    old = f"older than {format_duration(policy.max_age)}"
    many = f"beyond the last {policy.max_snapshots:,} of its branch"
    return [
        *(Entry(DROP, str(ref), "older than its own max-ref-age") for ref in dropped),
        *(
            Entry(
                CARRY,
                f"position of stream {one.stream}",
                f"its last commit, of {format_time(one.snapshot.at)}, expires",
            )
            for one in carry
        ),
        *(
            Entry(
                EXPIRE, _name_snapshot(one), f"{old if one.at < now - policy.max_age else many}, and nothing needs it"
            )
            for one in expire
        ),
    ]


def _list_kept(known: TableState, kept: dict[int, str], oldest: datetime) -> list[Entry]:
    """List kept snapshots beyond the age. Only those need a reason."""
    beyond = [one for one in known.snapshots if one.id in kept and one.at < oldest]
    return [Entry(KEEP, _name_snapshot(one), kept[one.id], _sum_held_bytes(known, one)) for one in beyond]


def _name_snapshot(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.id} of {format_time(snapshot.at)}"


def _sum_held_bytes(known: TableState, pinned: Snapshot) -> int:
    """Return the maximum size on disk that only a snapshot holds: the files removed from the table since."""
    line = list(ancestors(known.snapshots, head_of(known.refs)))
    return sum(snapshot.removed_bytes for snapshot in line if snapshot.at > pinned.at)


def _sum_freed_bytes(snapshots: tuple[Snapshot, ...], expire: tuple[Snapshot, ...]) -> int:
    """Estimate the freed bytes: only the snapshots before a commit need the files that it removed."""
    gone = {snapshot.id for snapshot in expire}
    return sum(snapshot.removed_bytes for snapshot in snapshots if snapshot.parent_id in gone)
