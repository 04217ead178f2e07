"""When a rewrite has saved what it cost, by the bytes that queries read in a day."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neve.autopilot.recommend.cost import Cost
    from neve.autopilot.recommend.demand import Demand
    from neve.lake.prices import PricesConfig

TB = 1024**4


@dataclass(frozen=True)
class Payback:
    """What is saved in a day, and in how many days the cost is."""

    bytes_per_day: float
    dollars_per_day: float
    days: float

    def as_document(self) -> dict[str, float | None]:
        """For programs; no days where nothing is saved."""
        return {
            "bytes_per_day": round(self.bytes_per_day),
            "dollars_per_day": round(self.dollars_per_day, 6),
            "days": round(self.days, 2) if isfinite(self.days) else None,
        }


def read_per_day(demand: Demand, planned: float) -> float:
    """Bytes that queries read in a day: as logged, and for those of which no log says it, `planned` bytes each."""
    told = sum(use.bytes_read if use.bytes_read is not None else planned for use in demand.uses)
    return told / demand.days


def payback(cost: Cost, read: float, reduction: float, prices: PricesConfig) -> Payback:
    """What a reduction of the bytes read in a day is worth.

    >>> from neve.autopilot.recommend.cost import Cost
    >>> from neve.lake.prices import PricesConfig
    >>> payback(Cost(0, 0.0, 1.0), TB, 0.5, PricesConfig(scan_per_tb=1.0)).days
    2.0
    """
    saved = max(0.0, read * reduction)
    dollars = saved / TB * prices.scan_per_tb
    return Payback(saved, dollars, cost.dollars / dollars if dollars > 0 else inf)
