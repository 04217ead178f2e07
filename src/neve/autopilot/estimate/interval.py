"""How sure an estimate is: the sample drawn anew from itself, many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.estimate.sample import Sample

Floats = npt.NDArray[np.float64]
ENOUGH_FILES = 30  # fewer than this say little of how files differ: then rows are drawn, not files


@dataclass(frozen=True)
class Interval:
    """A number between two bounds."""

    low: float
    estimate: float
    high: float

    def as_document(self) -> dict[str, float]:
        """For programs, in percent."""
        return {name: round(100 * getattr(self, name), 2) for name in ("low", "estimate", "high")}


def resampled(sample: Sample, times: int, seed: int) -> Iterator[Floats]:
    """Weights of samples drawn from a sample with replacement: whole files, because rows of one file are alike."""
    chance = np.random.default_rng(seed)
    files = int(sample.files.max(initial=-1)) + 1
    enough = len(np.unique(sample.files)) >= ENOUGH_FILES
    for _time in range(times):
        if enough:
            weights = sample.weights * chance.poisson(1.0, files)[sample.files]
        else:
            weights = sample.weights * chance.poisson(1.0, sample.rows)
        if weights.any():
            yield weights


def interval_of(estimate: float, drawn: Floats, confidence: float, least: float) -> Interval:
    """The estimate with the spread of what was drawn around it, and never narrower than `least` to either side.

    >>> interval_of(0.5, np.array([0.3, 0.3, 0.3]), 0.9, 0.25)
    Interval(low=0.25, estimate=0.5, high=0.75)
    """
    tail = (1 - confidence) / 2
    # Drawn samples lack a third of the rows, which moves all of them to one side: only their spread tells anything.
    moved = drawn - drawn.mean()
    below, above = float(np.quantile(moved, tail)), float(np.quantile(moved, 1 - tail))
    return Interval(estimate + min(below, -least), estimate, estimate + max(above, least))
