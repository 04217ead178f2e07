"""What is remembered of a partition between runs, because its metadata does not tell it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from neve.compact.plan import Level

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from neve.compact.plan import Group, Plan


@dataclass(frozen=True)
class Memory:
    """Files up to `sequence` have `layout`; those up to `deduplicated_sequence` were looked through for duplicates."""

    layout: str = ""
    sequence: int = 0
    full_at: datetime | None = None
    minor_at: datetime | None = None
    deduplicated_sequence: int = 0


NOTHING = Memory()


def remember(
    plan: Plan,
    published: Collection[str],
    memories: Mapping[str, Memory],
    now: datetime,
    *,
    looked_through: Collection[str] = (),
) -> dict[str, Memory]:
    """What is to be remembered after a run: of each partition that changed, by its key.

    `published` are the ids of groups that are in the table now, `looked_through` the keys of partitions in which
    duplicates were looked for. A layout counts as there only when the plan lays out the whole partition, and all of its
    groups were published.
    """
    laid_out = {partition.key for partition in plan.lays_out}
    groups: dict[str, list[Group]] = {}
    for group in plan.groups:
        groups.setdefault(group.partition.key, []).append(group)
    changed: dict[str, Memory] = {}
    for key, all_of_it in groups.items():
        done = [group for group in all_of_it if group.id in published]
        if done:
            after = replace(memories.get(key, NOTHING), minor_at=now)
            if len(done) == len(all_of_it):
                after = _completed(after, done, plan.sequence, now, laid_out=key in laid_out)
            changed[key] = after
    for key in looked_through:
        known = changed.get(key, memories.get(key, NOTHING))
        changed[key] = replace(known, deduplicated_sequence=plan.sequence)
    return changed


def _completed(memory: Memory, groups: list[Group], sequence: int, now: datetime, *, laid_out: bool) -> Memory:
    if all(group.level is Level.FULL for group in groups):
        memory = replace(memory, full_at=now)
    return replace(memory, layout=str(groups[0].layout), sequence=sequence) if laid_out else memory
