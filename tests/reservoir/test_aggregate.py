"""`weighted_reservoir_sample` in users' own SQL: wherever an aggregate may stand, and what it says where it may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from neve.errors import EnvironmentFault
from neve.reservoir.sampling.aggregate import register_udafs
from neve.reservoir.sampling.methods import make_salt, sample_priority

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Row, SparkSession

SALT = make_salt("aggregate")
Query = "Callable[[str], list[Row]]"


@pytest.fixture(scope="module")
def query(spark: SparkSession) -> Callable[[str], list[Row]]:
    """Ask a session that knows the aggregate, and a table of 300 items in three groups."""
    register_udafs(spark, SALT)
    spark.range(0, 300, 1, 3).selectExpr("id", "id % 3 AS g", "1D + id % 7 AS w").createOrReplaceTempView("t")
    return lambda text: spark.sql(text).collect()


def _wanted(k: int, *groups: int) -> list[tuple[int, float]]:
    items = [(id_, 1.0 + id_ % 7) for id_ in range(300) if id_ % 3 in groups]
    return [(one.key, one.adjusted) for one in sample_priority(items, k, SALT)]  # type: ignore[misc]


def _kept(array: list[Any]) -> list[tuple[int, float]]:
    return [(one.value, one.adjusted_weight) for one in array]


def test_it_has_the_type_that_it_promises(spark: SparkSession, query: Callable[[str], list[Row]]) -> None:
    """An array of values, which keep their type, and of what each stands for."""
    text = "SELECT weighted_reservoir_sample(struct({}, w), 2) AS s FROM t"
    for key, kind in (("id", "bigint"), ("'a'", "string"), ("struct(id, g)", "struct<id:bigint,g:bigint>")):
        told = spark.sql(text.format(key)).schema["s"].dataType.simpleString()
        assert told == f"array<struct<value:{kind},adjusted_weight:double>>"
    assert query(text.format("id"))


def test_it_samples_each_group(query: Callable[[str], list[Row]]) -> None:
    """With GROUP BY, in the order of weight / chance."""
    rows = query("SELECT g, weighted_reservoir_sample(struct(id, w), 5) AS s FROM t GROUP BY g")
    assert {row.g: _kept(row.s) for row in rows} == {g: _wanted(5, g) for g in range(3)}


def test_it_samples_all_without_groups(query: Callable[[str], list[Row]]) -> None:
    """One row; k may be any constant, of any whole type; the fields of the struct may have any names."""
    rows = query("SELECT weighted_reservoir_sample(named_struct('x', id, 'y', w), 2 * 5) AS s, count(*) AS n FROM t")
    assert [(_kept(row.s), row.n) for row in rows] == [(_wanted(10, 0, 1, 2), 300)]
    assert _kept(query("SELECT weighted_reservoir_sample(struct(id, w), 4L) AS s FROM t")[0].s) == _wanted(4, 0, 1, 2)


def test_it_stands_twice_in_a_query(query: Callable[[str], list[Row]]) -> None:
    """With a k of its own each time, beside other aggregates."""
    [row] = query("""
        SELECT weighted_reservoir_sample(struct(id, w), 3) AS few, weighted_reservoir_sample(struct(id, w), 30) AS many,
               sum(w) AS total FROM t WHERE g = 1""")
    assert (_kept(row.few), _kept(row.many)) == (_wanted(3, 1), _wanted(30, 1))


def test_it_works_in_subqueries_and_ctes(query: Callable[[str], list[Row]]) -> None:
    """What it gives can be taken apart and asked on."""
    rows = query("""
        WITH kept AS (SELECT g, explode(weighted_reservoir_sample(struct(id, w), 4)) AS one FROM t GROUP BY g)
        SELECT g, sum(one.adjusted_weight) AS total, count(*) AS n FROM kept
        WHERE g IN (SELECT max(g) FROM kept) GROUP BY g""")
    assert [(row.g, row.n) for row in rows] == [(2, 4)]
    assert rows[0].total == pytest.approx(sum(adjusted for _key, adjusted in _wanted(4, 2)))
    [row] = query("SELECT (SELECT weighted_reservoir_sample(struct(id, w), 2) FROM t WHERE g = 0) AS s")
    assert _kept(row.s) == _wanted(2, 0)


def test_it_works_with_having_and_order_by(query: Callable[[str], list[Row]]) -> None:
    """Where aggregates are compared and sorted by."""
    firsts = {g: _wanted(1, g)[0][0] for g in range(3)}
    rows = query(f"""
        SELECT g, weighted_reservoir_sample(struct(id, w), 1) AS s FROM t GROUP BY g
        HAVING s[0].value < {max(firsts.values())} ORDER BY s[0].value DESC""")
    assert [row.g for row in rows] == sorted(firsts, key=lambda g: -firsts[g])[1:]
    rows = query("SELECT g FROM t GROUP BY g HAVING weighted_reservoir_sample(struct(id, w), 2)[0].value IS NULL")
    assert rows == []


def test_it_works_in_a_view(spark: SparkSession, query: Callable[[str], list[Row]]) -> None:
    """A view is planned anew by each query that names it."""
    spark.sql("""
        CREATE OR REPLACE TEMPORARY VIEW sampled AS
        SELECT g, weighted_reservoir_sample(struct(id, w), 6) AS s FROM t GROUP BY g""")
    rows = query("SELECT s FROM sampled WHERE g = 1")
    assert [_kept(row.s) for row in rows] == [_wanted(6, 1)]


def test_an_empty_table_gives_an_empty_sample(query: Callable[[str], list[Row]]) -> None:
    """Without groups one row, as of any aggregate; with groups none."""
    text = "SELECT weighted_reservoir_sample(struct(id, w), 3) AS s FROM t WHERE id < 0"
    assert [row.s for row in query(text)] == [[]]
    assert query(f"{text} GROUP BY g") == []


def test_it_samples_what_a_join_and_a_union_give(query: Callable[[str], list[Row]]) -> None:
    """Rows may come from anywhere."""
    rows = query("""
        SELECT u.name, weighted_reservoir_sample(struct(a.id, a.w), 3) AS s
        FROM (SELECT * FROM t WHERE id < 150 UNION ALL SELECT * FROM t WHERE id >= 150) a
        JOIN VALUES (0L, 'zero'), (1L, 'one') AS u(g, name) ON u.g = a.g GROUP BY u.name""")
    assert {row.name: _kept(row.s) for row in rows} == {"zero": _wanted(3, 0), "one": _wanted(3, 1)}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("struct(id, w)", "takes 2 or 3 arguments, not 1"),
        ("", "takes 2 or 3 arguments, not 0"),
        ("struct(id, w), 3, 4, 5", "takes 2 or 3 arguments, not 4"),
        ("id, 3", "samples structs of a key and its weight, not bigint"),
        ("struct(id), 3", "samples structs of a key and its weight, not struct<id:bigint>"),
        ("struct(id, w, g), 3", "samples structs of a key and its weight"),
        ("struct(id, w), 0", "items of a group, a whole number, not 0"),
        ("struct(id, w), -4", "items of a group, a whole number, not -4"),
        ("struct(id, w), 1 - 1", "items of a group, a whole number, not (1 - 1)"),
        ("struct(id, w), NULL", "items of a group, a whole number, not NULL"),
        ("struct(id, w), 'many'", "items of a group, a whole number, not many"),
        ("struct(id, w), 2.5", "items of a group, a whole number, not 2.5"),
        ("struct(id, w), true", "items of a group, a whole number, not true"),
        ("struct(id, w), g", "t.g is not a constant"),
        ("struct(id, w), 3000000000", "keeps 1 to 2147483646 items of a group"),
    ],
)
def test_wrong_arguments_are_told(query: Callable[[str], list[Row]], call: str, words: str) -> None:
    """By the name of the function, with what was wrong and how it is called."""
    with pytest.raises(PySparkException) as caught:
        query(f"SELECT weighted_reservoir_sample({call}) FROM t")
    assert words in str(caught.value)


@pytest.mark.parametrize("tail", ["OVER (PARTITION BY g)", "FILTER (WHERE id > 3)"])
def test_what_only_other_aggregates_can_is_refused(query: Callable[[str], list[Row]], tail: str) -> None:
    """Spark itself says so, before anything runs."""
    with pytest.raises(PySparkException):
        query(f"SELECT weighted_reservoir_sample(struct(id, w), 3) {tail} FROM t")


def test_spark_connect_is_told_what_to_use_instead() -> None:
    """It can't be given functions of our own."""
    with pytest.raises(EnvironmentFault, match="can't be registered through Spark Connect"):
        register_udafs(object(), SALT)  # type: ignore[arg-type]
