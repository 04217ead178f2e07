"""What came of a nightly run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class TableReport:
    """What was done about one table, and why no more; `stage` is where its attempt stands, empty where it has none."""

    table: str
    attempt_id: str
    stage: str
    did: tuple[str, ...]
    reason: str
    failed: bool = False
    delivered_pct: float | None = None

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class RunReport:
    """All tables of a run; `left` are those that there was no time for."""

    queries: int
    unparsed: int
    tables: tuple[TableReport, ...]
    left: tuple[str, ...]
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether something failed that a person should look at."""
        return any(one.failed for one in self.tables)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "queries": self.queries,
            "unparsed": self.unparsed,
            "tables": [one.as_document() for one in self.tables],
            "left": list(self.left),
            "seconds": round(self.seconds, 3),
        }
