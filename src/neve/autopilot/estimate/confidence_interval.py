"""Confidence interval of an estimate, by bootstrap: resample the sample from itself many times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.autopilot.estimate.sample import Sample

Floats = npt.NDArray[np.float64]
MIN_FILES = 30  # with fewer files, the variance between files is unreliable: rows are drawn instead of files


@dataclass(frozen=True)
class Interval:
    """A number between two bounds."""

    low: float
    estimate: float
    high: float

    def as_document(self) -> dict[str, float]:
        """Return the JSON document for programs, in percent."""
        return {name: round(100 * getattr(self, name), 2) for name in ("low", "estimate", "high")}


def resample_weights(sample: Sample, times: int, seed: int) -> Iterator[Floats]:
    """Yield the weights of samples that are drawn from a sample with replacement.

    Whole files are drawn, because the rows of one file are similar.
    """
    chance = np.random.default_rng(seed)
    files = int(sample.files.max(initial=-1)) + 1
    enough = len(np.unique(sample.files)) >= MIN_FILES
    for _time in range(times):
        if enough:
            weights = sample.weights * chance.poisson(1.0, files)[sample.files]
        else:
            weights = sample.weights * chance.poisson(1.0, sample.rows)
        if weights.any():
            yield weights


def build_interval(estimate: float, drawn: Floats, confidence: float, least: float) -> Interval:
    """Return the estimate with the spread of the drawn values around it.

    The interval has at least `least` on either side.

    >>> build_interval(0.5, np.array([0.3, 0.3, 0.3]), 0.9, 0.25)
    Interval(low=0.25, estimate=0.5, high=0.75)
    """
    tail = (1 - confidence) / 2
    # Drawn samples lack a third of the rows, which shifts all of them to one side: only their spread is meaningful.
    moved = drawn - drawn.mean()
    below, above = float(np.quantile(moved, tail)), float(np.quantile(moved, 1 - tail))
    return Interval(estimate + min(below, -least), estimate, estimate + max(above, least))
