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
    """The memories of one table's partitions."""

    documents: Documents
    table: str

    def load(self) -> dict[str, Memory]:
        """By the partition's key."""
        prefix = f"{self.table}/"
        return {key.removeprefix(prefix): _memory(document) for key, document in self.documents.entries(SPACE, prefix)}

    def learn(
        self, plan: Plan, published: Collection[str], now: datetime, looked_through: Collection[str] = ()
    ) -> None:
        """Remember which groups were published, and which partitions were searched for duplicates."""
        if not published and not looked_through:
            return
        memories = remember(plan, published, self.load(), now, looked_through=looked_through)
        for key, memory in memories.items():
            self.documents.put(SPACE, f"{self.table}/{key}", _document(memory))

    def is_look_due(self, now: datetime, seconds: float) -> bool:
        """Whether it is so long ago that every partition was looked at; a summary tells nothing of duplicates."""
        document = self.documents.get(LOOKS, self.table)
        looked = datetime.fromisoformat(str(document["at"])) if document else None
        return looked is None or (now - looked).total_seconds() >= seconds

    def looked(self, now: datetime) -> None:
        """Every partition was looked at."""
        self.documents.put(LOOKS, self.table, {"at": now.isoformat()})


def _document(memory: Memory) -> dict[str, Any]:
    return {key: value.isoformat() if isinstance(value, datetime) else value for key, value in vars(memory).items()}


def _memory(document: Mapping[str, Any]) -> Memory:
    moments = {key: datetime.fromisoformat(document[key]) if document[key] else None for key in ("full_at", "minor_at")}
    return Memory(**{**document, **moments})
