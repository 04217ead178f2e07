"""Weights, groups and keys that nobody wished for: each has a result that is defined, or is refused by name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from neve.reservoir.sampling.aggregate import register_udafs
from neve.reservoir.sampling.methods import Draw, sample_exact_total, sample_priority
from neve.reservoir.sampling.transform import weighted_sample, windowed_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

DRAW = Draw(("g",), "id", 3, 11, "weight")
EXACT = replace(DRAW, method="exact_total")
# Where several stages of a query fail at a time, Spark gives PySpark an error that it can't make one of its own from.
ERRORS = (PySparkException, Py4JJavaError)


def _by_sql(rows: DataFrame) -> DataFrame:
    register_udafs(rows.sparkSession, DRAW.salt)
    rows.createOrReplaceTempView("bad")
    return rows.sparkSession.sql("SELECT g, weighted_reservoir_sample(struct(id, weight), 3) FROM bad GROUP BY g")


FORMS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "transform": lambda rows: weighted_sample(rows, DRAW),
    "windowed": lambda rows: windowed_sample(rows, DRAW),
    "exact": lambda rows: weighted_sample(rows, EXACT),
    "sql": _by_sql,
}


@pytest.mark.parametrize(
    ("form", "weight"),
    [
        *(("transform", weight) for weight in ("0.0", "-1.5", "NaN", "Infinity", "-Infinity", "1.0E300")),
        *((form, weight) for form in ("windowed", "sql") for weight in ("0.0", "NaN", "Infinity")),
        ("exact", "NaN"),
    ],
)
def test_a_weight_that_means_nothing_is_refused_by_name(spark: SparkSession, form: str, weight: str) -> None:
    """The job ends, and says which item it was and what it weighed; even where nothing had to be left out."""
    rows = spark.sql(f"SELECT 'a' AS g, id, IF(id = 5, double('{weight}'), 1D) AS weight FROM range(3, 6)")
    with pytest.raises(ERRORS) as caught:
        FORMS[form](rows).collect()
    assert f'neve: weight of item {{"key":5}} is {weight}' in str(caught.value)


@pytest.mark.parametrize("weight", ["1e-7", "1e19"])
def test_exact_total_refuses_what_it_can_not_add_up(spark: SparkSession, weight: str) -> None:
    """Priority sampling takes any finite number above 0; sums to twelve digits have a range."""
    rows = spark.sql(f"SELECT 'a' AS g, id, {weight}D AS weight FROM range(5)")
    assert weighted_sample(rows, DRAW).count() == 3
    with pytest.raises(ERRORS, match="exact_total takes 1e-06 to 1e\\+18: use priority sampling"):
        weighted_sample(rows, EXACT).collect()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["double", "float", "int", "bigint", "decimal(10, 2)", "string", "void"])
def test_weights_may_have_any_type_that_is_a_number(spark: SparkSession, kind: str) -> None:
    """Whole numbers, decimals and text count as what they say; none at all counts as 1."""
    said = "NULL" if kind == "void" else f"IF(id % 3 = 0, NULL, CAST(id % 3 AS {kind}))"
    rows = spark.sql(f"SELECT 'a' AS g, id, {said} AS weight FROM range(12)")
    items = [(id_, 1.0 if kind == "void" else float(id_ % 3 or 1)) for id_ in range(12)]
    wanted = [(one.key, one.adjusted) for one in sample_priority(items, 3, DRAW.salt)]
    kept = [(row.key, row.adjusted_weight) for row in weighted_sample(rows, DRAW).collect()]
    assert sorted(kept) == sorted(wanted)
    assert [(one.value, one.adjusted_weight) for one in _by_sql(rows).collect()[0][1]] == wanted
    if kind in ("string", "decimal(10, 2)"):
        exact = weighted_sample(rows, EXACT).collect()
        assert {row.key for row in exact} == {one.key for one in sample_exact_total(items, 3, DRAW.salt, "a")}


def test_text_that_is_no_number_is_refused(spark: SparkSession) -> None:
    """Spark says what it could not read."""
    rows = spark.sql("SELECT 'a' AS g, id, 'many' AS weight FROM range(5)")
    with pytest.raises(PySparkException, match="'many'"):
        weighted_sample(rows, DRAW).collect()


@pytest.mark.parametrize("form", FORMS)
def test_nothing_gives_nothing(spark: SparkSession, form: str) -> None:
    """No rows, no groups, no sample."""
    rows = spark.sql("SELECT 'a' AS g, id, 1D AS weight FROM range(0)")
    assert FORMS[form](rows).collect() == []


@pytest.mark.parametrize("method", ["priority", "exact_total"])
def test_nothing_without_groups_gives_nothing(spark: SparkSession, method: str) -> None:
    """Not even one row that says so."""
    draw = Draw((), "id", 3, 11, method=method)  # type: ignore[arg-type]
    assert weighted_sample(spark.range(0), draw).collect() == []


def test_items_with_one_key_are_items_of_their_own(spark: SparkSession) -> None:
    """A key that comes again is counted again, in every form alike; whoever has one record twice must say so before."""
    rows = spark.sql("SELECT 'a' AS g, id % 4 AS id, 1D + id % 8 AS weight FROM range(16)")
    items = [(id_ % 4, 1.0 + id_ % 8) for id_ in range(16)]
    wanted = sorted((one.key, one.adjusted) for one in sample_priority(items, 3, DRAW.salt))
    for form in ("transform", "windowed"):
        assert sorted((row.key, row.adjusted_weight) for row in FORMS[form](rows).collect()) == wanted
    exact = weighted_sample(rows, EXACT).collect()
    assert sum(row.adjusted_weight for row in exact) == pytest.approx(16 * 4.5, rel=1e-12)


def test_keys_may_be_null(spark: SparkSession) -> None:
    """A record without an id is still an item, though it shares its chance with others like it."""
    rows = spark.sql("SELECT 'a' AS g, IF(id = 0, NULL, id) AS id, 1D AS weight FROM range(3)")
    for form in ("transform", "windowed", "exact"):
        assert {row.key for row in FORMS[form](rows).collect()} == {None, 1, 2}
