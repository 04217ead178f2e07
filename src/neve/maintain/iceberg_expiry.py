"""What Iceberg's own expiry does beside the list of snapshots that it is given (RemoveSnapshots of 1.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.maintain.snapshots import MAIN, Ref, Snapshot, ancestors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


def expired_refs(snapshots: Sequence[Snapshot], refs: Sequence[Ref], now: datetime) -> tuple[Ref, ...]:
    """Branches and tags that are past their own age, which counts from their snapshot; `main` never is."""
    known = {snapshot.id: snapshot for snapshot in snapshots}
    return tuple(
        ref
        for ref in refs
        if ref.name != MAIN
        and ref.max_age is not None
        and ref.snapshot_id in known
        and now - known[ref.snapshot_id].at > ref.max_age
    )


def forgotten_by_iceberg(snapshots: Sequence[Snapshot], refs: Sequence[Ref], now: datetime) -> set[int]:
    """Snapshots that only branches with an age of their own lead to, and that are beyond it."""
    kept = {ref.snapshot_id for ref in refs}
    led_to: set[int] = set()
    for ref in (ref for ref in refs if ref.is_branch):
        line = list(ancestors(snapshots, ref.snapshot_id))
        led_to |= {snapshot.id for snapshot in line}
        kept |= {snapshot.id for snapshot in line[: _kept_of(line, ref, now)]}
    return led_to - kept


def _kept_of(line: list[Snapshot], ref: Ref, now: datetime) -> int:
    """How many of a branch's snapshots stay, from its head on: Iceberg stops at the first that does not."""
    if ref.max_snapshot_age is None:
        return len(line)
    oldest, least = now - ref.max_snapshot_age, ref.min_snapshots or 1
    for place, snapshot in enumerate(line):
        if place >= least and snapshot.at < oldest:
            return place
    return len(line)
