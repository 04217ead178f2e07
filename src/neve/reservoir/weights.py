"""Weights of records: the number in the attribute `sampling.adjusted_count`, whatever its type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from neve.errors import InvalidWeight
from neve.reservoir.sampling.aggregate import REFUSED
from neve.reservoir.sampling.methods import LARGEST_WEIGHT

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig

ATTRIBUTE = "sampling.adjusted_count"
WEIGHTS = "weights"
STRING, INT, DOUBLE = 1, 2, 3  # OTAP's types of values
# Engines differ in the other texts that they accept as numbers: 1_000, 1d, 0x1p3, words.
NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
VALUE_TEXT_SQL = (
    "coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING), concat('of type ', type))"
)


def attributes_of(signal: str) -> str:
    """Return the table of a signal's own attributes.

    >>> attributes_of("logs")
    'log_attrs'
    """
    return f"{signal.removesuffix('s')}_attrs"


def parse_numbers(attributes: pa.Table) -> npt.NDArray[np.float64]:
    """Parse attributes as numbers, from texts, whole numbers and doubles; NaN for other values."""
    kind = np.asarray(attributes.column("type"))
    doubles = np.asarray(pc.fill_null(attributes.column("double"), np.nan))
    whole = np.asarray(pc.fill_null(attributes.column("int"), 0)).astype(np.float64)
    texts = np.array([parse_number(text) for text in attributes.column("str").to_pylist()], np.float64)
    return np.select([kind == DOUBLE, kind == INT, kind == STRING], [doubles, whole, texts], np.nan)


def parse_number(text: str | None) -> float:
    """Parse a text as a number, as every engine does; NaN if it is none.

    >>> parse_number("2.5e1"), parse_number("1_000"), parse_number(None)
    (25.0, nan, nan)
    """
    return float(text) if text and re.fullmatch(NUMBER, text) else math.nan


def number_sql() -> str:
    """Return the Spark SQL of the number, from the columns of an attribute."""
    text = f"CASE WHEN str RLIKE '^{NUMBER}\\\\z' THEN CAST(str AS DOUBLE) END"
    return f"(CASE type WHEN {DOUBLE} THEN double WHEN {INT} THEN CAST(int AS DOUBLE) WHEN {STRING} THEN {text} END)"


def is_valid_weight(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Return a mask of the valid weights."""
    return (weights > 0) & (weights < LARGEST_WEIGHT)


def weights_view(session: SparkSession, config: ReservoirConfig) -> DataFrame:
    """Return `_part_id`, `id` and `weight` of the records that have a weight, and the text of an invalid one.

    Attributes are those of whole parts. An invalid weight is rejected only if a record of the window has it. Here it is
    therefore NaN.
    """
    instead = "1D" if config.invalid_weights == "one" else "double('NaN')"
    fits = f"coalesce(weight > 0D AND weight < {LARGEST_WEIGHT}D, false)"
    # A record that has the attribute twice is one record: the largest weight counts.
    return session.sql(f"""
        SELECT _part_id, id, max(IF({fits}, weight, {instead})) AS weight, max(IF({fits}, NULL, said)) AS wrong
        FROM (SELECT _part_id, parent_id AS id, {number_sql()} AS weight, {VALUE_TEXT_SQL} AS said
              FROM {attributes_of(config.signal)} WHERE key = '{ATTRIBUTE}')
        GROUP BY _part_id, id""")


def weight_sql(config: ReservoirConfig, weights: str) -> str:
    """Return the SQL of a record's weight, joined with its row of the weights, if any; an invalid one fails the job."""
    weight = f"coalesce({weights}.weight, 1D)"
    if config.invalid_weights == "one":
        return weight
    item = f"to_json(named_struct('part', {weights}._part_id, 'id', {weights}.id))"
    words = f"concat('{REFUSED} ', {item}, ' is ', {weights}.wrong)"
    return f"IF({weights}.wrong IS NULL, {weight}, CAST(raise_error({words}) AS DOUBLE))"


def count_invalid_weights(session: SparkSession, config: ReservoirConfig) -> int:
    """Count the records of a window that have an invalid weight and count as 1."""
    if config.weights != "adjusted_count" or config.invalid_weights != "one":
        return 0
    wrong = session.table(WEIGHTS).where("wrong IS NOT NULL")
    return session.table(config.signal).join(wrong, ["_part_id", "id"], "left_semi").count()


def to_invalid_weight(error: Exception) -> InvalidWeight | None:
    """Convert Spark's error about an invalid weight, or return None for any other error."""
    text = str(error)
    if REFUSED not in text:
        return None
    attributes = text[text.index(REFUSED) + len(REFUSED) :].splitlines()[0].split(" SQLSTATE")[0].strip().rstrip(".")
    if "use priority sampling" in attributes:
        return InvalidWeight(f"weight of record {attributes}", hint="nothing of the window was published")
    return InvalidWeight(
        f"weight of record {attributes}, expected a finite number above 0",
        hint="set reservoir.invalid_weights: one to count such records as 1; nothing of the window was published",
    )
