"""Rules that reject a candidate, each with a reason, and the hysteresis that keeps layouts from flapping.

A recent change must settle before the next one, and going back needs a clear gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.recommend.candidates import find_required_fields, find_tenant_field
from neve.autopilot.recommend.recommendation import format_interval, join_names
from neve.text import format_bytes, format_share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.autopilot.config import RecommendConfig
    from neve.autopilot.estimate.confidence_interval import Interval
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.evaluation import CandidateEstimate
    from neve.autopilot.recommend.recommendation import Payback


SECONDS_PER_DAY = 86_400


@dataclass(frozen=True)
class LayoutChange:
    """A layout that was applied to a table."""

    at: datetime
    before: Layout
    after: Layout


def reject_unsettled(history: Sequence[LayoutChange], now: datetime, config: RecommendConfig) -> str | None:
    """Return why no change is made so soon after the last one, or None."""
    if not history:
        return None
    days = (now - max(change.at for change in history)).total_seconds() / SECONDS_PER_DAY
    if days >= config.settle_days:
        return None
    return f"the layout changed {days:.1f} days ago; the next change is considered after {config.settle_days:g} days"


def reject_flapping(
    layout: Layout, reduction: Interval, history: Sequence[LayoutChange], config: RecommendConfig
) -> str | None:
    """Return why a candidate is not worth a change, or None.

    The gain must exceed the error of the estimate, and a return to an earlier layout needs a clear gain.
    """
    if reduction.low <= 0:
        return "the gain over the current layout is within the error of the estimate"
    needed = config.min_reduction + config.return_margin
    if any(change.before == layout for change in history) and reduction.low < needed:
        return (
            f"the table had this layout before: a return needs at least {format_share(needed)}, "
            f"the lower bound is {format_share(reduction.low)}"
        )
    return None


MAX_PARTITIONS = 10_000


def reject_small_table(queries: int, table_bytes: int, config: RecommendConfig) -> str | None:
    """Return why a table is skipped before any candidate is evaluated, or None."""
    if table_bytes < config.min_table_bytes:
        return f"the table has {format_bytes(table_bytes)}, expected at least {format_bytes(config.min_table_bytes)}"
    if queries < config.min_queries:
        return f"{queries} logged queries, expected at least {config.min_queries}"
    return None


def reject_dropped_fields(layout: Layout, current: Layout, config: RecommendConfig) -> str | None:
    """Return why the required partition fields of a table with tenants are kept, if a layout drops one."""
    kept = find_required_fields(current) if config.keep_time_partition else find_tenant_field(current)
    lost = [str(field) for field in kept if field not in layout.partition]
    if not lost:
        return None
    return f"retention, compaction and rollups need the partition by {join_names(lost)}"


def reject_fine_partition(estimate: CandidateEstimate, current: Layout, target: int) -> str | None:
    """Return why a new partitioning is too fine, or None."""
    layout, scan = estimate.layout, estimate.scan
    if layout.partition == current.partition:
        return None
    if scan.partitions > MAX_PARTITIONS:
        return f"{scan.partitions:,} partitions are more than {MAX_PARTITIONS:,}"
    if scan.median_partition_bytes < (layout.target_file_bytes or target):
        return (
            f"a median partition would hold {format_bytes(scan.median_partition_bytes)}, "
            f"less than one file of {format_bytes(layout.target_file_bytes or target)}"
        )
    return None


def reject_small_gain(reduction: Interval, config: RecommendConfig) -> str | None:
    """Return why a reduction is too small, if its lower bound is, or None."""
    if reduction.low >= config.min_reduction:
        return None
    return (
        f"expected to read {format_interval(reduction)} less, but the lower bound must be at least "
        f"{format_share(config.min_reduction)}"
    )


def reject_slow_payback(payback: Payback, config: RecommendConfig) -> str | None:
    """Return why a rewrite does not pay back soon enough, or None."""
    if payback.days <= config.payback_days:
        return None
    return f"the rewrite would pay back in {payback.days:,.3g} days, expected at most {config.payback_days:g}"


def find_objection(
    estimate: CandidateEstimate,
    payback: Payback,
    current: Layout,
    history: Sequence[LayoutChange],
    config: RecommendConfig,
) -> str | None:
    """Return the first reason to reject a candidate, or None."""
    target = current.target_file_bytes or 0
    return (
        reject_fine_partition(estimate, current, target)
        or reject_small_gain(estimate.reduction, config)
        or reject_flapping(estimate.layout, estimate.reduction, history, config)
        or reject_slow_payback(payback, config)
    )
