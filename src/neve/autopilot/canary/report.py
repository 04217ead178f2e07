"""What a canary found, and whether it is good enough; values in, values out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from neve.autopilot.estimate.interval import Interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.stage_config import CanaryConfig

DRAWS = 2_000
SEED = 20_240_601


@dataclass(frozen=True)
class CanaryResult:
    """One hot query on both sides; `difference` is empty where the answers are the same."""

    name: str
    weight: float
    difference: str
    rows: int
    planned_main: int
    planned_branch: int
    read_main: int | None
    read_branch: int | None
    seconds_main: float
    seconds_branch: float
    remarks: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the answers are the same."""
        return not self.difference


@dataclass(frozen=True)
class SkippedQuery:
    """A hot query that was not compared, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class CanaryReport:
    """The verdict, with every query; it holds no literal of any."""

    attempt_id: str
    table: str
    passed: bool
    reduction: Interval | None  # of planned bytes; none where nothing is planned on main
    results: tuple[CanaryResult, ...]
    skipped: tuple[SkippedQuery, ...]
    reasons: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {
            **asdict(self),
            "reduction": self.reduction.as_document() if self.reduction else None,
            "results": [{**asdict(one), "equal": one.equal} for one in self.results],
        }


def judged(
    attempt_id: str,
    table: str,
    results: Sequence[CanaryResult],
    skipped: Sequence[SkippedQuery],
    config: CanaryConfig,
) -> CanaryReport:
    """Passing means that every answer is the same and that the lower bound of the reduction reaches the threshold."""
    reduction = reduction_of(results, config.confidence)
    different = [one for one in results if not one.equal]
    reasons = [f"{one.name} differs: {one.difference}" for one in different]
    if not results:
        reasons.append("no query could be compared")
    if reduction is None:
        reasons.append("no query plans to read any byte of main, so nothing can get less")
    low = 100 * reduction.low if reduction else 0.0
    enough = reduction is not None and low >= config.threshold_pct
    if reduction is not None:
        reasons.append(
            f"planned bytes go down by {100 * reduction.estimate:.1f} %, at least by {low:.1f} %, "
            f"{'which reaches' if enough else 'expected'} {config.threshold_pct:g} %"
        )
    passed = bool(results) and not different and enough
    return CanaryReport(attempt_id, table, passed, reduction, tuple(results), tuple(skipped), tuple(reasons))


def reduction_of(results: Sequence[CanaryResult], confidence: float) -> Interval | None:
    """How much less is planned, by weight; the bounds say how it varies when other queries of the kind are drawn."""
    weights = np.array([one.weight for one in results], dtype=np.float64)
    main = weights * np.array([one.planned_main for one in results], dtype=np.float64)
    branch = weights * np.array([one.planned_branch for one in results], dtype=np.float64)
    if not main.sum():
        return None
    picked = np.random.default_rng(SEED).integers(0, len(results), (DRAWS, len(results)))
    totals = main[picked].sum(axis=1)
    drawn = 1 - branch[picked].sum(axis=1)[totals > 0] / totals[totals > 0]
    tail = (1 - confidence) / 2
    return Interval(
        float(np.quantile(drawn, tail)), float(1 - branch.sum() / main.sum()), float(np.quantile(drawn, 1 - tail))
    )
