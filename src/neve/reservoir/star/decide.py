"""Decisions about a window: which records are kept, and what each stands for, from the columns that tell it alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from neve.errors import ConfigError
from neve.otap.tables import RESOURCE_ATTRS, schema
from neve.reservoir.aggregate import NAME, register
from neve.reservoir.chance import salt_of
from neve.reservoir.draw import Draw
from neve.reservoir.star.weights import WEIGHTS
from neve.reservoir.transform import weighted_sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.window import Window

COLUMNS = ("part", "id", "group", "weight", "adjusted")
VALUE = "coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING))"
EXPECTED = (
    f"a column of {NAME}(struct(struct(_part_id, id), weight), k), or columns _part_id, id and adjusted_count "
    "(_part_id may be left out where a window has one part)"
)


def decide(session: SparkSession, config: ReservoirConfig, window: Window, parts: int) -> DataFrame:
    """`COLUMNS` of the records that are kept; the views of the window are there."""
    salt = salt_of("reservoir", config.name, config.signal, window.start_ns, config.policy)
    if not config.query:
        return _sampled(session, config, salt)
    register(session, salt)
    return _weighed(session, config, _asked(session, config.query, parts))


def _sampled(session: SparkSession, config: ReservoirConfig, salt: int) -> DataFrame:
    """K records of each group."""
    rows = session.sql(default_rows(config))
    draw = Draw(
        by=("group",),
        key="named_struct('part', _part_id, 'id', id)",
        weight="weight",
        k=config.k or 1,
        salt=salt,
        method=config.method,
    )
    return weighted_sample(rows, draw).selectExpr(
        "key.part AS part", "key.id AS id", "group", "weight", "adjusted_weight AS adjusted"
    )


def default_rows(config: ReservoirConfig) -> str:
    """The records of a window with their group and what they weigh, as SQL."""
    columns, joins = [], []
    for number, name in enumerate(config.by):
        if name in schema(config.signal).names:
            columns.append(f"CAST(l.{name} AS STRING)")
            continue
        table = f"g{number}"
        columns.append(f"{table}.value")
        joins.append(
            f"LEFT JOIN (SELECT _part_id, parent_id, min({VALUE}) AS value FROM {RESOURCE_ATTRS} "
            f"WHERE key = '{_quoted(name)}' GROUP BY _part_id, parent_id) {table} "
            f"ON {table}._part_id = l._part_id AND {table}.parent_id = l.resource.id"
        )
    weight = "CAST(1 AS DOUBLE)"
    if config.weights == "adjusted_count":
        weight = "coalesce(w.weight, 1D)"
        joins.append(f"LEFT JOIN {WEIGHTS} w ON w._part_id = l._part_id AND w.id = l.id")
    group = columns[0] if len(columns) == 1 else f"concat_ws(' / ', {', '.join(columns)})" if columns else "''"
    return f"SELECT l._part_id, l.id, {group} AS group, {weight} AS weight FROM {config.signal} l {' '.join(joins)}"


def default_query(config: ReservoirConfig) -> str:
    """What is decided without a query of one's own, as a query to begin one with."""
    return (
        f"SELECT group, {NAME}(struct(struct(_part_id, id), weight), {config.k or 100}) AS sample\n"
        f"FROM ({default_rows(config)})\nGROUP BY group"
    )


def _asked(session: SparkSession, query: str, parts: int) -> DataFrame:
    """What a user's query decides: `part`, `id`, `group` and `adjusted`."""
    try:
        found = session.sql(query)
    except (AnalysisException, ParseException) as error:
        words = (str(error).splitlines() or [""])[0]
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


def _only_part(parts: int):  # type: ignore[no-untyped-def]
    if parts != 1:
        raise ConfigError(
            f"reservoir.query tells records by id alone, but the window has {parts} parts, each with its own ids",
            hint=f"expected {EXPECTED}",
        )
    return f.lit(None).cast("string")


def _group(names: list[str]):  # type: ignore[no-untyped-def]
    columns = [f.col(f"`{name}`").cast("string") for name in names]
    return (columns[0] if len(columns) == 1 else f.concat_ws(" / ", *columns)).alias("group")


def _weighed(session: SparkSession, config: ReservoirConfig, decided: DataFrame) -> DataFrame:
    """Decisions with what the records weighed before."""
    if config.weights == "one":
        return decided.withColumn("weight", f.lit(1.0)).select(*COLUMNS)
    weights = session.table(WEIGHTS).withColumnRenamed("_part_id", "wpart").withColumnRenamed("id", "wid")
    same = (f.coalesce("part", "wpart") == f.col("wpart")) & (f.col("id") == f.col("wid"))
    return decided.join(weights, same, "left").withColumn("weight", f.coalesce("weight", f.lit(1.0))).select(*COLUMNS)


def _is_sample(kind: t.DataType) -> bool:
    return (
        isinstance(kind, t.ArrayType)
        and isinstance(kind.elementType, t.StructType)
        and kind.elementType.names == ["value", "adjusted_weight"]
    )


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
