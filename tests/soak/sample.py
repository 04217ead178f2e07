"""What is seen of a running service at one moment."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Sample:
    """One look, so many seconds after sending began; times in seconds, memory in bytes."""

    at: float
    memory: Mapping[str, int] = field(default_factory=dict)  # by role
    lags: Mapping[str, float] = field(default_factory=dict)  # by table: since the newest record that is in it
    files: Mapping[str, int] = field(default_factory=dict)  # by table: those of data
    rollup_lag: float | None = None  # since the end of the newest minute that is rolled up
    decision_lag: float | None = None  # since the last decision about a trace

    @property
    def total_memory(self) -> int:
        """All processes together."""
        return sum(self.memory.values())

    @property
    def lag(self) -> float | None:
        """That of the table that is furthest behind."""
        return max(self.lags.values(), default=None)
