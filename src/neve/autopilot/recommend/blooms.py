"""What bloom filters would save: row groups are left out that do not have the value that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyiceberg.types import StringType

from neve.autopilot.estimate.interval import Interval
from neve.autopilot.workload import AllOf, Test

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from pyiceberg.types import IcebergType

    from neve.autopilot.recommend.evaluate import Workload
    from neve.autopilot.workload import Filter

FALSE_POSITIVES = 0.01  # as Neve's writer makes them
MANY_VALUES = 1000


@dataclass(frozen=True)
class Spread:
    """How the rows of one value lie in a table: its distinct values, as sampled, rows and files."""

    ranks: npt.NDArray[np.int64]
    rows: int
    files: int

    @property
    def sampled_values(self) -> int:
        """Distinct values in the sample: there are at least as many in the table."""
        return len(np.unique(self.ranks[self.ranks >= 0]))

    @property
    def values(self) -> float:
        """Distinct values in the table, by those that the sample has once and those that it has again."""
        counts = np.bincount(self.ranks[self.ranks >= 0])
        sampled, once = int(counts.sum()), int((counts == 1).sum())
        return float(np.sqrt(self.rows / sampled) * once + (counts > 1).sum()) if sampled else 0.0

    def found_in(self, rows_a_value: float) -> float:
        """The share of files that have a value with so many rows, anywhere."""
        return float(min(1.0, 1 - (1 - 1 / max(self.files, 1)) ** rows_a_value + FALSE_POSITIVES))


def may_have_bloom(kind: IcebergType, spread: Spread) -> bool:
    """Whether a column is one for bloom filters: text of many values; of binary columns they mislead (ADR 5)."""
    return isinstance(kind, StringType) and spread.sampled_values >= MANY_VALUES


def bloom_reduction(column: str, spread: Spread, filters: Sequence[Filter], workload: Workload) -> Interval:
    """How much less is read with bloom filters on a column, from the fewest values that there may be to the most."""
    asked = np.array([_points(one, column) for one in filters], dtype=np.float64)
    fewest, most = spread.rows / max(spread.values, 1.0), spread.rows / max(spread.sampled_values, 1)
    low, estimate, high = (_saved(asked, spread.found_in(rows), workload) for rows in (max(fewest, most), fewest, 1.0))
    return Interval(min(low, estimate), estimate, max(high, estimate))


def _saved(asked: npt.NDArray[np.float64], found: float, workload: Workload) -> float:
    factors = np.where(asked > 0, np.minimum(1.0, asked * found), 1.0)
    before = float(workload.counts @ workload.shares)
    return 1 - float(workload.counts @ (workload.shares * factors)) / before if before else 0.0


def _points(node: Filter, column: str) -> int:
    """How many values of a column a filter asks for, all else aside; 0 where it may do without."""
    if isinstance(node, Test):
        return len(node.values) if node.column == column and node.kind in {"eq", "in"} else 0
    if isinstance(node, AllOf):
        asked = [found for part in node.parts if (found := _points(part, column))]
        return min(asked, default=0)
    every = [_points(part, column) for part in node.parts]
    return sum(every) if every and all(every) else 0
