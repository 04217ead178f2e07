"""What came of staging and of taking it back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neve.autopilot.stage.gain import LeftOut


@dataclass(frozen=True)
class RowProof:
    """Rows counted and hashed without their order."""

    rows: int
    hash: int


@dataclass(frozen=True)
class StageReport:
    """A layout on its branch; `steps` are those that this run committed, `found` those that were there already."""

    attempt_id: str
    table: str
    branch: str
    base: int
    head: int
    steps: int
    found: int
    files_before: int
    files_after: int
    bytes_before: int
    bytes_after: int
    rows: int
    seconds: float
    reasons: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)


@dataclass(frozen=True)
class DiscardReport:
    """A branch that was taken back; `left` says what of it the table still shows."""

    attempt_id: str
    table: str
    branch: str
    snapshots_removed: int
    files_removed: int
    reason: str
    left: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return asdict(self)
