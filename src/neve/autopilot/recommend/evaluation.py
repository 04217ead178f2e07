"""Evaluation of candidates on samples: rank all of them, estimate the best, and estimate bloom filters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from pyiceberg.types import StringType

from neve.autopilot.estimate.columns import parse_column
from neve.autopilot.estimate.confidence_interval import Interval, build_interval, resample_weights
from neve.predicate.filters import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from neve.autopilot.config import RecommendConfig
    from neve.autopilot.estimate.simulator import SimulatedScan, Simulator
    from neve.autopilot.layout import Layout
    from neve.predicate.filters import Filter


@dataclass(frozen=True)
class Projection:
    """The columns that the queries of each distinct filter read, the bytes of columns, and the shares of map keys."""

    columns: Sequence[frozenset[str]]
    bytes: Mapping[str, int]
    key_shares: Mapping[str, float]

    def factors(self, layout: Layout) -> npt.NDArray[np.float64]:
        """Return the share of today's bytes that queries still read, apart from file pruning."""
        if not layout.promoted:
            return np.ones(1)
        promoted = {one.source for one in layout.promoted}
        return np.array([self._factor(columns, promoted) for columns in self.columns])

    def _factor(self, columns: frozenset[str], promoted: set[str]) -> float:
        tops = {parse_column(name).top for name in columns}
        before = sum(self.bytes.get(top, 0) for top in tops)
        left = {parse_column(name).top for name in columns if name not in promoted}
        keys = sum(
            self.bytes.get(parse_column(name).top, 0) * self.key_shares.get(name, 1.0) for name in promoted & columns
        )
        after = sum(self.bytes.get(top, 0) for top in left) + keys
        return min(1.0, after / before) if before else 1.0


def sum_column_bytes(schema: Schema, by_id: Mapping[int, int]) -> dict[str, int]:
    """Return the bytes of top-level columns; those of maps and structs are the sums of their fields."""
    found: dict[str, int] = {}
    for number, size in by_id.items():
        name = schema.find_column_name(number)
        if name:
            top = name.split(".")[0]
            found[top] = found.get(top, 0) + size
    return found


Floats = npt.NDArray[np.float64]
RESAMPLE_ROWS = 100_000
MODEL_ERROR = 0.02  # of the table's bytes: the error of estimates when rewrites were measured


@dataclass(frozen=True)
class FilterWorkload:
    """The number of queries of each distinct filter, and the share of the table that it reads today."""

    counts: Floats
    shares: Floats
    projection: Projection

    @property
    def read(self) -> float:
        """The share of the table that a query reads today."""
        return float(self.counts @ self.shares / self.counts.sum())

    def reduction(self, layout: Layout, shares: Floats) -> float:
        """Return the reduction of bytes if a layout makes filters read these shares."""
        after = float(self.counts @ (shares * self.projection.factors(layout)))
        before = float(self.counts @ self.shares)
        return 1 - after / before if before else 0.0


@dataclass(frozen=True)
class EvaluationSample:
    """Simulators for estimates: on the whole sample, and on a subset of it for resampling.

    Samples that are drawn from a subset differ more than those of the whole would: the interval errs on the safe side.
    """

    whole: Simulator
    part: Simulator

    @classmethod
    def of(cls, whole: Simulator, seed: int) -> EvaluationSample:
        """Build the simulators from one on the whole sample."""
        return cls(whole, whole.thin(RESAMPLE_ROWS, seed))


@dataclass(frozen=True)
class CandidateEstimate:
    """Estimated reduction of a candidate, and the simulated files."""

    layout: Layout
    scan: SimulatedScan
    reduction: Interval


def rank_candidates(
    simulator: Simulator, workload: FilterWorkload, layouts: Sequence[Layout]
) -> list[CandidateEstimate]:
    """Evaluate all candidates on the small sample, and return them with the most promising first."""
    found = []
    for layout in layouts:
        scan = simulator.scan(layout)
        found.append(
            CandidateEstimate(layout, scan, _build_model_interval(workload.reduction(layout, scan.shares), workload))
        )
    return sorted(found, key=lambda one: -one.reduction.estimate)


def estimate_candidate(
    trial: EvaluationSample, workload: FilterWorkload, layout: Layout, config: RecommendConfig
) -> CandidateEstimate:
    """Estimate one candidate on the whole sample, with the interval of samples that are drawn from a subset."""
    scan = trial.whole.scan(layout)
    drawn = [
        workload.reduction(layout, trial.part.scan(layout, weights).shares)
        for weights in resample_weights(trial.part.sample, config.resamples, config.seed)
    ]
    reduction = workload.reduction(layout, scan.shares)
    interval = build_interval(reduction, np.array(drawn), config.confidence, _model_error(workload))
    interval = replace(interval, high=min(1.0, interval.high))
    return CandidateEstimate(layout, scan, interval)


def _build_model_interval(reduction: float, workload: FilterWorkload) -> Interval:
    least = _model_error(workload)
    return Interval(reduction - least, reduction, min(1.0, reduction + least))


def _model_error(workload: FilterWorkload) -> float:
    """Return the error of the model itself, as an error of the reduction."""
    return MODEL_ERROR / workload.read if workload.read else 1.0


FALSE_POSITIVE_RATE = 0.01  # as in Neve's writer
MIN_DISTINCT_VALUES = 1000


@dataclass(frozen=True)
class ValueSpread:
    """Distribution of a column's values in a table: the sampled distinct values, rows and files."""

    ranks: npt.NDArray[np.int64]
    rows: int
    files: int

    @property
    def sampled_values(self) -> int:
        """Distinct values in the sample: the table has at least as many."""
        return len(np.unique(self.ranks[self.ranks >= 0]))

    @property
    def values(self) -> float:
        """Estimate of the distinct values in the table, from those that occur once and more than once in the sample."""
        counts = np.bincount(self.ranks[self.ranks >= 0])
        sampled, once = int(counts.sum()), int((counts == 1).sum())
        return float(np.sqrt(self.rows / sampled) * once + (counts > 1).sum()) if sampled else 0.0

    def file_share(self, rows_a_value: float) -> float:
        """Return the share of files that contain a value with `rows_a_value` rows at random positions."""
        return float(min(1.0, 1 - (1 - 1 / max(self.files, 1)) ** rows_a_value + FALSE_POSITIVE_RATE))


def is_bloom_candidate(kind: IcebergType, spread: ValueSpread) -> bool:
    """Return whether a column suits bloom filters: text of many values. They mislead for binary columns (ADR 5)."""
    return isinstance(kind, StringType) and spread.sampled_values >= MIN_DISTINCT_VALUES


def estimate_bloom_reduction(
    column: str, spread: ValueSpread, filters: Sequence[Filter], workload: FilterWorkload
) -> Interval:
    """Estimate the reduction by bloom filters on a column.

    The interval ranges from the fewest possible distinct values to the most.
    """
    points = np.array([_count_points(one, column) for one in filters], dtype=np.float64)
    fewest, most = spread.rows / max(spread.values, 1.0), spread.rows / max(spread.sampled_values, 1)
    low, estimate, high = (
        _compute_saving(points, spread.file_share(rows), workload) for rows in (max(fewest, most), fewest, 1.0)
    )
    return Interval(min(low, estimate), estimate, max(high, estimate))


def _compute_saving(points: npt.NDArray[np.float64], found: float, workload: FilterWorkload) -> float:
    factors = np.where(points > 0, np.minimum(1.0, points * found), 1.0)
    before = float(workload.counts @ workload.shares)
    return 1 - float(workload.counts @ (workload.shares * factors)) / before if before else 0.0


def _count_points(node: Filter, column: str) -> int:
    """Return the number of values of a column that a filter requires; 0 if it may match without the column."""
    if isinstance(node, Test):
        return len(node.values) if node.column == column and node.kind in {"eq", "in"} else 0
    if isinstance(node, AllOf):
        points = [found for part in node.parts if (found := _count_points(part, column))]
        return min(points, default=0)
    every = [_count_points(part, column) for part in node.parts]
    return sum(every) if every and all(every) else 0
