"""The runs that ended, newest last: what they cost and gained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.compact.result import CompactResult

if TYPE_CHECKING:
    from neve.lake.documents import Documents

SPACE = "compact.history"
KEPT = 1000


@dataclass(frozen=True)
class History:
    """The past runs of all tables, in the state store."""

    documents: Documents

    def add(self, result: CompactResult) -> None:
        """Remember a run; of each table the newest are kept."""
        self.documents.put(SPACE, f"{result.table}/{result.started}/{result.run_id}", result.as_document())
        keys = [key for key, _ in self.documents.entries(SPACE, f"{result.table}/")]
        for key in keys[:-KEPT]:
            self.documents.delete(SPACE, key)

    def of(self, table: str | None = None) -> list[CompactResult]:
        """The runs of a table, or of all, oldest first."""
        prefix = f"{table}/" if table else ""
        found = [CompactResult.of(document) for _, document in self.documents.entries(SPACE, prefix)]
        return sorted(found, key=lambda result: result.started)
