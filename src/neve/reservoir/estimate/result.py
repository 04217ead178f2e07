"""What is told of a sample: for everything and for each group, numbers with their intervals."""

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
    """A number, the limits that hold the true one at the level asked for, and how many kept items it rests on.

    A limit may be infinite: the items don't bound it on that side. `note` says why an interval can't be trusted.
    """

    value: float
    low: float
    high: float
    error: float
    items: int
    note: str = ""

    def covers(self, truth: float) -> bool:
        """Whether the true number is within the limits; numbers that differ by rounding are the same."""
        slack = 1e-9 * max(abs(truth), abs(self.value))
        return self.low - slack <= truth <= self.high + slack

    def as_document(self) -> dict[str, Any]:
        """As JSON has it: null for what is not known or not bounded."""
        found = {"estimate": self.value, "low": self.low, "high": self.high, "standard_error": self.error}
        told: dict[str, Any] = {name: one if math.isfinite(one) else None for name, one in found.items()}
        return told | {"items": self.items} | ({"note": self.note} if self.note else {})


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
        """Those of the domains, one by one."""
        counts = self.items.astype(int).tolist()
        limits = zip(self.low.tolist(), self.high.tolist(), strict=True)
        told = zip(self.value.tolist(), limits, self.error.tolist(), counts, self.notes, strict=True)
        return [Estimate(value, low, high, error, items, note) for value, (low, high), error, items, note in told]


@dataclass(frozen=True)
class Line:
    """What is told of one group, by the kind of estimate: total, rate, share, sum, mean, p50 and so on."""

    group: str | None
    items: int
    without_value: int
    estimates: Mapping[str, Estimate]

    def as_document(self) -> dict[str, Any]:
        """As JSON has it."""
        told = {name: one.as_document() for name, one in self.estimates.items()}
        return {"group": self.group, "items": self.items, "without_value": self.without_value, **told}


@dataclass(frozen=True)
class Estimates:
    """What a sample says: of everything, and of each group, the largest first.

    `unseen` is how many records a group may have of which nothing was kept.
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
        """What was estimated, in the order in which it is told."""
        return tuple(self.overall.estimates)

    def as_document(self) -> dict[str, Any]:
        """As JSON has it."""
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
