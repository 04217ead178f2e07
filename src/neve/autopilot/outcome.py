"""What a layout promised and what it delivered, and what that teaches about later promises."""

import math
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST_OUTCOMES = 3  # of the same kind, before a promise is corrected
NEWEST_OUTCOMES = 30  # of the same kind; older ones are of a data shape that is gone
LEAST_PROMISE_PCT = 1.0  # a ratio to less than that says nothing
LEAST_FACTOR, MOST_FACTOR = 0.5, 1.2


class Estimate(Protocol):
    """A reduction that is expected, with its interval; a frozen dataclass."""

    @property
    def pct(self) -> float:
        """In percent of what is scanned now."""

    @property
    def low_pct(self) -> float:
        """The lower bound."""

    @property
    def high_pct(self) -> float:
        """The upper bound."""


E = TypeVar("E", bound=Estimate)


@dataclass(frozen=True)
class Remeasured:
    """A hot query before and after a merge: bytes, or its share of the table where that has grown meanwhile."""

    weight: float
    before: float
    after: float


@dataclass(frozen=True)
class Outcome:
    """What became of a promise after the merge."""

    table: str
    attempt_id: str
    kind: str  # of the layout: partition, sort, zorder, …
    at: datetime
    promised_pct: float  # as the estimate was before any correction, so that corrections do not feed on themselves
    promised_low_pct: float
    delivered_pct: float

    @property
    def kept(self) -> bool:
        """Whether at least the lower bound was delivered."""
        return self.delivered_pct >= self.promised_low_pct


@dataclass(frozen=True)
class Calibration:
    """What promises of a kind are multiplied by, and why."""

    factor: float
    outcomes: int
    reason: str


def delivered_pct(queries: "Iterable[Remeasured]") -> float | None:
    """How much less is scanned than before, by weight; negative where it is more, none where nothing was scanned."""
    lines = tuple(queries)
    before = math.fsum(line.weight * line.before for line in lines)
    after = math.fsum(line.weight * line.after for line in lines)
    return 100 * (1 - after / before) if before > 0 else None


def calibration(kind: str, outcomes: "Iterable[Outcome]") -> Calibration:
    """What past outcomes say about promises of a kind.

    The median of delivered over promised: one outcome that went wrong for a reason of its own does not move it. It is
    bounded, for a past that was much better or worse than promised is a reason to look, not to extrapolate.
    """
    usable = [one for one in outcomes if one.kind == kind and one.promised_pct >= LEAST_PROMISE_PCT]
    newest = sorted(usable, key=lambda one: (one.at, one.attempt_id))[-NEWEST_OUTCOMES:]
    if len(newest) < LEAST_OUTCOMES:
        return Calibration(
            1.0, len(newest), f"{len(newest)} outcomes of {kind}, expected {LEAST_OUTCOMES} to learn from"
        )
    middle = median(one.delivered_pct / one.promised_pct for one in newest)
    factor = min(max(middle, LEAST_FACTOR), MOST_FACTOR)
    return Calibration(
        factor, len(newest), f"{len(newest)} outcomes of {kind} delivered {middle:.2f} of what was promised"
    )


def calibrated(estimate: E, kind: str, outcomes: "Iterable[Outcome]") -> E:
    """The estimate, with what past outcomes of the kind taught; the bounds move with it."""
    factor = calibration(kind, outcomes).factor

    def corrected(pct: float) -> float:
        # What gets worse is no smaller a loss because less was delivered.
        return min(100.0, pct * factor) if pct > 0 else pct

    changed: E = replace(
        estimate,  # type: ignore[type-var] # a protocol can't say that a dataclass has it
        pct=corrected(estimate.pct),
        low_pct=corrected(estimate.low_pct),
        high_pct=corrected(estimate.high_pct),
    )
    return changed
