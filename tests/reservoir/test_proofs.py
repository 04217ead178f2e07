"""The sample on Spark is what theory says: unbiased for every item, as exact as it claims, and by its keys alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from neve.reservoir.sampling.aggregate import register_udafs
from tests.reservoir.populations import SALT, Population, z_scores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from neve.reservoir.sampling.methods import Method
    from tests.reservoir.populations import Floats

pytestmark = pytest.mark.long

SMALL = Population(items=60, k=12, seeds=1500)
# So many seeds that 93 % lies four standard errors below what such intervals cover in theory, 94.4 to 94.8 %.
WIDE = Population(items=250, k=120, seeds=4000)


@pytest.fixture(scope="module", params=["priority", "exact_total"])
def small(request: pytest.FixtureRequest, spark: SparkSession) -> tuple[str, Floats]:
    """Many samples of a small population, by each method."""
    method = cast("Method", request.param)
    return method, SMALL.matrix(SMALL.sample(SMALL.rows(spark), method))


@pytest.fixture(scope="module")
def wide(spark: SparkSession) -> tuple[Floats, Floats]:
    """What the items of a wide population stand for by priority sampling, and the threshold of each sample."""
    counts = WIDE.matrix(WIDE.sample(WIDE.rows(spark)))
    # The JVM's powers differ from NumPy's in the last bit.
    light = np.where(counts > WIDE.weights * (1 + 1e-9), counts, 0.0).max(axis=1)
    return counts, light


def test_every_item_stands_for_itself_on_average(small: tuple[str, Floats]) -> None:
    """Over many seeds no item's mean is four standard errors from its weight."""
    _method, counts = small
    assert np.abs(z_scores(counts, SMALL.weights)).max() < 4


def test_every_pair_of_halves_is_unbiased(small: tuple[str, Floats]) -> None:
    """Any subset's sum is right on average: random halves of the items, and the whole."""
    _method, counts = small
    random = np.random.default_rng(5)
    for _half in range(50):
        chosen = random.random(SMALL.items) < 0.5
        total = np.array([SMALL.weights[chosen].sum()])
        assert abs(z_scores(counts[:, chosen].sum(axis=1, keepdims=True), total)[0]) < 4


def test_a_sample_has_exactly_k_items(small: tuple[str, Floats]) -> None:
    """Whatever the seed."""
    _method, counts = small
    assert ((counts > 0).sum(axis=1) == SMALL.k).all()


def test_nothing_stands_for_less_than_its_weight(small: tuple[str, Floats]) -> None:
    """Light items of a sample share one threshold, and heavy ones stand for themselves."""
    _method, counts = small
    kept, weights = counts > 0, np.broadcast_to(SMALL.weights, counts.shape)
    heavy = kept & np.isclose(counts, weights, rtol=1e-12, atol=0)
    light = kept & ~heavy
    threshold = np.where(light, counts, 0.0).max(axis=1, keepdims=True)
    assert np.isclose(counts, threshold, rtol=1e-12, atol=0)[light].all()
    assert (weights < threshold)[light].all()
    assert (weights >= threshold)[heavy].all()


def test_exact_total_is_exact_and_keeps_the_heavy(small: tuple[str, Floats]) -> None:
    """The sum is the total to twelve digits; an item of more than a k-th of it is always kept, as itself."""
    method, counts = small
    if method != "exact_total":
        pytest.skip("of exact_total alone")
    total = SMALL.weights.sum()
    assert np.abs(counts.sum(axis=1) / total - 1).max() < 1e-12
    heavy = SMALL.weights > total / SMALL.k
    assert heavy.any()
    assert np.allclose(counts[:, heavy], SMALL.weights[heavy], rtol=1e-12)


def test_the_variance_estimate_is_that_of_the_sums(wide: tuple[Floats, Floats]) -> None:
    """Threshold x (threshold - weight) of the kept, added up: right within 5 % over twenty domains."""
    counts, light = wide
    spread = _variance(counts, light)
    domains = np.arange(WIDE.items) % 20
    sums = np.stack([counts[:, domains == one].sum(axis=1) for one in range(20)], axis=1)
    told = np.stack([spread[:, domains == one].sum(axis=1) for one in range(20)], axis=1)
    assert 0.95 < told.mean(axis=0).sum() / sums.var(axis=0, ddof=1).sum() < 1.05


def test_intervals_cover_what_they_promise(wide: tuple[Floats, Floats]) -> None:
    """95 % intervals of the total and of half of the items hold the truth 93 to 97 times of a hundred."""
    counts, light = wide
    spread = _variance(counts, light)
    for chosen in (np.ones(WIDE.items, dtype=bool), np.arange(WIDE.items) % 2 == 0):
        off = np.abs(counts[:, chosen].sum(axis=1) - WIDE.weights[chosen].sum())
        covered = (off <= 1.96 * np.sqrt(spread[:, chosen].sum(axis=1))).mean()
        assert 0.93 <= covered <= 0.97, covered


def _variance(counts: Floats, light: Floats) -> Floats:
    threshold = light[:, None]
    return np.where(counts > 0, threshold * np.maximum(0.0, threshold - WIDE.weights), 0.0)


def test_the_sql_aggregate_gives_the_same_for_every_seed(spark: SparkSession) -> None:
    """With the seed as the third argument it is the transform, entry by entry, so that all proofs are its own too."""
    register_udafs(spark, SALT)
    rows = SMALL.rows(spark)
    rows.createOrReplaceTempView("population")
    query = f"""
        SELECT seed, one.value AS item, one.adjusted_weight FROM (
          SELECT seed, explode(weighted_reservoir_sample(struct(item, weight), {SMALL.k}, seed)) AS one
          FROM population GROUP BY seed)"""
    assert (SMALL.matrix(spark.sql(query)) == SMALL.matrix(SMALL.sample(rows))).all()
