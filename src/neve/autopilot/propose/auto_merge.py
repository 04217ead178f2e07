"""Whether a proposal may be merged without a person: within every bound that was set, or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

from neve.autopilot.propose.body import size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from neve.autopilot.propose.proposal import Proposal
    from neve.autopilot.propose_config import AutoMergeConfig


@dataclass(frozen=True)
class Decision:
    """Whether, and why; a refusal names every bound that is in the way."""

    allowed: bool
    reason: str


def auto_merge(proposal: Proposal, bounds: AutoMergeConfig, at: datetime) -> Decision:
    """The decision for a proposal at a time."""
    if not bounds.enabled:
        return Decision(False, "auto_merge is off")
    refusals = tuple(_refusals(proposal, bounds, at))
    if refusals:
        return Decision(False, "; ".join(refusals))
    return Decision(
        True,
        f"{proposal.kind} of {size(proposal.table_bytes)} for {proposal.cost_dollars:.2f} dollars with at least "
        f"{proposal.least_reduction_pct:.1f} % less to scan is within the bounds of auto_merge",
    )


def within_hours(hour: int, from_hour: int, to_hour: int) -> bool:
    """Whether an hour lies in a span of the day, which may go over midnight.

    >>> within_hours(23, 22, 6), within_hours(6, 22, 6), within_hours(5, 0, 24)
    (True, False, True)
    """
    if from_hour < to_hour:
        return from_hour <= hour < to_hour
    return hour >= from_hour or hour < to_hour


def _refusals(proposal: Proposal, bounds: AutoMergeConfig, at: datetime) -> Iterator[str]:
    # Each bound is asked whether it holds, so that a number that is none (NaN) is refused.
    if not proposal.canary_passed:
        yield "no canary has shown that all results are equal"
    if proposal.kind not in bounds.kinds:
        yield f"the kind is {proposal.kind}, expected one of {', '.join(bounds.kinds) or 'none'}"
    if not proposal.table_bytes <= bounds.largest_table_bytes:
        yield f"the table has {size(proposal.table_bytes)}, expected at most {size(bounds.largest_table_bytes)}"
    if not proposal.least_reduction_pct >= bounds.least_reduction_pct:
        yield f"the reduction may be as low as {proposal.least_reduction_pct:.1f} %, expected at least " + (
            f"{bounds.least_reduction_pct:.1f} %"
        )
    if not proposal.cost_dollars <= bounds.most_dollars:
        yield f"it costs {proposal.cost_dollars:.2f} dollars, expected at most {bounds.most_dollars:.2f}"
    hour = at.astimezone(UTC).hour
    if not within_hours(hour, bounds.from_hour, bounds.to_hour):
        yield f"it is {hour} h UTC, expected {bounds.from_hour} to {bounds.to_hour} h"
