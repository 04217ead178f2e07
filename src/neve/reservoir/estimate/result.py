"""Estimates as data: numbers with their intervals, for everything and for each group."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

TOTAL, RATE, SHARE, SUM, MEAN = "total", "rate", "share", "sum", "mean"


@dataclass(frozen=True)
class Estimate:
    """A number, the limits of its interval at the requested level, and the number of kept items that it is based on.

    A limit may be infinite: the items don't bound it on that side. `note` explains why an interval is unreliable.
    """

    value: float
    low: float
    high: float
    error: float
    items: int
    note: str = ""

    def covers(self, truth: float) -> bool:
        """Return whether the true number is within the limits, up to rounding."""
        slack = 1e-9 * max(abs(truth), abs(self.value))
        return self.low - slack <= truth <= self.high + slack

    def as_document(self) -> dict[str, Any]:
        """Return the estimate as a JSON document, with null for numbers that are unknown or unbounded."""
        found = {"estimate": self.value, "low": self.low, "high": self.high, "standard_error": self.error}
        document: dict[str, Any] = {name: one if math.isfinite(one) else None for name, one in found.items()}
        return document | {"items": self.items} | ({"note": self.note} if self.note else {})


@dataclass(frozen=True)
class Column:
    """One kind of estimate for many domains."""

    value: Numbers
    low: Numbers
    high: Numbers
    error: Numbers
    items: Numbers
    notes: tuple[str, ...]

    def estimates(self) -> list[Estimate]:
        """Return the estimates of the domains, one by one."""
        counts = self.items.astype(int).tolist()
        limits = zip(self.low.tolist(), self.high.tolist(), strict=True)
        rows = zip(self.value.tolist(), limits, self.error.tolist(), counts, self.notes, strict=True)
        return [Estimate(value, low, high, error, items, note) for value, (low, high), error, items, note in rows]


@dataclass(frozen=True)
class Line:
    """Estimates of one group, by kind: total, rate, share, sum, mean, p50 and so on."""

    group: str | None
    items: int
    without_value: int
    estimates: Mapping[str, Estimate]

    def as_document(self) -> dict[str, Any]:
        """Return the line as a JSON document."""
        estimates = {name: one.as_document() for name, one in self.estimates.items()}
        return {"group": self.group, "items": self.items, "without_value": self.without_value, **estimates}


@dataclass(frozen=True)
class Estimates:
    """Estimates from a sample: for all records, and for each group, the largest first.

    `unseen` is the most records that a group may have of which none was kept.
    """

    level: float
    of: str | None
    items: int
    windows: int
    seconds: float | None
    overall: Line
    groups: tuple[Line, ...]
    quantiles: tuple[float, ...] = ()
    unseen: float = 0.0
    remarks: tuple[str, ...] = ()

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of estimates, in display order."""
        return tuple(self.overall.estimates)

    def as_document(self) -> dict[str, Any]:
        """Return the estimates as a JSON document."""
        return {
            "level": self.level,
            "of": self.of,
            "items": self.items,
            "windows": self.windows,
            "seconds": self.seconds,
            "unseen": self.unseen,
            "overall": self.overall.as_document(),
            "groups": [line.as_document() for line in self.groups],
            "remarks": list(self.remarks),
        }
