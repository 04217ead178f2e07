"""Which snapshots go and which stay, and why: a pure function of what a table remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

from neve.maintain.entry import KEEP, Entry
from neve.maintain.expiry import Carried, ExpirePlan, ExpirePolicy, Remembered
from neve.maintain.iceberg_expiry import expired_refs, forgotten_by_iceberg
from neve.maintain.snapshots import MAIN, Ref, Snapshot, ancestors, head_of, shown
from neve.maintain.streams import newest_of_streams, way_to
from neve.model.commits import BATCH_ID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

EXPIRE, DROP, CARRY = "expire", "drop", "carry"
PATIENCE = timedelta(days=7)
YOUNG = "younger than its branch lets go"


@dataclass
class _Keeping:
    """The snapshots that stay, each with the first reason that was found."""

    reasons: dict[int, str] = field(default_factory=dict)

    def keep(self, ids: Iterable[int], reason: str) -> None:
        for snapshot_id in ids:
            self.reasons.setdefault(snapshot_id, reason)


def plan_expiry(known: Remembered, policy: ExpirePolicy, now: datetime) -> ExpirePlan:
    """The plan for a table; it never touches a head of a branch or tag, nor what ingestion stands on."""
    dropped = expired_refs(known.snapshots, known.refs, now)
    refs = tuple(ref for ref in known.refs if ref not in dropped)
    keeping = _Keeping()
    _keep_refs(keeping, known.snapshots, refs, policy, now)
    _keep_young(keeping, known.snapshots, refs, policy, now)
    needed = _needed(known, policy, now)
    for snapshot_id, reason in needed.items():
        keeping.keep([snapshot_id], reason)
    _keep_readers(keeping, known, refs, now)
    carry = _keep_streams(keeping, known.snapshots, refs, policy, now)
    kept = keeping.reasons
    expire = tuple(snapshot for snapshot in known.snapshots if snapshot.id not in kept)
    refused = _refusal(known, refs, needed, kept, now) or _hasty(refs, policy, carry)
    # Without a snapshot to expire there is no reason to write a position anew.
    return ExpirePlan(
        expire=expire,
        drop=dropped,
        carry=carry if expire else (),
        entries=(
            *_going(expire, dropped, carry if expire else (), policy, now),
            *_staying(known, kept, now - policy.max_age),
        ),
        refused=refused,
        bytes=_freed(known.snapshots, expire),
    )


def _keep_refs(
    keeping: _Keeping, snapshots: tuple[Snapshot, ...], refs: tuple[Ref, ...], policy: ExpirePolicy, now: datetime
) -> None:
    """The head of each branch and tag, and of a branch the last few and the young ones."""
    for ref in refs:
        keeping.keep([ref.snapshot_id], f"{ref} is at it" if ref.is_branch else f"{ref} holds it")
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
    keeping: _Keeping, snapshots: tuple[Snapshot, ...], refs: tuple[Ref, ...], policy: ExpirePolicy, now: datetime
) -> None:
    """Those that no branch leads to any more wait for their age too: somebody may be about to look at them."""
    led_to = {snapshot.id for ref in refs for snapshot in ancestors(snapshots, ref.snapshot_id) if ref.is_branch}
    for snapshot in snapshots:
        if snapshot.id not in led_to and snapshot.at >= now - policy.max_age:
            keeping.keep([snapshot.id], YOUNG)


def _needed(known: Remembered, policy: ExpirePolicy, now: datetime) -> dict[int, str]:
    """What ingestion looks for: ids of unfinished batches, and snapshots within the horizon of duplicates."""
    needed = {}
    for snapshot in known.snapshots:
        batch = snapshot.summary.get(BATCH_ID)
        if batch in known.needed_batches:
            needed[snapshot.id] = f"batch {batch} is not finished, and is recognised by it"
        elif snapshot.at >= now - policy.floor:
            needed[snapshot.id] = "so young that ingestion may still look at it"
    return needed


def _keep_streams(
    keeping: _Keeping, snapshots: tuple[Snapshot, ...], refs: tuple[Ref, ...], policy: ExpirePolicy, now: datetime
) -> tuple[Carried, ...]:
    """A stream finds its position by walking back from the current snapshot, so no gap may lie before it."""
    current = head_of(refs)
    streams = sorted(newest_of_streams(snapshots, current).items())
    ways = {stream: way_to(snapshots, current, snapshot.id) for stream, snapshot in streams}
    lost = {stream for stream, way in ways.items() if any(one not in keeping.reasons for one in way)}
    if policy.carry and lost:
        # Each position that is carried pushes others out of the last ones, so all that are old or near are carried.
        oldest = now - max(_own_age(refs, policy), policy.floor)
        last = policy.max_snapshots - len(streams) if policy.max_snapshots else len(snapshots)
        safe = {one.id for one in islice(ancestors(snapshots, current), max(0, last)) if one.at >= oldest}
        return tuple(Carried(stream, one) for stream, one in streams if stream in lost or one.id not in safe)
    for stream, snapshot in streams:
        if stream in lost:
            keeping.keep([snapshot.id], f"stream {stream} goes on from it")
            keeping.keep(ways[stream], f"stream {stream} finds its position by way of it")
    return ()


def _keep_readers(keeping: _Keeping, known: Remembered, refs: tuple[Ref, ...], now: datetime) -> None:
    """Whoever reads what changed needs the snapshots since its last time; one that stays away too long reads all."""
    current = head_of(refs)
    times = {snapshot.id: snapshot.at for snapshot in known.snapshots}
    for reader, snapshot_id in known.readers:
        if times.get(snapshot_id, now - 2 * PATIENCE) >= now - PATIENCE:
            keeping.keep(way_to(known.snapshots, current, snapshot_id), f"{reader} reads on from there")


def _own_age(refs: tuple[Ref, ...], policy: ExpirePolicy) -> timedelta:
    """How old snapshots of the main branch become."""
    own = next((ref.max_snapshot_age for ref in refs if ref.name == MAIN), None)
    return policy.max_age if own is None else own


def _hasty(refs: tuple[Ref, ...], policy: ExpirePolicy, carry: tuple[Carried, ...]) -> str:
    """A branch that forgets within the horizon would forget positions that were just carried."""
    if not carry or _own_age(refs, policy) >= policy.floor:
        return ""
    return "the main branch's own max-snapshot-age is so short that the positions of streams would be lost"


def _refusal(
    known: Remembered, refs: tuple[Ref, ...], needed: dict[int, str], kept: dict[int, str], now: datetime
) -> str:
    """Iceberg forgets by itself what a branch's own age says, whatever list it is given: not what must stay."""
    streams = {snapshot_id for snapshot_id, reason in kept.items() if reason.startswith("stream ")}
    lost = forgotten_by_iceberg(known.snapshots, refs, now) & (set(needed) | streams)
    if not lost:
        return ""
    first = min(lost)
    return f"a branch's own max-snapshot-age would expire snapshot {first}, which must stay: {kept[first]}"


def _going(
    expire: tuple[Snapshot, ...],
    dropped: tuple[Ref, ...],
    carry: tuple[Carried, ...],
    policy: ExpirePolicy,
    now: datetime,
) -> list[Entry]:
    hours = policy.max_age.total_seconds() / 3600
    old, many = f"older than {hours:g} h", f"beyond the last {policy.max_snapshots:,} of its branch"
    return [
        *(Entry(DROP, str(ref), "older than its own max-ref-age") for ref in dropped),
        *(
            Entry(CARRY, f"position of stream {one.stream}", f"its last commit, of {shown(one.snapshot.at)}, is to go")
            for one in carry
        ),
        *(
            Entry(EXPIRE, _named(one), f"{old if one.at < now - policy.max_age else many}, and nothing needs it")
            for one in expire
        ),
    ]


def _staying(known: Remembered, kept: dict[int, str], oldest: datetime) -> list[Entry]:
    """Only those beyond the age need a reason."""
    beyond = [one for one in known.snapshots if one.id in kept and one.at < oldest]
    return [Entry(KEEP, _named(one), kept[one.id], _held_bytes(known, one)) for one in beyond]


def _named(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.id} of {shown(snapshot.at)}"


def _held_bytes(known: Remembered, pinned: Snapshot) -> int:
    """At most this is held on disk by a snapshot alone: what was taken out of the table since."""
    line = list(ancestors(known.snapshots, head_of(known.refs)))
    return sum(snapshot.removed_bytes for snapshot in line if snapshot.at > pinned.at)


def _freed(snapshots: tuple[Snapshot, ...], expire: tuple[Snapshot, ...]) -> int:
    """About what goes: the files that a commit took out are needed by the snapshots before it alone."""
    gone = {snapshot.id for snapshot in expire}
    return sum(snapshot.removed_bytes for snapshot in snapshots if snapshot.parent_id in gone)
