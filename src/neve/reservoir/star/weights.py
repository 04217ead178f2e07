"""What records weigh: what `sampling.adjusted_count` says of each, whatever its type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.reservoir.definition import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig

ATTRIBUTE = "sampling.adjusted_count"
WEIGHTS = "weights"


def attributes_of(signal: str) -> str:
    """The table of a signal's own attributes.

    >>> attributes_of("logs")
    'log_attrs'
    """
    return f"{signal.removesuffix('s')}_attrs"


def weights_view(session: SparkSession, config: ReservoirConfig) -> DataFrame:
    """`_part_id`, `id` and `weight` of the records that say what they weigh."""
    said = f"""
        SELECT _part_id, parent_id AS id, type,
               CASE type WHEN 3 THEN double WHEN 2 THEN CAST(int AS DOUBLE) WHEN 1 THEN try_cast(str AS DOUBLE) END
                 AS weight,
               coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING)) AS said
        FROM {attributes_of(config.signal)} WHERE key = '{ATTRIBUTE}'"""
    wrong = "1D"
    if config.invalid_weights == "refuse":
        item = "to_json(named_struct('part', _part_id, 'id', id))"
        words = f"concat('{REFUSED} ', {item}, ' is ', coalesce(said, concat('of type ', type)))"
        wrong = f"CAST(raise_error({words}) AS DOUBLE)"
    weight = f"CASE WHEN weight > 0D AND weight < double('infinity') THEN weight ELSE {wrong} END"
    # A record that says it twice is one record: the largest that it says counts.
    return session.sql(f"SELECT _part_id, id, max({weight}) AS weight FROM ({said}) GROUP BY _part_id, id")
