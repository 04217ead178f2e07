"""Estimates of many draws from many populations: right on average, and covered as promised."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

from neve.reservoir.estimate.estimators import Question, RankedValues, estimate
from neve.reservoir.estimate.sample import Sample
from tests.reservoir.estimate.draws import NUMBER, Draws, exact_total, heavy_tails, priority

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.reservoir.estimate.result import Estimate

    Numbers = npt.NDArray[np.float64]
    Pairs = list[tuple[Estimate, float]]

pytestmark = pytest.mark.long

# Many populations with few draws each: what intervals of a mean cover differs more between populations (by 2 % of
# them, since some have an item in the tail that is hardly ever kept) than draws from one can tell.
POPULATIONS = range(20)
DRAWS = 160  # of each
ALL, HALF, FEW = 1.0, 0.5, 0.1  # the part that is estimated, of which about 100, 50 or 10 items are kept
METHODS = {"priority": priority, "exact_total": exact_total}
EXACT = ("exact_total", ALL, "total")


@cache
def drawn(method: str, population: int) -> Draws:
    """Draws from a population with heavy tails."""
    return METHODS[method](heavy_tails(population), DRAWS, 100 + population)


def latencies(population: int) -> Numbers:
    """A value with a long tail."""
    return np.exp(np.random.default_rng(200 + population).normal(3.0, 0.8, NUMBER))


def chosen(population: int, part: float) -> npt.NDArray[np.bool_]:
    """Which records are of the part that is estimated."""
    return np.random.default_rng(300 + population).random(NUMBER) < part


def true(weights: Numbers, values: Numbers) -> dict[str, float]:
    """The numbers of a part."""
    total, summed = float(weights.sum()), float((weights * values).sum())
    median = RankedValues.of(values, weights, np.zeros(len(values), dtype=np.int64), 1).at(np.full(1, 0.5))[0]
    return {"total": total, "sum": summed, "mean": summed / total, "p50": float(median)}


@cache
def found(method: str, part: float) -> dict[str, Pairs]:
    """What each draw says of a part, and the truth, by the kind of estimate."""
    pairs: dict[str, Pairs] = {"total": [], "sum": [], "mean": [], "p50": []}
    for population in POPULATIONS:
        draws, values, mine = drawn(method, population), latencies(population), chosen(population, part)
        sample = Sample.of(draws.table(None if part == ALL else mine, latency=values))
        truth = true(draws.weights[mine], values[mine])
        for line in estimate(sample, Question("latency", (0.5,))).groups:
            if line.group is not None and not line.group.startswith("-"):
                for kind, told in pairs.items():
                    told.append((line.estimates[kind], truth[kind]))
    return pairs


def covered(pairs: Pairs) -> float:
    """The part of the intervals that hold the truth."""
    return float(np.mean([one.covers(truth) for one, truth in pairs]))


def errors(pairs: Pairs) -> Numbers:
    """By what part of the truth each estimate is off."""
    return np.array([one.value / truth - 1 for one, truth in pairs])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("part", [ALL, HALF])
@pytest.mark.parametrize("kind", ["total", "sum"])
def test_totals_are_right_on_average(method: str, part: float, kind: str) -> None:
    """Over many draws no total or sum leans to either side: |z| < 4; exact totals are exact."""
    off = errors(found(method, part)[kind])
    assert abs(off.mean()) < max(4 * off.std() / np.sqrt(len(off)), 1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("part", "kind"),
    [
        *((ALL, "total"), (ALL, "sum"), (ALL, "mean"), (ALL, "p50"), (HALF, "mean")),
        *((HALF, "total"), (HALF, "sum"), (HALF, "p50")),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(method: str, part: float, kind: str) -> None:
    """93 to 97 % of the 95 % intervals, with heavy tails in the weights and in the values."""
    pairs = found(method, part)[kind]
    if (method, part, kind) == EXACT:
        assert covered(pairs) == 1.0
        assert {one.error for one, _ in pairs} == {0.0}
        assert all(one.low == one.high == one.value for one, _ in pairs)
        return
    assert 0.93 <= covered(pairs) <= 0.97


def test_a_few_items_are_enough_for_totals() -> None:
    """Of about ten kept items; the plain estimate ± 1.96 standard errors would hold too little, for sums above all."""
    assert 0.93 <= covered(found("priority", FEW)["total"]) <= 0.97
    pairs = found("priority", FEW)["sum"]
    assert np.mean([abs(one.value - truth) < 1.96 * one.error for one, truth in pairs]) < 0.90
    assert 0.93 <= covered(pairs) <= 0.98
