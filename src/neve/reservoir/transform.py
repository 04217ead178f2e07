"""The sample of a DataFrame: k items of each group, with their weights and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.functions import expr

from neve.errors import ConfigError
from neve.reservoir.aggregate import GROUPS, is_native, register_top
from neve.reservoir.chance import hash_sql, uniform_sql
from neve.reservoir.definition import threshold_sql, top_sql, weight_sql
from neve.reservoir.exact import exact_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from neve.reservoir.draw import Draw

EARLY_CUT = "spark.sql.optimizer.windowGroupLimitThreshold"


def weighted_sample(rows: DataFrame, draw: Draw) -> DataFrame:
    """Columns `by`, `key`, `weight` and `adjusted_weight`; one row for each item that is kept."""
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
    """The same by sorting, for Spark Connect: it cuts each partition before the shuffle too, at twice the cost."""
    if draw.method != "priority":
        raise ConfigError(
            f"method {draw.method} needs a classic Spark session", hint="set spark.master, not spark.connect"
        )
    by, k = draw.by, draw.k
    conf = rows.sparkSession.conf
    conf.set(EARLY_CUT, str(max(k + 1, int(str(conf.get(EARLY_CUT))))))  # others' larger cuts stay
    weighed = rows.selectExpr(*by, f"{draw.key} AS key", f"{weight_sql(draw.weight, draw.key)} AS weight")
    entries = weighed.selectExpr("*", f"weight / {uniform_sql(hash_sql(draw.salt, 'key'))} AS priority")
    within = f"PARTITION BY {', '.join(by) or '1'}"
    ranked = entries.selectExpr("*", f"row_number() OVER ({within} ORDER BY priority DESC, key DESC) AS rank")
    cut = ranked.where(f"rank <= {k + 1}")
    light = cut.selectExpr("*", f"max(IF(rank = {k + 1}, priority, 0D)) OVER ({within}) AS light")
    return light.where(f"rank <= {k}").selectExpr(*by, "key", "weight", "greatest(weight, light) AS adjusted_weight")
