"""Candidates with their estimates: all of them ranked on a small sample, the best on the whole one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from neve.autopilot.estimate.interval import Interval, interval_of, resampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.autopilot.estimate.simulate import Scan, Simulator
    from neve.autopilot.layout import Layout
    from neve.autopilot.recommend.projection import Projection
    from neve.autopilot.recommend_config import RecommendConfig

Floats = npt.NDArray[np.float64]
DRAWN_ROWS = 100_000
MODEL_ERROR = 0.02  # of the table's bytes: what estimates were off by when rewrites were measured


@dataclass(frozen=True)
class Workload:
    """How often each distinct filter is asked, and which share of the table it reads today."""

    counts: Floats
    shares: Floats
    projection: Projection

    @property
    def read(self) -> float:
        """The share of the table that a query reads today."""
        return float(self.counts @ self.shares / self.counts.sum())

    def reduction(self, layout: Layout, shares: Floats) -> float:
        """How much less is read where a layout makes filters read these shares."""
        after = float(self.counts @ (shares * self.projection.factors(layout)))
        before = float(self.counts @ self.shares)
        return 1 - after / before if before else 0.0


@dataclass(frozen=True)
class Trial:
    """Where candidates are estimated: on the whole sample, and on a part of it, of which many are drawn.

    Samples that are drawn from a part differ more than those of the whole would: the interval errs to the safe side.
    """

    whole: Simulator
    part: Simulator

    @classmethod
    def of(cls, whole: Simulator, seed: int) -> Trial:
        """A trial on a sample."""
        return cls(whole, whole.thinned(DRAWN_ROWS, seed))


@dataclass(frozen=True)
class Estimate:
    """What a candidate would save, and what its files would be like."""

    layout: Layout
    scan: Scan
    reduction: Interval


def ranked(simulator: Simulator, workload: Workload, layouts: Sequence[Layout]) -> list[Estimate]:
    """All candidates on the small sample, the most promising first."""
    found = []
    for layout in layouts:
        scan = simulator.scan(layout)
        found.append(Estimate(layout, scan, _between(workload.reduction(layout, scan.shares), workload)))
    return sorted(found, key=lambda one: -one.reduction.estimate)


def estimated(trial: Trial, workload: Workload, layout: Layout, config: RecommendConfig) -> Estimate:
    """One candidate on the whole sample, with the interval that samples drawn from a part of it give."""
    scan = trial.whole.scan(layout)
    drawn = [
        workload.reduction(layout, trial.part.scan(layout, weights).shares)
        for weights in resampled(trial.part.sample, config.resamples, config.seed)
    ]
    reduction = workload.reduction(layout, scan.shares)
    told = interval_of(reduction, np.array(drawn), config.confidence, _least(workload))
    interval = replace(told, high=min(1.0, told.high))
    return Estimate(layout, scan, interval)


def _between(reduction: float, workload: Workload) -> Interval:
    least = _least(workload)
    return Interval(reduction - least, reduction, min(1.0, reduction + least))


def _least(workload: Workload) -> float:
    """The error of the model itself, as an error of the reduction."""
    return MODEL_ERROR / workload.read if workload.read else 1.0
