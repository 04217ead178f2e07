"""What came of a merge, of a rollback, and of measuring again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

How = Literal["fast-forward", "replay", "nothing"]
Files = Literal["restored", "swapped back", "kept"]


@dataclass(frozen=True)
class MergeReport:
    """A layout on main; `redone` counts files that were staged again, because main had touched them meanwhile."""

    attempt_id: str
    table: str
    how: How
    main_before: int
    main_after: int
    tag: str
    rebases: int
    redone: int
    seconds: float
    reasons: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class RollbackReport:
    """A layout that was taken back after its merge; `files` says what became of the files."""

    attempt_id: str
    table: str
    files: Files
    main: int
    reasons: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)
