"""The sample of a DataFrame: the same as in plain Python, whatever Spark does with its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from neve.errors import ConfigError
from neve.reservoir.sampling.methods import Draw, make_salt
from neve.reservoir.sampling.transform import weighted_sample, windowed_sample
from tests.reservoir.forms import by_reference, by_sql, found
from tests.reservoir.settings import with_retries, with_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

KEYS = {
    "bigint": "id",
    "string": "concat('Schlüssel-', id)",
    "binary": "unhex(md5(CAST(id AS STRING)))",
    "struct": "struct(concat('part-', id % 3) AS part, id)",
    "nested": "struct(struct(id AS low) AS first, unhex(hex(id)) AS second)",
}
DRAW = Draw(("g",), "id", 20, make_salt("transform"), "weight")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    """Groups of very different sizes, one of them null and one smaller than any sample, with heavy tails."""
    share = "(pmod(xxhash64(7L, id), 1000000) + 1D) / 1000000D"
    group = "CASE WHEN id % 10 < 6 THEN 'large' WHEN id % 10 < 9 THEN 'middle' WHEN id % 100 = 9 THEN 'few' END"
    frame = spark.range(0, 1500, 1, 3).selectExpr(f"{group} AS g", "id", f"pow({share}, -0.8D) AS weight").persist()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("kind", KEYS)
def test_all_forms_give_the_same(rows: DataFrame, kind: str) -> None:
    """The transform, the window for Spark Connect, the SQL aggregate and plain Python: for every type of key."""
    draw = replace(DRAW, key=KEYS[kind])
    wanted = by_reference(rows, draw)
    assert set(wanted) == {"large", "middle", "few", None}
    assert len(wanted["few"]) == 15
    assert found(weighted_sample(rows, draw)) == wanted
    assert found(windowed_sample(rows, draw)) == wanted
    assert by_sql(rows, draw) == {
        group: {key: adjusted for key, (_weight, adjusted) in kept.items()} for group, kept in wanted.items()
    }


@pytest.mark.parametrize("k", [1, 100, 2000])
def test_all_sizes_give_the_same(rows: DataFrame, k: int) -> None:
    """One item, more than some groups have, and more than there are at all."""
    draw = replace(DRAW, k=k)
    wanted = by_reference(rows, draw)
    assert found(weighted_sample(rows, draw)) == found(windowed_sample(rows, draw)) == wanted


def test_the_sample_has_the_columns_that_it_promises(rows: DataFrame) -> None:
    """Groups, key, weight and adjusted weight, by either method; without groups all is one."""
    for method in ("priority", "exact_total"):
        sample = weighted_sample(rows, Draw(("g",), "id", 3, 1, "weight", method))
        assert sample.columns == ["g", "key", "weight", "adjusted_weight"]
        whole = weighted_sample(rows, Draw((), "id", 3, 1, "weight", method))
        assert whole.columns == ["key", "weight", "adjusted_weight"]
        assert whole.count() == 3


@pytest.mark.parametrize("method", ["priority", pytest.param("exact_total", marks=pytest.mark.long)])
def test_partitions_orders_and_plans_do_not_matter(spark: SparkSession, rows: DataFrame, method: Any) -> None:
    """The same items with the same counts, to the last bit, from 1, 2, 7 and 50 partitions, with AQE and without."""
    draw = replace(DRAW, method=method, k=50)
    wanted = found(weighted_sample(rows, draw))
    shapes = {
        1: rows.coalesce(1).sortWithinPartitions("weight"),
        2: rows.repartition(2, "id").sortWithinPartitions(rows.id.desc()),
        7: rows.repartition(7, "g"),
        50: rows.repartition(50),
    }
    for partitions, shaped in shapes.items():
        adaptive = "false" if partitions in (2, 50) else "true"
        conf = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.shuffle.partitions": "3" if partitions == 7 else "1"}
        with with_settings(spark, conf):
            assert found(weighted_sample(shaped, draw)) == wanted, partitions


def test_many_groups_that_spill_to_sorting_do_not_matter(spark: SparkSession, rows: DataFrame) -> None:
    """More groups than a task holds at a time: Spark sorts instead, and the sample is the same."""
    draw = replace(DRAW, k=5)
    many = rows.selectExpr("id % 500 AS g", "id", "weight")
    sample = weighted_sample(many, draw)
    with with_settings(spark, {"spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "2"}):
        assert found(sample) == by_reference(many, draw)


@pytest.mark.parametrize("method", ["priority", pytest.param("exact_total", marks=pytest.mark.long)])
def test_a_task_that_fails_and_runs_again_does_not_matter(spark: SparkSession, rows: DataFrame, method: Any) -> None:
    """A task dies after it gave all of its rows, once; Spark runs it again, and the sample is the same."""
    draw = replace(DRAW, method=method)

    def fails_once(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 0 and context.attemptNumber() == 0:
            raise RuntimeError("the first attempt fails")

    shaky = rows.repartition(2).mapInArrow(fails_once, rows.schema)
    with with_retries(spark):
        assert found(weighted_sample(shaky, draw)) == found(weighted_sample(rows, draw))


def test_what_can_not_be_kept_is_cut_before_the_shuffle(spark: SparkSession) -> None:
    """No sort, no Python, and no more than k + 1 entries of a group leave a partition."""
    rows = spark.range(0, 100_000, 1, 2).selectExpr("id % 5 AS g", "id")
    sample = weighted_sample(rows, Draw(("g",), "id", 10, 3))
    plan = sample._jdf.queryExecution().executedPlan().toString()
    assert "partial_collect_top_k" in plan
    assert "Sort" not in plan
    assert "Python" not in plan
    windowed = windowed_sample(rows, Draw(("g",), "id", 2000, 3))
    windowed_sample(rows, Draw(("g",), "id", 10, 3))  # a smaller one does not take the cut from a larger
    assert "WindowGroupLimit" in windowed._jdf.queryExecution().executedPlan().toString()


def test_exact_total_needs_a_session_of_its_own(rows: DataFrame) -> None:
    """The window for Spark Connect can't do it, and says so."""
    with pytest.raises(ConfigError, match="exact_total needs a classic Spark session"):
        windowed_sample(rows, replace(DRAW, method="exact_total"))
