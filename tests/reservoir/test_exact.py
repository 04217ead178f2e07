"""The sample whose counts add up, on Spark: the reference's, item by item, and exact where doubles are not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from neve.reservoir.sampling.methods import Draw, make_salt, sample_exact_total
from neve.reservoir.sampling.transform import weighted_sample
from tests.reservoir.forms import Sample, by_reference, found, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

DRAW = Draw(("g",), "id", 20, make_salt("exact"), "weight", "exact_total")


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Iterator[DataFrame]:
    """Weights with heavy tails, equal ones, tiny beside huge, thirds, and groups that are null or small."""
    share = "(pmod(xxhash64(7L, id), 1000000) + 1D) / 1000000D"
    weight = f"""CASE id % 6 WHEN 0 THEN pow({share}, -1.1D) WHEN 1 THEN 1D WHEN 2 THEN IF(id = 2, 1e18D, 1D + id % 7)
                 WHEN 3 THEN {share} / 3D + 1e-5D WHEN 4 THEN 1D + id % 3 ELSE 1D + id / 7D END"""
    group = "CASE id % 6 WHEN 4 THEN NULL WHEN 5 THEN concat('of ', id % 60) ELSE concat('kind ', id % 6) END"
    frame = spark.range(0, 1500, 1, 3).selectExpr(f"{group} AS g", "id", f"{weight} AS weight").persist()
    yield frame
    frame.unpersist()


@pytest.mark.parametrize("k", [1, 20])
def test_it_is_the_reference(rows: DataFrame, k: int) -> None:
    """The same items, with the same counts to twelve digits; as many as k says, and adding up to the total."""
    draw = replace(DRAW, k=k)
    wanted, kept = by_reference(rows, draw), found(weighted_sample(rows, draw))
    _same(kept, wanted)
    sizes = {row.g: (row["count(1)"], row.total) for row in rows.groupBy("g").agg(*_sums()).collect()}
    for group, (size, total) in sizes.items():
        assert len(kept[group]) == min(k, size)
        assert sum(adjusted for _weight, adjusted in kept[group].values()) == pytest.approx(float(total), rel=1e-12)


@pytest.mark.long
def test_light_items_do_not_drown_beside_a_huge_one(rows: DataFrame) -> None:
    """A weight of 10^18 takes one place of the sample, and the others stand for exactly what the rest weighs."""
    kept = found(weighted_sample(rows.where("g = 'kind 2'"), DRAW))["kind 2"]
    rest = rows.where("g = 'kind 2' AND id <> 2").selectExpr("sum(weight)").collect()[0][0]
    assert kept[2] == (1e18, 1e18)
    assert sum(adjusted for key, (_weight, adjusted) in kept.items() if key != 2) == pytest.approx(rest, rel=1e-12)


def test_any_type_of_key_and_no_groups_at_all(rows: DataFrame) -> None:
    """Keys that are structs of bytes and text, and one sample of everything."""
    small = rows.where("g = 'kind 0' OR g IS NULL")
    draw = replace(DRAW, key="struct(unhex(hex(id)) AS b, concat('Schlüssel-', id) AS s)", k=200)
    _same(found(weighted_sample(small, draw)), by_reference(small, draw))
    whole = weighted_sample(small, replace(DRAW, by=())).collect()
    items = [(row.id, row.weight) for row in small.collect()]
    wanted = {one.key: one.adjusted for one in sample_exact_total(items, DRAW.k, DRAW.salt)}
    assert {plain(row.key): row.adjusted_weight for row in whole} == pytest.approx(wanted, rel=1e-12)


@pytest.mark.long
def test_two_columns_make_a_group(rows: DataFrame) -> None:
    """The start of a line is that of the group, all of its columns."""
    pairs = rows.where("g = 'kind 0'").selectExpr("g", "id % 2 AS half", "id", "weight")
    kept = weighted_sample(pairs, replace(DRAW, by=("g", "half"))).collect()
    for half in (0, 1):
        items = [(row.id, row.weight) for row in pairs.where(f"half = {half}").collect()]
        wanted = {one.key for one in sample_exact_total(items, DRAW.k, DRAW.salt, ("kind 0", str(half)))}
        assert {row.key for row in kept if row.half == half} == wanted


def _sums() -> tuple[Column, Column]:
    from pyspark.sql.functions import expr

    return expr("count(1)"), expr("sum(CAST(weight AS decimal(37, 18))) AS total")


def _same(kept: Sample, wanted: Sample) -> None:
    assert set(kept) == set(wanted)
    for group, items in wanted.items():
        assert set(kept[group]) == set(items), group
        for key, (weight, adjusted) in items.items():
            assert kept[group][key][0] == weight
            assert kept[group][key][1] == pytest.approx(adjusted, rel=1e-12)
