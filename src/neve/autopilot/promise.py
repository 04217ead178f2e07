"""What a recommendation promises: the estimate as it came from the sample, and what past outcomes make of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from neve.autopilot.outcome import calibrated, calibration
from neve.autopilot.propose.proposal import Reduction
from neve.autopilot.recommend.recommendation import Advice, Recommendation, Rejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.outcome import Outcome


@dataclass(frozen=True)
class Promise:
    """A recommendation; `raw` is the estimate, `told` is what is promised, and `lesson` says why they differ."""

    recommendation: Recommendation
    raw: Reduction
    told: Reduction
    lesson: str = ""

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {**self.recommendation.as_document(), "promised_pct": vars(self.told), "lesson": self.lesson}


@dataclass(frozen=True)
class Promises:
    """Advice on a table, with what is promised; what past outcomes speak against is among the rejected."""

    advice: Advice
    kept: tuple[Promise, ...]

    def as_document(self) -> dict[str, Any]:
        """For programs."""
        return {**self.advice.as_document(), "recommendations": [one.as_document() for one in self.kept]}


def promised(advice: Advice, outcomes: Sequence[Outcome], least: float) -> Promises:
    """What may be promised; `least` is the share that must be sure."""
    every = [promise(one, outcomes) for one in advice.recommendations]
    kept = tuple(one for one in every if one.told.low_pct >= 100 * least)
    rejected = tuple(_refused(one, least) for one in every if one not in kept)
    reason = advice.reason or ("" if kept or not rejected else "past outcomes speak against what was found")
    changed = replace(
        advice,
        recommendations=tuple(one.recommendation for one in kept),
        rejected=(*rejected, *advice.rejected),
        reason=reason,
    )
    return Promises(changed, kept)


def promise(recommendation: Recommendation, outcomes: Sequence[Outcome]) -> Promise:
    """An estimate in the light of what estimates of its kind were worth."""
    interval, kind = recommendation.reduction, recommendation.type
    raw = Reduction(100 * interval.estimate, 100 * interval.low, 100 * interval.high)
    lesson = calibration(kind, outcomes)
    return Promise(recommendation, raw, calibrated(raw, kind, outcomes), "" if lesson.factor == 1 else lesson.reason)


def _refused(one: Promise, least: float) -> Rejected:
    found = one.recommendation
    reason = f"{one.lesson}: {one.told.low_pct:.0f} % are sure, and {100 * least:.0f} % must be"
    return Rejected(found.type, found.after, reason, found.reduction)
