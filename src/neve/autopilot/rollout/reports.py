"""Reports of the steps of a rollout: stage, canary, merge, rollback."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from neve.autopilot.attempt import SkippedFiles
    from neve.autopilot.rollout.canary import CanaryReport


@dataclass(frozen=True)
class RowProof:
    """Count of rows, and a hash that doesn't depend on their order."""

    rows: int
    hash: int


@dataclass(frozen=True)
class Report:
    """Report of a step about an attempt on a table."""

    attempt_id: str
    table: str

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return asdict(self)


@dataclass(frozen=True)
class StageReport(Report):
    """A layout on its branch; this run committed `steps`, and `found` were committed before."""

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
    left_out: tuple[SkippedFiles, ...] = ()


@dataclass(frozen=True)
class DiscardReport(Report):
    """A branch that was discarded; `left` lists what the table still has of it."""

    branch: str
    snapshots_removed: int
    files_removed: int
    reason: str
    left: tuple[str, ...]


MergeMethod = Literal["fast-forward", "replay", "nothing"]
RollbackFiles = Literal["restored", "swapped back", "kept"]


@dataclass(frozen=True)
class MergeReport(Report):
    """A layout on main; `redone` counts files that were staged again, because main had changed them since."""

    how: MergeMethod
    main_before: int
    main_after: int
    tag: str
    rebases: int
    redone: int
    seconds: float
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class RollbackReport(Report):
    """A layout that was rolled back after its merge; `files` is the result for the files."""

    files: RollbackFiles
    main: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class CanaryTrial:
    """Result of the canary, and of the rollback if it failed."""

    canary: CanaryReport
    discarded: DiscardReport | None

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {
            "canary": self.canary.as_document(),
            "discarded": self.discarded.as_document() if self.discarded else None,
        }
