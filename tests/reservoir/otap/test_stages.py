"""Stages: the sample of a sample is unbiased with the salts that the sampler gives, and not with one for both."""

from __future__ import annotations

import math

import numpy as np

from neve.reservoir.config import ReservoirConfig
from neve.reservoir.otap.decide import stage_salt
from neve.reservoir.sampling.methods import sample_priority
from neve.reservoir.windows import Window

ITEMS, FIRST, SECOND, SEEDS = 60, 20, 6, 600
WEIGHTS = ((np.arange(ITEMS) + 0.5) / ITEMS) ** -0.9
WINDOW = Window(0, 60)


def two_stages(name: str, parts: tuple[str, str]) -> float:
    """The total that is estimated from the sample of a sample; each stage has a part of its own, ids stay."""
    config = ReservoirConfig(name=name)
    one, two = parts
    first = sample_priority(
        [((one, n), float(WEIGHTS[n])) for n in range(ITEMS)], FIRST, stage_salt(config, WINDOW, [one])
    )
    again = [((two, kept.key[1]), kept.adjusted) for kept in first]  # type: ignore[index]
    return sum(kept.adjusted for kept in sample_priority(again, SECOND, stage_salt(config, WINDOW, [two])))


def surprise(parts: tuple[str, str]) -> float:
    """How many standard errors the mean over many samplers is from the truth."""
    found = np.array([two_stages(f"sampler {seed}", parts) for seed in range(SEEDS)])
    return float((found.mean() - WEIGHTS.sum()) / (found.std() / math.sqrt(SEEDS)))


def test_two_stages_are_unbiased() -> None:
    """With the same settings for both: their parts tell them apart."""
    assert abs(surprise(("one", "two"))) < 4


def test_two_stages_with_one_salt_are_not() -> None:
    """What was kept by chance would be kept by the same chance again."""
    assert surprise(("one", "one")) > 10


def test_what_is_kept_by_what_does_not_change_the_chances() -> None:
    """So that a query can decide as the settings do; another sampler, signal, window or part does."""
    plain = stage_salt(ReservoirConfig(), WINDOW, ["p", "q"])
    assert plain == stage_salt(ReservoirConfig(k=5, by=("zone",), query="SELECT"), WINDOW, ["q", "p"])
    others = (
        stage_salt(ReservoirConfig(name="other"), WINDOW, ["p", "q"]),
        stage_salt(ReservoirConfig(signal="spans"), WINDOW, ["p", "q"]),
        stage_salt(ReservoirConfig(), Window(WINDOW.end_ns, 60), ["p", "q"]),
        stage_salt(ReservoirConfig(), WINDOW, ["p"]),
    )
    assert len({plain, *others}) == 5
