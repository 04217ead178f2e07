"""Whose turn it is first, when not everything can be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.compact.words import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.compact.verdict import Verdict

GAIN_WEIGHT, COST_WEIGHT = 0.7, 0.3


def ranked(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts with work; those that count gains by gain against cost, all others by how much there is to do.

    What is left for another run has grown by then: every partition has its turn.
    """
    working = [verdict for verdict in verdicts if verdict.has_work]
    gains, costs = [verdict.gain for verdict in working], [verdict.cost for verdict in working]
    if not any(gains):
        return sorted(working, key=lambda verdict: (-verdict.cost, verdict.measure.partition.key))
    scores = {
        verdict.measure.partition.key: GAIN_WEIGHT * gain - COST_WEIGHT * cost
        for verdict, gain, cost in zip(working, _normal(gains), _normal(costs), strict=True)
    }
    return sorted(working, key=lambda verdict: (-scores[verdict.measure.partition.key], verdict.measure.partition.key))


def _normal(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    return [(value - low) / (high - low) if high > low else 1.0 for value in values]


def too_late(verdict: Verdict, limit: str) -> str:
    """Why a partition had no turn."""
    taken = verdict.share
    return f"{verdict.reason}; {taken.files:,} files of {size(taken.bytes)} wait for another run: {limit} is used up"
