"""What keeps layouts from flapping: a change needs time to settle, and going back needs a clear gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.autopilot.recommend.words import percent

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from neve.autopilot.estimate.interval import Interval
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend_config import RecommendConfig

SECONDS_A_DAY = 86_400


@dataclass(frozen=True)
class Change:
    """A layout that a table was given."""

    at: datetime
    before: Layout
    after: Layout


def unsettled(history: Sequence[Change], now: datetime, config: RecommendConfig) -> str | None:
    """Why no change is made so soon after the last, if it was soon."""
    if not history:
        return None
    days = (now - max(change.at for change in history)).total_seconds() / SECONDS_A_DAY
    if days >= config.settle_days:
        return None
    return f"the layout was changed {days:.1f} days ago, and {config.settle_days:g} are given to settle"


def held_back(layout: Layout, reduction: Interval, history: Sequence[Change], config: RecommendConfig) -> str | None:
    """Why one candidate is not worth a change, if it is not."""
    if reduction.low <= 0:
        return "its gain over the layout that is there is within the error of the estimate"
    needed = config.min_reduction + config.return_margin
    if any(change.before == layout for change in history) and reduction.low < needed:
        return (
            f"the table had this layout before: going back takes {percent(needed)}, "
            f"and {percent(reduction.low)} are sure"
        )
    return None
