"""The sample whose counts add up to the total exactly: systematic selection at VarOpt's threshold, as Spark SQL.

A light item stands for the threshold t, a heavy one (weight at least t) for itself. Light items lie side by side on a
line, each as long as its chance weight / t, in the order of their hashes; evenly spaced points on the line pick k of
them. Lengths are whole numbers, so that sums are the same in any order: first those of 256 slices of the hashes, then
those within a slice, in parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from neve.reservoir.chance import hash_sql, uniform_sql
from neve.reservoir.definition import REFUSED, TOP, weight_sql
from neve.reservoir.reference import POINT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from neve.reservoir.draw import Draw

TOTAL = "decimal(37, 18)"  # sums of it do not depend on an order, as those of doubles do
LIGHTEST, HEAVIEST = 1e-6, 1e18  # that it holds to twelve digits
IN_ORDER = "ORDER BY hash, key, weight ROWS UNBOUNDED PRECEDING"
OUTSIDE = f", exact_total takes {LIGHTEST} to {HEAVIEST}: use priority sampling"


def exact_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    """The items that are kept, with their weights and what they stand for."""
    by = draw.by
    weighed = rows.selectExpr(*by, f"{draw.key} AS key", f"{_weight_sql(draw)} AS weight")
    placed = weighed.selectExpr("*", f"{hash_sql(draw.salt, 'key')} AS hash").selectExpr("*", "hash & 255 AS slice")
    known = _beside(placed, _thresholds(weighed, by, draw.k), by)
    light = known.where("NOT whole AND weight < threshold")
    chances = light.selectExpr("*", f"CAST(floor(weight / threshold * {POINT}D + 0.5D) AS BIGINT) AS chance")
    heavy = known.where("whole OR weight >= threshold")
    kept = heavy.selectExpr(*by, "key", "weight", "weight AS adjusted_weight")
    return kept.unionByName(_picked(chances, by, draw.salt))


def _weight_sql(draw: Draw) -> str:
    """A weight that can be sampled by and added up exactly; any other ends the job."""
    weight = weight_sql(draw.weight, draw.key)
    fits = f"{draw.weight} IS NULL OR {draw.weight} BETWEEN {LIGHTEST}D AND {HEAVIEST}D"
    words = f"concat('{REFUSED} ', to_json(named_struct('key', {draw.key})), ' is ', {weight}, '{OUTSIDE}')"
    return f"IF({fits}, {weight}, CAST(raise_error({words}) AS DOUBLE))"


def _thresholds(weighed: DataFrame, by: Sequence[str], k: int) -> DataFrame:
    """A row a group: whether all of it is kept, and what a light item stands for."""
    fold = (
        f"aggregate({TOP}(weight, {k}, false), named_struct('apart', 0, 'rest', "
        f"CAST(sum(CAST(weight AS {TOTAL})) AS {TOTAL}), 'done', false), "
        f"(s, w) -> IF(s.done OR w * ({k} - s.apart) <= double(s.rest), "
        f"named_struct('apart', s.apart, 'rest', s.rest, 'done', true), "
        f"named_struct('apart', s.apart + 1, 'rest', CAST(s.rest - CAST(w AS {TOTAL}) AS {TOTAL}), 'done', false)), "
        f"s -> double(s.rest) / greatest(1, {k} - s.apart))"
    )
    return weighed.groupBy(*by).agg(expr(f"count(*) <= {k}").alias("whole"), expr(fold).alias("threshold"))


def _picked(chances: DataFrame, by: Sequence[str], salt: int) -> DataFrame:
    """The light items that a point falls on."""
    slices = chances.groupBy(*by, "slice", "threshold").agg(expr("sum(chance)").alias("length"))
    group = ", ".join(by)
    within = f"PARTITION BY {group}" if group else "PARTITION BY 1"
    lines = slices.selectExpr(
        *by,
        "slice",
        f"sum(length) OVER ({within} ORDER BY slice) - length AS begin",
        f"sum(length) OVER ({within}) AS total",
    )
    start = uniform_sql(hash_sql(salt, *(f"coalesce(CAST({one} AS STRING), '')" for one in by), "'start'"))
    placed = (
        _beside(chances, lines, [*by, "slice"])
        # By rows: items that come twice would otherwise end at one place.
        .selectExpr("*", f"begin + sum(chance) OVER ({within}, slice {IN_ORDER}) AS reached")
        .selectExpr("*", f"least(total - 1, CAST({start} * total AS BIGINT)) AS start")
        .selectExpr("*", f"CAST(round(total / {POINT}D) AS BIGINT) AS wanted")
    )
    below = "((CAST({0} AS DECIMAL(38, 0)) * wanted - start + total - 1) DIV total)"
    return placed.where(f"{below.format('reached')} > {below.format('(reached - chance)')}").selectExpr(
        *by, "key", "weight", "threshold AS adjusted_weight"
    )


def _beside(rows: DataFrame, facts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Rows with the facts of their group; a group may be null."""
    if not by:
        return rows.crossJoin(facts)
    renamed = facts.selectExpr(*(f"{one} AS __{one}" for one in by), *(c for c in facts.columns if c not in by))
    same = " AND ".join(f"{one} <=> __{one}" for one in by)
    return rows.join(renamed, expr(same)).drop(*(f"__{one}" for one in by))
