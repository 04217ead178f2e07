"""Items with heavy tails, and many independent samples of them from one Spark job.

The seed is part of the group and of the key, so that each seed has chances of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np

from neve.reservoir.sampling.methods import Draw, make_salt
from neve.reservoir.sampling.transform import weighted_sample

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.sampling.methods import Method

    Floats = npt.NDArray[np.float64]

POWER = -0.9  # of the tail: a few of thousands of items hold a large share of the whole
SALT = make_salt("proofs")


@dataclass(frozen=True)
class Population:
    """So many items, from which k are drawn, once for each seed."""

    items: int
    k: int
    seeds: int

    @property
    def weights(self) -> Floats:
        """What the items weigh."""
        return ((np.arange(self.items) + 0.5) / self.items) ** POWER

    def rows(self, spark: SparkSession) -> DataFrame:
        """All items once for each seed."""
        share = f"(id % {self.items} + 0.5D) / {self.items}"
        return spark.range(self.items * self.seeds).selectExpr(
            f"id div {self.items} AS seed", f"id % {self.items} AS item", f"pow({share}, {POWER}D) AS weight"
        )

    def sample(self, rows: DataFrame, method: Method = "priority") -> DataFrame:
        """The sample of each seed."""
        draw = Draw(("seed",), "struct(seed, item)", self.k, SALT, "weight", method)
        return weighted_sample(rows, draw).selectExpr("seed", "key.item", "weight", "adjusted_weight")

    def matrix(self, sample: DataFrame) -> Floats:
        """What each item stands for in the sample of each seed: 0 where it was not kept."""
        table = sample.select("seed", "item", "adjusted_weight").toArrow()
        counts = np.zeros((self.seeds, self.items))
        seed, item, adjusted = (table[name].to_numpy() for name in table.column_names)
        assert len(set(zip(seed.tolist(), item.tolist(), strict=True))) == len(seed), "an item was kept twice"
        counts[seed, item] = adjusted
        return counts


def z_scores(estimates: Floats, truth: Floats) -> Floats:
    """How many standard errors the mean of estimates lies from the truth; estimates that never vary must be right."""
    error = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    off = estimates.mean(axis=0) - truth
    never = error < 1e-9 * truth
    right = np.where(np.abs(off) < 1e-9 * truth, 0.0, np.inf)
    return cast("Floats", np.where(never, right, off / np.where(never, 1.0, error)))
