"""Recommendation of a layout with its cost, payback and reasons, and the candidates that were rejected."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import inf, isfinite
from typing import TYPE_CHECKING, Any, Literal

from neve.model.properties import BLOOM_FILTER_PREFIX, METRICS_PREFIX, TARGET_FILE_SIZE_BYTES
from neve.text import format_bytes, format_share

if TYPE_CHECKING:
    from neve.autopilot.config import RecommendConfig
    from neve.autopilot.estimate.confidence_interval import Interval
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.candidates import Demand
    from neve.lake.config import PricesConfig


def format_interval(interval: Interval) -> str:
    """Format an interval, its estimate first."""
    return f"{format_share(interval.estimate)} ({format_share(interval.low)} to {format_share(interval.high)})"


def join_names(names: list[str]) -> str:
    """Join names for a sentence.

    >>> join_names(["a"]), join_names(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def format_layout_change(before: Layout, after: Layout) -> str:
    """Describe the difference of two layouts.

    >>> from neve.autopilot.layout import Layout
    >>> format_layout_change(Layout(), Layout(sort=("a",)))
    'sort by a instead of nothing'
    """
    parts = []
    for name, verb in (("partition", "partition by"), ("sort", "sort by"), ("zorder", "z-order by")):
        old, new = getattr(before, name), getattr(after, name)
        if old != new and new:
            parts.append(f"{verb} {', '.join(map(str, new))} instead of {', '.join(map(str, old)) or 'nothing'}")
        elif old != new:
            parts.append(f"no longer {verb} {', '.join(map(str, old))}")
    promoted = [one.source for one in after.promoted if one not in before.promoted]
    blooms = [name for name in after.blooms if name not in before.blooms]
    if promoted:
        parts.append(f"a column for {join_names(promoted)}")
    if blooms:
        parts.append(f"bloom filters on {join_names(blooms)}")
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        parts.append(f"files of {format_bytes(after.target_file_bytes)}")
    return "; ".join(parts) or "nothing"


READS_PER_FILE = 2  # footer and data
COMMIT_CALLS = 4  # manifest, manifest list, metadata, and the catalog's own
PART_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Cost:
    """Cost of a rewrite: bytes, time and dollars."""

    bytes: int
    seconds: float
    dollars: float

    def as_document(self) -> dict[str, float]:
        """Return the JSON document for programs."""
        return {"bytes": self.bytes, "seconds": round(self.seconds, 1), "dollars": round(self.dollars, 6)}


def estimate_rewrite_cost(size: int, files: int, outputs: int, config: RecommendConfig) -> Cost:
    """Estimate the cost if every file is read and every output written, on one core."""
    prices = config.prices
    seconds = size / config.rewrite_bytes_per_s
    writes = outputs + size // PART_BYTES + COMMIT_CALLS
    requests = (READS_PER_FILE * files * prices.get_per_1000 + writes * prices.put_per_1000) / 1000
    return Cost(size, seconds, requests + seconds / 3600 * prices.compute_per_core_hour)


TB = 1024**4


@dataclass(frozen=True)
class Payback:
    """Daily savings, and the number of days that pay for the cost."""

    bytes_per_day: float
    dollars_per_day: float
    days: float

    def as_document(self) -> dict[str, float | None]:
        """Return the JSON document for programs; `days` is null if nothing is saved."""
        return {
            "bytes_per_day": round(self.bytes_per_day),
            "dollars_per_day": round(self.dollars_per_day, 6),
            "days": round(self.days, 2) if isfinite(self.days) else None,
        }


def estimate_daily_bytes(demand: Demand, planned: float) -> float:
    """Return the bytes that queries read per day: as logged, or `planned` bytes for a query without a logged count."""
    total = sum(use.bytes_read if use.bytes_read is not None else planned for use in demand.uses)
    return total / demand.days


def estimate_payback(cost: Cost, read: float, reduction: float, prices: PricesConfig) -> Payback:
    """Estimate the value of a reduction of the bytes that are read per day.

    >>> from neve.autopilot.recommend.recommendation import Cost
    >>> from neve.lake.config import PricesConfig
    >>> estimate_payback(Cost(0, 0.0, 1.0), TB, 0.5, PricesConfig(scan_per_tb=1.0)).days
    2.0
    """
    saved = max(0.0, read * reduction)
    dollars = saved / TB * prices.scan_per_tb
    return Payback(saved, dollars, cost.dollars / dollars if dollars > 0 else inf)


RecommendationType = Literal["partition", "sort", "zorder", "promote", "bloom", "file_size"]


@dataclass(frozen=True)
class Recommendation:
    """A layout that a table should have instead of its current one."""

    table: str
    type: RecommendationType
    before: Layout
    after: Layout
    reduction: Interval
    cost: Cost
    payback: Payback
    reasoning: str
    properties: dict[str, str] = field(default_factory=dict)

    @property
    def expected_scan_reduction_pct(self) -> float:
        """The expected reduction of bytes that queries read, in percent."""
        return 100 * self.reduction.estimate

    @property
    def delta(self) -> str:
        """Description of the change."""
        return format_layout_change(self.before, self.after)

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
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
class RejectedLayout:
    """A candidate that is not recommended; it has no reduction if none was estimated."""

    type: RecommendationType
    layout: Layout
    reason: str
    reduction: Interval | None = None

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {
            "type": self.type,
            "layout": str(self.layout),
            "reason": self.reason,
            "interval_pct": self.reduction.as_document() if self.reduction else None,
        }


@dataclass(frozen=True)
class Advice:
    """Result of the analysis of one table; `reason` explains an empty list of recommendations."""

    table: str
    current: Layout
    queries: int
    read_share: float | None = None
    recommendations: tuple[Recommendation, ...] = ()
    rejected: tuple[RejectedLayout, ...] = ()
    reason: str = ""
    candidates: int = 0
    candidates_per_s: float = 0.0

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
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


def classify_change(before: Layout, after: Layout) -> RecommendationType:
    """Return the kind of a change: the part of the layout that moves most data."""
    if before.partition != after.partition:
        return "partition"
    if before.zorder != after.zorder and after.zorder:
        return "zorder"
    if before.sort != after.sort:
        return "sort"
    if before.promoted != after.promoted:
        return "promote"
    return "bloom" if before.blooms != after.blooms else "file_size"


def build_properties(before: Layout, after: Layout, bounded: frozenset[str], needed: frozenset[str]) -> dict[str, str]:
    """Return the table properties that a layout needs: bounds of its columns, bloom filters, the target size."""
    found = {METRICS_PREFIX + name: "truncate(16)" for name in sorted(needed - bounded)}
    found |= {BLOOM_FILTER_PREFIX + name: "true" for name in after.blooms if name not in before.blooms}
    if after.target_file_bytes and after.target_file_bytes != before.target_file_bytes:
        found[TARGET_FILE_SIZE_BYTES] = str(after.target_file_bytes)
    return found
