"""What a query of one's own decides, in either of the forms that it may give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from neve.errors import ConfigError
from neve.reservoir.aggregate import NAME

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EXPECTED = (
    f"a column of {NAME}(struct(struct(_part_id, id), weight), k), or columns _part_id, id and adjusted_count "
    "(_part_id may be left out where a window has one part)"
)
NAMELESS = "(no name)"  # a part of a group's name that is missing; a group of one missing name is null


def asked(session: SparkSession, query: str, parts: int) -> DataFrame:
    """What a user's query decides: `part`, `id`, `group` and `adjusted`."""
    try:
        found = session.sql(query)
    except (AnalysisException, ParseException) as error:
        words = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(
            f"reservoir.query can't be run: {words}", hint="docs/reservoir.md shows its tables"
        ) from error
    samples = [field for field in found.schema.fields if _is_sample(field.dataType)]
    if len(samples) == 1:
        return _exploded(found, samples[0], parts)
    if {"id", "adjusted_count"} <= set(found.columns):
        part = f.col("_part_id") if "_part_id" in found.columns else _only_part(parts)
        group = [name for name in found.columns if name not in ("_part_id", "id", "adjusted_count")]
        return found.select(
            part.alias("part"),
            f.col("id").cast("long").alias("id"),
            _group(group),
            f.col("adjusted_count").cast("double").alias("adjusted"),
        )
    given = found.schema.simpleString()
    raise ConfigError(f"reservoir.query gives {given}", hint=f"expected {EXPECTED}")


def _exploded(found: DataFrame, sample: t.StructField, parts: int) -> DataFrame:
    group = _group([name for name in found.columns if name != sample.name])
    rows = found.select(group, f.explode(sample.name).alias("one"))
    value = sample.dataType.elementType.fields[0].dataType  # type: ignore[attr-defined]
    if isinstance(value, t.StructType) and len(value.fields) == 2:
        part, key = (f.col(f"one.value.`{field.name}`") for field in value.fields)
    elif isinstance(value, (t.LongType, t.IntegerType)):
        part, key = _only_part(parts), f.col("one.value")
    else:
        raise ConfigError(f"reservoir.query samples {value.simpleString()}", hint=f"expected {EXPECTED}")
    return rows.select(
        part.alias("part"), key.cast("long").alias("id"), "group", f.col("one.adjusted_weight").alias("adjusted")
    )


def _only_part(parts: int) -> Column:
    if parts != 1:
        raise ConfigError(
            f"reservoir.query tells records by id alone, but the window has {parts} parts, each with its own ids",
            hint=f"expected {EXPECTED}",
        )
    return f.lit(None).cast("string")


def _group(names: list[str]) -> Column:
    columns = [f.col(f"`{name}`").cast("string") for name in names] or [f.lit(None).cast("string")]
    if len(columns) > 1:
        columns = [f.concat_ws(" / ", *(f.coalesce(column, f.lit(NAMELESS)) for column in columns))]
    return columns[0].alias("group")


def _is_sample(kind: t.DataType) -> bool:
    return (
        isinstance(kind, t.ArrayType)
        and isinstance(kind.elementType, t.StructType)
        and kind.elementType.names == ["value", "adjusted_weight"]
    )
