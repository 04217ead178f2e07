"""What a run of the sampler did, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class WindowResult:
    """One window: how many records it has, how many were kept, and what that cost."""

    window: str
    start: str
    end: str
    reason: str
    records: int
    kept: int
    files: int
    bytes: int
    convention: str
    counted_as_one: int = 0
    guessed: int = 0
    seconds: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class RunResult:
    """A run: its windows, and what needed nothing."""

    signal: str
    source: str
    target: str
    policy: str
    windows: tuple[WindowResult, ...]
    current: int
    waiting: int
    other_policy: int
    gone: int
    ignored: tuple[str, ...]
    seconds: float

    @property
    def records(self) -> int:
        """Records of the windows that were sampled."""
        return sum(window.records for window in self.windows)

    @property
    def kept(self) -> int:
        """Records that are kept of them."""
        return sum(window.kept for window in self.windows)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self), "records": self.records, "kept": self.kept}
