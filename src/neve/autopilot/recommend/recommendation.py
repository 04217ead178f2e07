"""A recommendation, with all that a person needs to judge it; and what was not recommended, with why."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from neve.autopilot.recommend.words import difference
from neve.model.columns import BLOOM_FILTER_PREFIX, METRICS_PREFIX, TARGET_FILE_SIZE_BYTES

if TYPE_CHECKING:
    from neve.autopilot.estimate.interval import Interval
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.cost import Cost
    from neve.autopilot.recommend.payback import Payback

Type = Literal["partition", "sort", "zorder", "promote", "bloom", "file_size"]


@dataclass(frozen=True)
class Recommendation:
    """A layout that a table should get instead of the one that it has."""

    table: str
    type: Type
    before: Layout
    after: Layout
    reduction: Interval
    cost: Cost
    payback: Payback
    reasoning: str
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def expected_scan_reduction_pct(self) -> float:
        """How much less queries are expected to read, in percent."""
        return 100 * self.reduction.estimate

    @property
    def delta(self) -> str:
        """What changes, in words."""
        return difference(self.before, self.after)

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": self.table,
            "type": self.type,
            "delta": self.delta,
            "before": asdict(self.before),
            "after": asdict(self.after),
            "properties": self.properties,
            "expected_scan_reduction_pct": round(self.expected_scan_reduction_pct, 2),
            "interval_pct": self.reduction.as_document(),
            "cost": self.cost.as_document(),
            "payback": self.payback.as_document(),
            "reasoning": self.reasoning,
        }


@dataclass(frozen=True)
class Rejected:
    """A candidate that is not recommended; it has no reduction where none was estimated."""

    type: Type
    layout: Layout
    reason: str
    reduction: Interval | None = None

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "type": self.type,
            "layout": str(self.layout),
            "reason": self.reason,
            "interval_pct": self.reduction.as_document() if self.reduction else None,
        }


@dataclass(frozen=True)
class Advice:
    """What came of looking at one table; `reason` says why nothing is recommended, where nothing is."""

    table: str
    current: Layout
    queries: int
    read_share: float | None = None
    recommendations: tuple[Recommendation, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    reason: str = ""
    candidates: int = 0
    candidates_per_s: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            "table": self.table,
            "current": str(self.current),
            "queries": self.queries,
            "read_share_pct": None if self.read_share is None else round(100 * self.read_share, 2),
            "recommendations": [one.as_document() for one in self.recommendations],
            "rejected": [one.as_document() for one in self.rejected],
            "reason": self.reason,
            "candidates": self.candidates,
            "candidates_per_s": round(self.candidates_per_s, 1),
        }


def type_of(before: Layout, after: Layout) -> Type:
    """What kind of change it is: the one that moves most names it."""
    if before.partition != after.partition:
        return "partition"
    if before.zorder != after.zorder and after.zorder:
        return "zorder"
    if before.sort != after.sort:
        return "sort"
    if before.promoted != after.promoted:
        return "promote"
    return "bloom" if before.blooms != after.blooms else "file_size"


def changed_properties(
    before: Layout, after: Layout, bounded: frozenset[str], needed: frozenset[str]
) -> dict[str, str]:
    """The table properties that a layout needs: bounds of its columns, bloom filters, the target size."""
    found = {METRICS_PREFIX + name: "truncate(16)" for name in sorted(needed - bounded)}
    found |= {BLOOM_FILTER_PREFIX + name: "true" for name in after.blooms if name not in before.blooms}
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        found[TARGET_FILE_SIZE_BYTES] = str(after.target_file_bytes)
    return found
