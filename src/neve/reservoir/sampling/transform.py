"""DataFrame transforms that sample k items of each group, with their weights and adjusted weights.

The exact-total method keeps the total of each group exactly: systematic selection at VarOpt's threshold. A light
item gets the adjusted weight t, the threshold; a heavy one (weight at least t) keeps its own. Light items are side
by side on a line, each as long as its probability weight / t, in the order of their hashes; evenly spaced points on
the line pick k of them. Lengths are whole numbers, so that sums are the same in any order: first those of 256
slices of the hashes, then those within a slice, in parallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from neve.errors import ConfigError
from neve.reservoir.sampling.aggregate import (
    GROUPS,
    REFUSED,
    TOP,
    is_native,
    register_top,
    threshold_sql,
    top_sql,
    weight_sql,
)
from neve.reservoir.sampling.methods import POINT, hash_sql, uniform_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from neve.reservoir.sampling.methods import Draw


TOTAL = "decimal(37, 18)"  # its sums do not depend on the order, unlike those of doubles
LIGHTEST, HEAVIEST = 1e-6, 1e18  # the range that it holds to twelve digits
IN_ORDER = "ORDER BY hash, key, weight ROWS UNBOUNDED PRECEDING"
OUTSIDE = f", exact_total takes {LIGHTEST} to {HEAVIEST}: use priority sampling"


def exact_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    """Return the kept items, with their weights and adjusted weights."""
    by = draw.by
    weighed = rows.selectExpr(*by, f"{draw.key} AS key", f"{_weight_sql(draw)} AS weight")
    placed = weighed.selectExpr("*", f"{hash_sql(draw.salt, 'key')} AS hash").selectExpr("*", "hash & 255 AS slice")
    known = _join_group_facts(placed, _thresholds(weighed, by, draw.k), by)
    light = known.where("NOT whole AND weight < threshold")
    chances = light.selectExpr("*", f"CAST(floor(weight / threshold * {POINT}D + 0.5D) AS BIGINT) AS chance")
    heavy = known.where("whole OR weight >= threshold")
    kept = heavy.selectExpr(*by, "key", "weight", "weight AS adjusted_weight")
    return kept.unionByName(_pick_light_items(chances, by, draw.salt))


def _weight_sql(draw: Draw) -> str:
    """Return the SQL of a weight that is valid and can be added up exactly; any other fails the job."""
    weight = weight_sql(draw.weight, draw.key)
    fits = f"{draw.weight} IS NULL OR {draw.weight} BETWEEN {LIGHTEST}D AND {HEAVIEST}D"
    words = f"concat('{REFUSED} ', to_json(named_struct('key', {draw.key})), ' is ', {weight}, '{OUTSIDE}')"
    return f"IF({fits}, {weight}, CAST(raise_error({words}) AS DOUBLE))"


def _thresholds(weighed: DataFrame, by: Sequence[str], k: int) -> DataFrame:
    """Return a row for each group: whether all of it is kept, and the adjusted weight of light items."""
    fold = (
        f"aggregate({TOP}(weight, {k}, false), named_struct('apart', 0, 'rest', "
        f"CAST(sum(CAST(weight AS {TOTAL})) AS {TOTAL}), 'done', false), "
        f"(s, w) -> IF(s.done OR w * ({k} - s.apart) <= double(s.rest), "
        f"named_struct('apart', s.apart, 'rest', s.rest, 'done', true), "
        f"named_struct('apart', s.apart + 1, 'rest', CAST(s.rest - CAST(w AS {TOTAL}) AS {TOTAL}), 'done', false)), "
        f"s -> double(s.rest) / greatest(1, {k} - s.apart))"
    )
    return weighed.groupBy(*by).agg(expr(f"count(*) <= {k}").alias("whole"), expr(fold).alias("threshold"))


def _pick_light_items(chances: DataFrame, by: Sequence[str], salt: int) -> DataFrame:
    """Return the light items that a point selects."""
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
        _join_group_facts(chances, lines, [*by, "slice"])
        # By rows: duplicate items would otherwise end at the same place.
        .selectExpr("*", f"begin + sum(chance) OVER ({within}, slice {IN_ORDER}) AS reached")
        .selectExpr("*", f"least(total - 1, CAST({start} * total AS BIGINT)) AS start")
        .selectExpr("*", f"CAST(round(total / {POINT}D) AS BIGINT) AS wanted")
    )
    below = "((CAST({0} AS DECIMAL(38, 0)) * wanted - start + total - 1) DIV total)"
    return placed.where(f"{below.format('reached')} > {below.format('(reached - chance)')}").selectExpr(
        *by, "key", "weight", "threshold AS adjusted_weight"
    )


def _join_group_facts(rows: DataFrame, facts: DataFrame, by: Sequence[str]) -> DataFrame:
    """Join rows with the facts of their group; a group may be null."""
    if not by:
        return rows.crossJoin(facts)
    renamed = facts.selectExpr(*(f"{one} AS __{one}" for one in by), *(c for c in facts.columns if c not in by))
    same = " AND ".join(f"{one} <=> __{one}" for one in by)
    return rows.join(renamed, expr(same)).drop(*(f"__{one}" for one in by))


EARLY_CUT = "spark.sql.optimizer.windowGroupLimitThreshold"


def weighted_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    """Return the columns `by`, `key`, `weight` and `adjusted_weight`, with one row for each kept item."""
    if not is_native(rows.sparkSession):
        return windowed_sample(rows, draw)
    register_top(rows.sparkSession)
    rows.sparkSession.conf.set("spark.sql.objectHashAggregate.sortBased.fallbackThreshold", str(GROUPS))
    return exact_sample(rows, draw) if draw.method == "exact_total" else _priority_sample(rows, draw)


def _priority_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    by, k = draw.by, str(draw.k)
    tops = rows.groupBy(*by).agg(expr(top_sql(draw.key, draw.weight, k, draw.salt)).alias("top"))
    found = tops.selectExpr(*by, f"{threshold_sql('top', k)} AS light", f"explode(slice(top, 1, {k})) AS one")
    return found.selectExpr(*by, "one.key", "one.weight", "greatest(one.weight, light) AS adjusted_weight")


def windowed_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    """Sample by sorting, for Spark Connect.

    It cuts each partition before the shuffle too, at twice the cost.
    """
    if draw.method != "priority":
        raise ConfigError(
            f"method {draw.method} needs a classic Spark session", hint="set spark.master, not spark.connect"
        )
    by, k = draw.by, draw.k
    conf = rows.sparkSession.conf
    conf.set(EARLY_CUT, str(max(k + 1, int(str(conf.get(EARLY_CUT))))))  # a larger configured limit stays
    weighed = rows.selectExpr(*by, f"{draw.key} AS key", f"{weight_sql(draw.weight, draw.key)} AS weight")
    entries = weighed.selectExpr("*", f"weight / {uniform_sql(hash_sql(draw.salt, 'key'))} AS priority")
    within = f"PARTITION BY {', '.join(by) or '1'}"
    ranked = entries.selectExpr("*", f"row_number() OVER ({within} ORDER BY priority DESC, key DESC) AS rank")
    cut = ranked.where(f"rank <= {k + 1}")
    light = cut.selectExpr("*", f"max(IF(rank = {k + 1}, priority, 0D)) OVER ({within}) AS light")
    return light.where(f"rank <= {k}").selectExpr(*by, "key", "weight", "greatest(weight, light) AS adjusted_weight")
