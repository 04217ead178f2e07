"""Parts of samples, windows together and other levels: their intervals hold the truth as often as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from neve.reservoir.estimate.estimators import Question, estimate
from neve.reservoir.estimate.sample import Sample
from tests.reservoir.estimate.draws import NUMBER, Draws, heavy_tails, priority

if TYPE_CHECKING:
    from neve.reservoir.estimate.result import Estimate


def covered(estimates: list[Estimate], truth: float) -> float:
    """The part of the intervals that hold the truth."""
    return float(np.mean([one.covers(truth) for one in estimates]))


@pytest.mark.slow
def test_the_share_of_a_part() -> None:
    """A part of one sample as a share of all of it, over many samples."""
    draws, mine = priority(heavy_tails(0), 400, 12), np.random.default_rng(3).random(NUMBER) < 0.3
    shares = []
    for place in range(len(draws.tau)):
        one = Draws(draws.kept[place : place + 1], draws.tau[place : place + 1], draws.weights, draws.method)
        told = estimate(Sample.of(one.table(mine))).groups
        shares += [line.estimates["share"] for line in told if line.group == "0"]
    assert 0.93 <= covered(shares, float(draws.weights[mine].sum() / draws.weights.sum())) <= 0.97


@pytest.mark.slow
def test_windows_add_up() -> None:
    """Many small draws as one total: its error is that of the sum."""
    weights = heavy_tails(0)[:200]
    samples = [Sample.of(priority(weights, 20, seed, kept=15).table()) for seed in range(300)]
    totals, truth = [estimate(sample).overall.estimates["total"] for sample in samples], 20 * float(weights.sum())
    values = np.array([one.value for one in totals])
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(len(values))
    assert 0.93 <= covered(totals, truth) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.5, 0.8, 0.99])
def test_other_levels_hold_too(level: float) -> None:
    """Intervals of another level hold the truth that often."""
    draws = priority(heavy_tails(1), 1000, 13)
    told = estimate(Sample.of(draws.table()), Question(level=level)).groups
    found = covered([line.estimates["total"] for line in told], float(draws.weights.sum()))
    assert found == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 1000))
