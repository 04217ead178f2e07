"""The three forms of the sample, each as what it keeps by group, to be compared with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neve.reservoir.sampling.aggregate import register_udafs
from neve.reservoir.sampling.methods import sample_exact_total, sample_priority

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from neve.reservoir.sampling.methods import Draw, Key

Sample = dict[object, dict[Any, tuple[float, float]]]  # group -> key -> weight, adjusted weight


def found(sample: DataFrame) -> Sample:
    """What a sample of Spark's holds."""
    kept: Sample = {}
    for row in sample.collect():
        kept.setdefault(row.g, {})[plain(row.key)] = (row.weight, row.adjusted_weight)
    return kept


def by_sql(rows: DataFrame, draw: Draw) -> dict[object, dict[Any, float]]:
    """What the SQL aggregate keeps; it does not say what items weighed."""
    register_udafs(rows.sparkSession, draw.salt)
    rows.createOrReplaceTempView("items")
    query = f"""
        SELECT g, weighted_reservoir_sample(struct({draw.key} AS key, {draw.weight} AS weight), {draw.k}) AS kept
        FROM items GROUP BY g"""
    return {
        row.g: {plain(one.value): one.adjusted_weight for one in row.kept}
        for row in rows.sparkSession.sql(query).collect()
    }


def by_reference(rows: DataFrame, draw: Draw) -> Sample:
    """What plain Python keeps of the same rows."""
    groups: dict[object, list[tuple[Key, float | None]]] = {}
    for row in rows.selectExpr("g", f"{draw.key} AS key", f"{draw.weight} AS weight").collect():
        groups.setdefault(row.g, []).append((plain(row.key), row.weight))
    kept: Sample = {}
    for group, items in groups.items():
        if draw.method == "priority":
            sample = sample_priority(items, draw.k, draw.salt)
        else:
            sample = sample_exact_total(items, draw.k, draw.salt, "" if group is None else str(group))
        kept[group] = {one.key: (one.weight, one.adjusted) for one in sample}
    return kept


def plain(key: Any) -> Key:
    """A key of Spark's as the reference takes it."""
    if isinstance(key, tuple):
        return tuple(plain(part) for part in key)
    return bytes(key) if isinstance(key, bytearray) else key
