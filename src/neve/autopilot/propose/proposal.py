"""A proposal: one change of one table's layout, with everything that those who decide want to know."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter

from neve.autopilot.layout import Layout

LayoutKind = Literal["partition", "sort", "zorder", "promote", "bloom", "file_size"]


@dataclass(frozen=True)
class Reduction:
    """How much less is scanned, in percent of what is scanned now, with the interval that it lies in."""

    pct: float
    low_pct: float
    high_pct: float


@dataclass(frozen=True)
class CanaryLine:
    """One hot query, on main and on the branch that has the new layout."""

    fingerprint: str
    equal: bool  # the results
    bytes_main: int
    bytes_branch: int
    seconds_main: float
    seconds_branch: float
    text: str = ""  # with every literal taken out
    example: str = ""  # with its literals; shown only where they may be


@dataclass(frozen=True)
class RejectedCandidate:
    """A layout that was weighed and not chosen."""

    layout: str
    reason: str


@dataclass(frozen=True)
class Proposal:
    """What is proposed; every text but an example of a query is to be without literal values."""

    id: str
    table: str
    kind: LayoutKind
    before: Layout
    after: Layout
    created: datetime
    table_bytes: int
    estimate: Reduction
    cost_seconds: float
    cost_dollars: float
    payback_days: float | None  # None: never
    rollback_command: str
    measured: Reduction | None = None  # by the canary
    canary: tuple[CanaryLine, ...] = ()
    reasons: tuple[str, ...] = ()
    rejected: tuple[RejectedCandidate, ...] = ()

    def __post_init__(self) -> None:
        if self.before == self.after:
            raise ValueError(f"the proposal {self.id} changes nothing about {self.table}")

    @property
    def canary_passed(self) -> bool:
        """Whether queries were compared, and every result was the same."""
        return bool(self.canary) and all(line.equal for line in self.canary)

    @property
    def least_reduction_pct(self) -> float:
        """The reduction that one can count on: the lower bound of the estimate, or of the canary if that is less."""
        return min(one.low_pct for one in (self.estimate, self.measured) if one is not None)

    def as_document(self) -> dict[str, Any]:
        """The proposal as JSON has it."""
        document: dict[str, Any] = _PROPOSAL.dump_python(self, mode="json")
        return document

    @classmethod
    def of(cls, document: object) -> "Proposal":
        """The proposal of a document."""
        return _PROPOSAL.validate_python(document)


_PROPOSAL = TypeAdapter(Proposal)
