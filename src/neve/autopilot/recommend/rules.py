"""What speaks against a candidate; nothing does against one that is recommended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.recommend.candidates import kept_fields, tenant_of
from neve.autopilot.recommend.hysteresis import held_back
from neve.autopilot.recommend.words import between, named, percent, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.evaluate import Estimate
    from neve.autopilot.recommend.hysteresis import Change
    from neve.autopilot.recommend.payback import Payback
    from neve.autopilot.recommend_config import RecommendConfig

MANY_PARTITIONS = 10_000


def too_little(queries: int, table_bytes: int, config: RecommendConfig) -> str | None:
    """Why a table is left alone before any candidate is looked at, if it is."""
    if table_bytes < config.min_table_bytes:
        return (
            f"the table has {size(table_bytes)}, and less than {size(config.min_table_bytes)} is too little to matter"
        )
    if queries < config.min_queries:
        return f"{queries} queries were logged, and fewer than {config.min_queries} say too little"
    return None


def unkept(layout: Layout, current: Layout, config: RecommendConfig) -> str | None:
    """Why a partition of a table of tenants is not given up, if a layout does."""
    kept = kept_fields(current) if config.keep_time_partition else tenant_of(current)
    lost = [str(field) for field in kept if field not in layout.partition]
    if not lost:
        return None
    return f"retention, compaction and rollups go by the partition by {named(lost)}, which it would give up"


def too_fine(estimate: Estimate, current: Layout, target: int) -> str | None:
    """Why a partition is too fine, if it is new and is."""
    layout, scan = estimate.layout, estimate.scan
    if layout.partition == current.partition:
        return None
    if scan.partitions > MANY_PARTITIONS:
        return f"{scan.partitions:,} partitions are more than {MANY_PARTITIONS:,}"
    if scan.median_partition_bytes < (layout.target_file_bytes or target):
        return (
            f"a median partition would hold {size(scan.median_partition_bytes)}, "
            f"less than one file of {size(layout.target_file_bytes or target)}"
        )
    return None


def too_small_gain(estimate: Estimate, config: RecommendConfig) -> str | None:
    """Why a reduction is too small, if its lower bound is."""
    if estimate.reduction.low >= config.min_reduction:
        return None
    return f"it would read {between(estimate.reduction)} less, and {percent(config.min_reduction)} must be sure"


def too_dear(payback: Payback, config: RecommendConfig) -> str | None:
    """Why a rewrite does not pay, if it does not soon enough."""
    if payback.days <= config.payback_days:
        return None
    return f"the rewrite would pay back in {payback.days:,.3g} days, and {config.payback_days:g} are allowed"


def objection(
    estimate: Estimate, payback: Payback, current: Layout, history: Sequence[Change], config: RecommendConfig
) -> str | None:
    """The first thing that speaks against a candidate."""
    target = current.target_file_bytes or 0
    return (
        too_fine(estimate, current, target)
        or too_small_gain(estimate, config)
        or held_back(estimate.layout, estimate.reduction, history, config)
        or too_dear(payback, config)
    )
