"""Expected gain of a recommended layout: the estimate, calibrated by the outcomes of earlier merges."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neve.autopilot.outcome import calibrate_estimate, compute_calibration
from neve.autopilot.propose.proposal import Reduction
from neve.autopilot.recommend.recommendation import Advice, Recommendation, RejectedLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.outcome import Outcome


@dataclass(frozen=True)
class ExpectedGain:
    """A recommendation with its expected gain.

    `raw` is the estimate, `calibrated` is the calibrated gain that is reported, and `lesson` is the reason for the
    difference.
    """

    recommendation: Recommendation
    raw: Reduction
    calibrated: Reduction
    lesson: str = ""

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {**self.recommendation.as_document(), "promised_pct": vars(self.calibrated), "lesson": self.lesson}


@dataclass(frozen=True)
class ExpectedGains:
    """Advice on a table, with expected gains.

    Recommendations that past outcomes contradict are among the rejected candidates.
    """

    advice: Advice
    gains: tuple[ExpectedGain, ...]

    def as_document(self) -> dict[str, Any]:
        """Return the JSON document for programs."""
        return {**self.advice.as_document(), "recommendations": [one.as_document() for one in self.gains]}


def expect_gains(advice: Advice, outcomes: Sequence[Outcome], least: float) -> ExpectedGains:
    """Calibrate the gains of all recommendations.

    A recommendation is rejected if the lower bound of its gain is below the share `least`.
    """
    every = [expect_gain(one, outcomes) for one in advice.recommendations]
    gains = tuple(one for one in every if one.calibrated.low_pct >= 100 * least)
    rejected = tuple(_reject_gain(one, least) for one in every if one not in gains)
    reason = advice.reason or ("" if gains or not rejected else "past outcomes contradict the candidates")
    changed = replace(
        advice,
        recommendations=tuple(one.recommendation for one in gains),
        rejected=(*rejected, *advice.rejected),
        reason=reason,
    )
    return ExpectedGains(changed, gains)


def expect_gain(recommendation: Recommendation, outcomes: Sequence[Outcome]) -> ExpectedGain:
    """Calibrate an estimate by the past outcomes of the same kind of change."""
    interval, kind = recommendation.reduction, recommendation.type
    raw = Reduction(100 * interval.estimate, 100 * interval.low, 100 * interval.high)
    lesson = compute_calibration(kind, outcomes)
    return ExpectedGain(
        recommendation, raw, calibrate_estimate(raw, kind, outcomes), "" if lesson.factor == 1 else lesson.reason
    )


def _reject_gain(one: ExpectedGain, least: float) -> RejectedLayout:
    found = one.recommendation
    reason = f"{one.lesson}: the lower bound is {one.calibrated.low_pct:.0f} %, expected at least {100 * least:.0f} %"
    return RejectedLayout(found.type, found.after, reason, found.reduction)
