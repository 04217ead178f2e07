"""What a table's partitions remember of the runs before, in the state store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from neve.compact.memory import Memory, remember

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from neve.compact.plan import Plan
    from neve.lake.documents import Documents

SPACE = "compact.memory"
LOOKS = "compact.looks"


@dataclass(frozen=True)
class Memories:
    """The memories of one table's partitions; another table that gets its name later has another uuid."""

    documents: Documents
    table: str
    uuid: str

    @property
    def _own(self) -> str:
        return f"{self.table}/{self.uuid}/"

    def load(self) -> dict[str, Memory]:
        """By the partition's key."""
        found = self.documents.entries(SPACE, self._own)
        return {key.removeprefix(self._own): _memory(document) for key, document in found}

    def learn(
        self, plan: Plan, published: Collection[str], now: datetime, looked_through: Collection[str] = ()
    ) -> None:
        """Remember which groups were published, and which partitions were searched for duplicates."""
        if not published and not looked_through:
            return
        memories = remember(plan, published, self.load(), now, looked_through=looked_through)
        for key, memory in memories.items():
            self.documents.put(SPACE, f"{self._own}{key}", _document(memory))

    def is_look_due(self, now: datetime, seconds: float) -> bool:
        """Whether it is so long ago that every partition was looked at; a summary tells nothing of duplicates."""
        document = self.documents.get(LOOKS, self._own)
        looked = datetime.fromisoformat(str(document["at"])) if document else None
        return looked is None or (now - looked).total_seconds() >= seconds

    def looked(self, now: datetime, plan: Plan) -> None:
        """Every partition was looked at: what is remembered of others, or of an older table, is forgotten."""
        self.documents.put(LOOKS, self._own, {"at": now.isoformat()})
        there = {f"{self._own}{key}" for key in plan.partition_keys}
        self._forget(SPACE, there)
        self._forget(LOOKS, {self._own})

    def _forget(self, space: str, kept: Collection[str]) -> None:
        gone = [key for key, _document in self.documents.entries(space, f"{self.table}/") if key not in kept]
        for key in gone:
            self.documents.delete(space, key)


def _document(memory: Memory) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in vars(memory).items()}


def _memory(document: Mapping[str, Any]) -> Memory:
    moments = {key: datetime.fromisoformat(document[key]) if document[key] else None for key in ("full_at", "minor_at")}
    return Memory(**{**document, **moments})
