"""What records weigh: what `sampling.adjusted_count` says of each, whatever its type."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from neve.errors import InvalidWeight
from neve.reservoir.definition import REFUSED
from neve.reservoir.reference import LARGEST_WEIGHT

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig

ATTRIBUTE = "sampling.adjusted_count"
WEIGHTS = "weights"
STRING, INT, DOUBLE = 1, 2, 3  # OTAP's types of values
# Engines differ in what else they take for a number: 1_000, 1d, 0x1p3, words.
NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
SAID = "coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING), concat('of type ', type))"


def attributes_of(signal: str) -> str:
    """The table of a signal's own attributes.

    >>> attributes_of("logs")
    'log_attrs'
    """
    return f"{signal.removesuffix('s')}_attrs"


def numbers_of(said: pa.Table) -> npt.NDArray[np.float64]:
    """Attributes as numbers, from texts, whole numbers and doubles; NaN where they are none."""
    kind = np.asarray(said.column("type"))
    doubles = np.asarray(pc.fill_null(said.column("double"), np.nan))
    whole = np.asarray(pc.fill_null(said.column("int"), 0)).astype(np.float64)
    texts = np.array([number_of(text) for text in said.column("str").to_pylist()], np.float64)
    return np.select([kind == DOUBLE, kind == INT, kind == STRING], [doubles, whole, texts], np.nan)


def number_of(text: str | None) -> float:
    """The number that a text is, as every engine reads it; NaN where it is none.

    >>> number_of("2.5e1"), number_of("1_000"), number_of(None)
    (25.0, nan, nan)
    """
    return float(text) if text and re.fullmatch(NUMBER, text) else math.nan


def number_sql() -> str:
    """The same as Spark SQL, of the columns of an attribute."""
    text = f"CASE WHEN str RLIKE '^{NUMBER}\\\\z' THEN CAST(str AS DOUBLE) END"
    return f"(CASE type WHEN {DOUBLE} THEN double WHEN {INT} THEN CAST(int AS DOUBLE) WHEN {STRING} THEN {text} END)"


def can_be(weights: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which numbers can be sampled by."""
    return (weights > 0) & (weights < LARGEST_WEIGHT)


def weights_view(session: SparkSession, config: ReservoirConfig) -> DataFrame:
    """`_part_id`, `id` and `weight` of the records that say what they weigh, and what they say where it can't be.

    Attributes are those of whole parts: a weight that can't be is refused where a record of the window has it, so that
    here it is NaN.
    """
    instead = "1D" if config.invalid_weights == "one" else "double('NaN')"
    fits = f"coalesce(weight > 0D AND weight < {LARGEST_WEIGHT}D, false)"
    # A record that says it twice is one record: the largest that it says counts.
    return session.sql(f"""
        SELECT _part_id, id, max(IF({fits}, weight, {instead})) AS weight, max(IF({fits}, NULL, said)) AS wrong
        FROM (SELECT _part_id, parent_id AS id, {number_sql()} AS weight, {SAID} AS said
              FROM {attributes_of(config.signal)} WHERE key = '{ATTRIBUTE}')
        GROUP BY _part_id, id""")


def weight_sql(config: ReservoirConfig, weights: str) -> str:
    """What a record weighs, beside its row of the weights, if it has one; one that can't be ends the job."""
    weight = f"coalesce({weights}.weight, 1D)"
    if config.invalid_weights == "one":
        return weight
    item = f"to_json(named_struct('part', {weights}._part_id, 'id', {weights}.id))"
    words = f"concat('{REFUSED} ', {item}, ' is ', {weights}.wrong)"
    return f"IF({weights}.wrong IS NULL, {weight}, CAST(raise_error({words}) AS DOUBLE))"


def counted_as_one(session: SparkSession, config: ReservoirConfig) -> int:
    """How many records of a window say what can't be, and count as 1."""
    if config.weights != "adjusted_count" or config.invalid_weights != "one":
        return 0
    wrong = session.table(WEIGHTS).where("wrong IS NOT NULL")
    return session.table(config.signal).join(wrong, ["_part_id", "id"], "left_semi").count()


def refusal(error: Exception) -> InvalidWeight | None:
    """What Spark says of a weight that can't be, in our words; none where it says something else."""
    text = str(error)
    if REFUSED not in text:
        return None
    said = text[text.index(REFUSED) + len(REFUSED) :].splitlines()[0].split(" SQLSTATE")[0].strip().rstrip(".")
    if "use priority sampling" in said:
        return InvalidWeight(f"weight of record {said}", hint="nothing of the window was published")
    return InvalidWeight(
        f"weight of record {said}, expected a finite number above 0",
        hint="set reservoir.invalid_weights: one to count such records as 1; nothing of the window was published",
    )
