"""What a step did to a table, why, what it gained and what it cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from neve.maintain.entry import Entry


@dataclass(frozen=True)
class Gain:
    """What is no longer there; of a dry run, what would go."""

    snapshots: int = 0
    refs: int = 0
    files: int = 0
    delete_files: int = 0
    manifests: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Cost:
    """What it took; the calls to storage are counted from what was done, not measured."""

    api_calls: int = 0
    bytes_written: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a step hands back: whether it changed anything, why or why not, and each thing that it looked at."""

    reason: str
    changed: bool = False
    entries: tuple[Entry, ...] = ()
    gain: Gain = field(default_factory=Gain)
    cost: Cost = field(default_factory=Cost)


@dataclass(frozen=True)
class StepResult:
    """One step of one table, as it is told and remembered."""

    step: str
    table: str
    dry_run: bool
    started_at: datetime
    seconds: float
    outcome: Outcome
    error: str | None = None
    hint: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it ended in an error."""
        return self.error is not None

    def to_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {**self.record(), "entries": [asdict(entry) for entry in self.outcome.entries]}

    def record(self) -> dict[str, Any]:
        """What is remembered of it: all but the single things."""
        return {
            "step": self.step,
            "table": self.table,
            "dry_run": self.dry_run,
            "started_at": self.started_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "changed": self.outcome.changed,
            "reason": self.outcome.reason,
            "gain": asdict(self.outcome.gain),
            "cost": asdict(self.outcome.cost),
            "error": self.error,
            "hint": self.hint,
        }
