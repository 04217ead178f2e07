"""What was counted on the way from bytes to rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Counts of a task or a batch; tallies add up."""

    messages: int = 0
    records: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    duplicates: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    duplicate_keys: int = 0
    pointless_metrics: int = 0
    unpacked_bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """The counts as plain values."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Tally:
        """The tally that `to_json` told of."""
        values: dict[str, Any] = {
            name: Counter(value) if isinstance(value, dict) else value for name, value in told.items()
        }
        return cls(**values)

    def add(self, other: Tally) -> None:
        """Take in another tally."""
        self.messages += other.messages
        self.records += other.records
        self.rejected += other.rejected
        self.duplicates += other.duplicates
        self.replayed += other.replayed
        self.duplicate_keys += other.duplicate_keys
        self.pointless_metrics += other.pointless_metrics
        self.unpacked_bytes += other.unpacked_bytes

    @property
    def written(self) -> Counter[str]:
        """Records by signal that were neither rejected nor there already."""
        return self.records - self.duplicates
