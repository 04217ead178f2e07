"""Outcomes of merges: the measured gain beside the estimate, and the calibration of later estimates by it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - pydantic reads the annotation
from statistics import median
from typing import TYPE_CHECKING

from neve.autopilot.propose.proposal import Reduction

if TYPE_CHECKING:
    from collections.abc import Iterable


MIN_OUTCOMES = 3  # outcomes of the same kind that are required to correct an estimate
MAX_OUTCOMES = 30  # outcomes of the same kind; older ones belong to an outdated shape of the data
MIN_EXPECTED_PCT = 1.0  # a ratio to a smaller estimate is meaningless
MIN_FACTOR, MAX_FACTOR = 0.5, 1.2


@dataclass(frozen=True)
class QueryMeasurement:
    """A hot query before and after a merge: bytes, or its share of the table if that has grown since."""

    weight: float
    before: float
    after: float


@dataclass(frozen=True)
class Outcome:
    """Measured result of a merge, beside the estimate."""

    table: str
    attempt_id: str
    kind: str  # kind of layout: partition, sort, zorder, …
    at: datetime
    promised_pct: float  # the estimate before any correction, so that corrections don't feed on themselves
    promised_low_pct: float
    delivered_pct: float

    @property
    def is_delivered(self) -> bool:
        """Return whether at least the lower bound was delivered."""
        return self.delivered_pct >= self.promised_low_pct


@dataclass(frozen=True)
class Calibration:
    """The factor for estimates of a kind, and its reason."""

    factor: float
    outcomes: int
    reason: str


def compute_delivered_pct(queries: Iterable[QueryMeasurement]) -> float | None:
    """Return the reduction of scanned bytes in percent, weighted.

    It is negative if more is scanned than before, and None if nothing was scanned before.
    """
    lines = tuple(queries)
    before = math.fsum(line.weight * line.before for line in lines)
    after = math.fsum(line.weight * line.after for line in lines)
    return 100 * (1 - after / before) if before > 0 else None


def compute_calibration(kind: str, outcomes: Iterable[Outcome]) -> Calibration:
    """Return the calibration of estimates of a kind by past outcomes.

    The factor is the median of delivered over promised: one outcome that failed for a reason of its own doesn't move
    it. It is bounded, because a past much better or worse than promised is a reason to investigate, not to extrapolate.
    """
    usable = [one for one in outcomes if one.kind == kind and one.promised_pct >= MIN_EXPECTED_PCT]
    newest = sorted(usable, key=lambda one: (one.at, one.attempt_id))[-MAX_OUTCOMES:]
    if len(newest) < MIN_OUTCOMES:
        return Calibration(
            1.0, len(newest), f"{len(newest)} outcomes of {kind}, expected at least {MIN_OUTCOMES} for a calibration"
        )
    middle = median(one.delivered_pct / one.promised_pct for one in newest)
    factor = min(max(middle, MIN_FACTOR), MAX_FACTOR)
    return Calibration(factor, len(newest), f"{len(newest)} outcomes of {kind} delivered {middle:.2f} of the estimate")


def calibrate_estimate(estimate: Reduction, kind: str, outcomes: Iterable[Outcome]) -> Reduction:
    """Return the estimate, corrected by past outcomes of the kind; the bounds move with it."""
    factor = compute_calibration(kind, outcomes).factor

    def correct(pct: float) -> float:
        # An expected loss doesn't become smaller because less was delivered.
        return min(100.0, pct * factor) if pct > 0 else pct

    return Reduction(correct(estimate.pct), correct(estimate.low_pct), correct(estimate.high_pct))
