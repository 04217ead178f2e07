"""Sums from our samples beside those of Apache DataSketches' var_opt sketch, which can't be seeded."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from datasketches import var_opt_sketch  # type: ignore[import-untyped]

from tests.reservoir.populations import Population

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import SparkSession

    from neve.reservoir.sampling.methods import Method
    from tests.reservoir.populations import Floats

pytestmark = pytest.mark.long

FACTS = Population(items=2000, k=100, seeds=80)
THIRD = np.arange(FACTS.items) % 10 < 3
DOMAINS = [np.arange(FACTS.items) % 20 == one for one in range(20)]


@pytest.fixture(scope="module")
def theirs() -> tuple[float, float, float]:
    """The errors of as many sketches of the same items."""
    counts, weights = np.zeros((5 * FACTS.seeds, FACTS.items)), FACTS.weights.tolist()
    for sample in counts:
        sketch = var_opt_sketch(FACTS.k)
        for item, weight in enumerate(weights):
            sketch.update(item, weight)
        for item, adjusted in sketch:
            sample[item] = adjusted
    return _errors(counts)


@pytest.mark.parametrize(("method", "most"), [("priority", 1.6), ("exact_total", 1.3)])
def test_sums_err_no_more_than_those_of_var_opt(
    spark: SparkSession, theirs: tuple[float, float, float], method: str, most: float
) -> None:
    """Of 30 % of the items, and of twenty domains; the exact total has no error at all, as the sketch has none."""
    counts = FACTS.matrix(FACTS.sample(FACTS.rows(spark), cast("Method", method)))
    ours = _errors(counts)
    assert theirs[0] < 1e-9
    assert ours[0] < (1e-12 if method == "exact_total" else 0.1)
    assert 0.75 < ours[1] / theirs[1] < most
    assert 0.85 < ours[2] / theirs[2] < 1.2


def _errors(counts: Floats) -> tuple[float, float, float]:
    """The relative errors, root mean square, of the total, of a third, and of a domain on average."""
    return (
        _error(counts, np.ones(FACTS.items, dtype=bool)),
        _error(counts, THIRD),
        float(np.mean([_error(counts, one) for one in DOMAINS])),
    )


def _error(counts: Floats, chosen: npt.NDArray[np.bool_]) -> float:
    truth = FACTS.weights[chosen].sum()
    return float(np.sqrt(np.mean((counts[:, chosen].sum(axis=1) / truth - 1) ** 2)))
