"""A sample of a sample: unbiased with a salt for each stage, and wrong by far with one salt for both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from neve.reservoir.sampling.aggregate import register_udafs
from neve.reservoir.sampling.methods import Draw, make_salt, uniform
from neve.reservoir.sampling.transform import weighted_sample
from tests.reservoir.populations import SALT, Population, z_scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.sampling.methods import Method
    from tests.reservoir.populations import Floats

pytestmark = pytest.mark.long

STAGED = Population(items=400, k=100, seeds=400)
SECOND = 25  # kept of the 100 of a first stage
MANY_SIGMAS = 10
DOMAINS = np.eye(10)[np.arange(STAGED.items) % 10]  # and each item's own


@pytest.fixture(scope="module")
def first(spark: SparkSession) -> Iterator[DataFrame]:
    """The samples of the first stage."""
    rows = STAGED.sample(STAGED.rows(spark)).persist()
    rows.createOrReplaceTempView("first_stage")
    yield rows
    rows.unpersist()


@pytest.mark.parametrize("method", ["priority", "exact_total"])
def test_a_fresh_salt_keeps_a_second_stage_unbiased(first: DataFrame, method: Method) -> None:
    """The total and ten domains are right on average, by either method."""
    counts = STAGED.matrix(_second(first, make_salt("second"), method))
    assert ((counts > 0).sum(axis=1) == SECOND).all()
    assert np.abs(_scores(counts)).max() < 4


def test_equal_salts_make_a_second_stage_wrong(first: DataFrame) -> None:
    """What the first stage kept has small chances' numbers, all of them; the second takes that for weight."""
    assert _scores(STAGED.matrix(_second(first, SALT, "priority")))[0] > MANY_SIGMAS


@pytest.mark.parametrize(("more", "biased"), [("seed, 'second'", False), ("seed", True)])
def test_a_third_argument_is_a_salt_of_its_own(spark: SparkSession, first: DataFrame, more: str, biased: bool) -> None:
    """In SQL too: a second stage with the arguments of the first is wrong, with others it is right."""
    register_udafs(spark, SALT)
    salted = f"struct({more})" if "," in more else more
    query = f"""
        SELECT seed, one.value AS item, one.adjusted_weight FROM (
          SELECT seed, explode(weighted_reservoir_sample(struct(item, adjusted_weight), {SECOND}, {salted})) AS one
          FROM first_stage GROUP BY seed)"""
    scores = _scores(STAGED.matrix(spark.sql(query)))
    assert scores[0] > MANY_SIGMAS if biased else np.abs(scores).max() < 4


def test_chances_of_two_stages_do_not_go_together() -> None:
    """The numbers of the same keys under two salts are as independent as any."""
    keys = range(20_000)
    one, other = (np.array([uniform(make_salt(name), key) for key in keys]) for name in ("one", "other"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(len(keys))
    cells, _x, _y = np.histogram2d(one, other, bins=10)
    assert ((cells - len(keys) / 100) ** 2).sum() / (len(keys) / 100) < 99 + 4 * np.sqrt(2 * 99)


def test_salts_tell_stages_apart() -> None:
    """Every word of a stage matters, and so does where one ends."""
    salts = {make_salt(*words) for words in (("a", "b"), ("ab",), ("a", "c"), ("b", "a"), ("a",), ("a", "b", ""))}
    assert len(salts) == 6
    assert make_salt("run", 7) == make_salt("run", "7")


def _second(first: DataFrame, salt: int, method: Method) -> DataFrame:
    draw = Draw(("seed",), "struct(seed, item)", SECOND, salt, "adjusted_weight", method)
    return weighted_sample(first, draw).selectExpr("seed", "key.item", "adjusted_weight")


def _scores(counts: Floats) -> Floats:
    """Of the total first, then of the domains."""
    sums = np.column_stack((counts.sum(axis=1), counts @ DOMAINS))
    truth = np.concatenate(([STAGED.weights.sum()], STAGED.weights @ DOMAINS))
    return z_scores(sums, truth)
