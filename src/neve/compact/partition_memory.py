"""State of partitions between runs that table metadata does not contain, in the state store."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from neve.compact.plan import Level

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from neve.compact.plan import Group, Plan
    from neve.state.documents import Documents


@dataclass(frozen=True)
class PartitionMemory:
    """Files up to `sequence` have `layout`, files up to `deduplicated_sequence` were searched for duplicates."""

    layout: str = ""
    sequence: int = 0
    full_at: datetime | None = None
    minor_at: datetime | None = None
    deduplicated_sequence: int = 0


NO_MEMORY = PartitionMemory()


def remember(
    plan: Plan,
    published: Collection[str],
    memories: Mapping[str, PartitionMemory],
    now: datetime,
    *,
    searched: Collection[str] = (),
) -> dict[str, PartitionMemory]:
    """Return the new state after a run, of each partition that changed, by its key.

    `published` are the ids of groups that are in the table now, `searched` the keys of partitions that were
    searched for duplicates. A layout is recorded only if the plan lays out the whole partition, and all of its groups
    were published.
    """
    laid_out = {partition.key for partition in plan.lays_out}
    groups: dict[str, list[Group]] = {}
    for group in plan.groups:
        groups.setdefault(group.partition.key, []).append(group)
    changed: dict[str, PartitionMemory] = {}
    for key, all_of_it in groups.items():
        done = [group for group in all_of_it if group.id in published]
        if done:
            after = replace(memories.get(key, NO_MEMORY), minor_at=now)
            if len(done) == len(all_of_it):
                after = _complete(after, done, plan.sequence, now, laid_out=key in laid_out)
            changed[key] = after
    for key in searched:
        known = changed.get(key, memories.get(key, NO_MEMORY))
        changed[key] = replace(known, deduplicated_sequence=plan.sequence)
    return changed


def _complete(
    memory: PartitionMemory, groups: list[Group], sequence: int, now: datetime, *, laid_out: bool
) -> PartitionMemory:
    if all(group.level is Level.FULL for group in groups):
        memory = replace(memory, full_at=now)
    return replace(memory, layout=str(groups[0].layout), sequence=sequence) if laid_out else memory


SPACE = "compact.memory"
CHECKS = "compact.looks"


@dataclass(frozen=True)
class PartitionMemories:
    """The stored state of one table's partitions. A later table with the same name has another uuid."""

    documents: Documents
    table: str
    uuid: str

    @property
    def _own(self) -> str:
        return f"{self.table}/{self.uuid}/"

    def load(self) -> dict[str, PartitionMemory]:
        """Return the state by partition key."""
        found = self.documents.entries(SPACE, self._own)
        return {key.removeprefix(self._own): _from_document(document) for key, document in found}

    def learn(self, plan: Plan, published: Collection[str], now: datetime, searched: Collection[str] = ()) -> None:
        """Record the published groups, and the partitions that were searched for duplicates."""
        if not published and not searched:
            return
        memories = remember(plan, published, self.load(), now, searched=searched)
        for key, memory in memories.items():
            self.documents.put(SPACE, f"{self._own}{key}", _to_document(memory))

    def is_check_due(self, now: datetime, seconds: float) -> bool:
        """Return whether a check of every partition is due.

        A snapshot summary contains no information on duplicates.
        """
        document = self.documents.get(CHECKS, self._own)
        checked = datetime.fromisoformat(str(document["at"])) if document else None
        return checked is None or (now - checked).total_seconds() >= seconds

    def record_check(self, now: datetime, plan: Plan) -> None:
        """Record that every partition was checked. Delete the state of other partitions and of an older table."""
        self.documents.put(CHECKS, self._own, {"at": now.isoformat()})
        existing = {f"{self._own}{key}" for key in plan.partition_keys}
        self._forget(SPACE, existing)
        self._forget(CHECKS, {self._own})

    def _forget(self, space: str, kept: Collection[str]) -> None:
        gone = [key for key, _document in self.documents.entries(space, f"{self.table}/") if key not in kept]
        for key in gone:
            self.documents.delete(space, key)


def _to_document(memory: PartitionMemory) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in vars(memory).items()}


def _from_document(document: Mapping[str, Any]) -> PartitionMemory:
    moments = {key: datetime.fromisoformat(document[key]) if document[key] else None for key in ("full_at", "minor_at")}
    return PartitionMemory(**{**document, **moments})
