"""Decisions about a window: the records to keep and their adjusted counts, from as few columns as possible.

Decisions come from the settings, or from the user's own query in either of its two result forms.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as t

from neve.errors import ConfigError
from neve.otap.tables import RESOURCE_ATTRS, schema
from neve.reservoir.sampling.aggregate import NAME, register_udafs
from neve.reservoir.sampling.methods import Draw, make_salt
from neve.reservoir.sampling.transform import weighted_sample
from neve.reservoir.weights import WEIGHTS, weight_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.otap.views import Parts
    from neve.reservoir.windows import Window


EXPECTED = (
    f"a column of {NAME}(struct(struct(_part_id, id), weight), k), or columns _part_id, id and adjusted_count "
    "(_part_id is optional if a window has one part)"
)
NAMELESS = "(no name)"  # a missing part of a group's name; a group of one missing name is null


def run_user_query(session: SparkSession, query: str, parts: int) -> DataFrame:
    """Run a user's query, and return its decisions: `part`, `id`, `group` and `adjusted`."""
    try:
        found = session.sql(query)
    except (AnalysisException, ParseException) as error:
        words = (str(error).strip().splitlines() or [""])[0]
        raise ConfigError(
            f"reservoir.query can't be run: {words}", hint="docs/reservoir.md shows its tables"
        ) from error
    samples = [field for field in found.schema.fields if _is_sample(field.dataType)]
    if len(samples) == 1:
        return _explode_sample(found, samples[0], parts)
    if {"id", "adjusted_count"} <= set(found.columns):
        part = f.col("_part_id") if "_part_id" in found.columns else _require_one_part(parts)
        group = [name for name in found.columns if name not in ("_part_id", "id", "adjusted_count")]
        return found.select(
            part.alias("part"),
            f.col("id").cast("long").alias("id"),
            _group(group),
            f.col("adjusted_count").cast("double").alias("adjusted"),
        )
    given = found.schema.simpleString()
    raise ConfigError(f"reservoir.query returns {given}", hint=f"expected {EXPECTED}")


def _explode_sample(found: DataFrame, sample: t.StructField, parts: int) -> DataFrame:
    group = _group([name for name in found.columns if name != sample.name])
    rows = found.select(group, f.explode(sample.name).alias("one"))
    value = sample.dataType.elementType.fields[0].dataType  # type: ignore[attr-defined]
    if isinstance(value, t.StructType) and len(value.fields) == 2:
        part, key = (f.col(f"one.value.`{field.name}`") for field in value.fields)
    elif isinstance(value, (t.LongType, t.IntegerType)):
        part, key = _require_one_part(parts), f.col("one.value")
    else:
        raise ConfigError(f"reservoir.query samples {value.simpleString()}", hint=f"expected {EXPECTED}")
    return rows.select(
        part.alias("part"), key.cast("long").alias("id"), "group", f.col("one.adjusted_weight").alias("adjusted")
    )


def _require_one_part(parts: int) -> Column:
    if parts != 1:
        raise ConfigError(
            f"reservoir.query identifies records by id alone, but the window has {parts} parts, each with its own ids",
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


VALUE = "coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING))"
UNFIT = "neve: adjusted_count of record"


@contextmanager
def open_decisions(session: SparkSession, config: ReservoirConfig, window: Window, parts: Parts) -> Iterator[DataFrame]:
    """Yield `part`, `id`, `group`, `weight` and `adjusted` of the kept records, from the views of the window."""
    salt = stage_salt(config, window, parts.files)
    if config.query:
        register_udafs(session, salt)
        yield _add_weights(session, config, run_user_query(session, config.query, len(parts.files)))
        return
    rows = session.sql(default_rows(config))
    if config.method == "exact_total":
        rows = rows.persist()  # the exact-total method reads them six times, each time through all joins
    try:
        yield _draw_sample(rows, config, salt)
    finally:
        rows.unpersist()


def stage_salt(config: ReservoirConfig, window: Window, parts: Iterable[str]) -> int:
    """Return the salt of a window's random numbers.

    The sample of a sample needs other random numbers than the first. A sampler writes parts of its own, so the parts
    identify the stage. The salt does not depend on the method or the number of kept records: a query keeps the same
    records as the same settings.
    """
    return make_salt("reservoir", config.name, config.signal, window.start_ns, window.seconds, *sorted(parts))


def _draw_sample(rows: DataFrame, config: ReservoirConfig, salt: int) -> DataFrame:
    """Draw k records of each group."""
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
    """Return the SQL for the records of a window with their group and weight."""
    columns, joins = [], []
    for number, name in enumerate(config.by):
        if name in schema(config.signal).names:
            columns.append(_text_column(config.signal, name))
            continue
        table = f"g{number}"
        columns.append(f"{table}.value")
        joins.append(
            f"LEFT JOIN (SELECT _part_id, parent_id, min({VALUE}) AS value FROM {RESOURCE_ATTRS} "
            f"WHERE key = '{_quote(name)}' GROUP BY _part_id, parent_id) {table} "
            f"ON {table}._part_id = l._part_id AND {table}.parent_id = l.resource.id"
        )
    weight = "CAST(1 AS DOUBLE)"
    if config.weights == "adjusted_count":
        weight = weight_sql(config, "w")
        joins.append(f"LEFT JOIN {WEIGHTS} w ON w._part_id = l._part_id AND w.id = l.id")
    group = columns[0] if columns else "CAST(NULL AS STRING)"
    if len(columns) > 1:
        named = ", ".join(f"coalesce({column}, '{NAMELESS}')" for column in columns)
        group = f"concat_ws(' / ', {named})"
    return f"SELECT l._part_id, l.id, {group} AS group, {weight} AS weight FROM {config.signal} l {' '.join(joins)}"


def _text_column(signal: str, name: str) -> str:
    """Return the SQL for a column of records as text."""
    kind = schema(signal).field(name).type
    if pa.types.is_struct(kind) or pa.types.is_fixed_size_binary(kind):
        raise ConfigError(
            f"reservoir.by has {name}, which can't define groups: its type is {kind}",
            hint="name attributes of resources, or columns of numbers or text",
        )
    return f"CAST(l.{name} AS STRING)"


def default_query(config: ReservoirConfig) -> str:
    """Return the query that is equivalent to the settings, as a template for a user's own query."""
    return (
        f"SELECT group, {NAME}(struct(struct(_part_id, id), weight), {config.k or 100}) AS sample\n"
        f"FROM ({default_rows(config)})\nGROUP BY group"
    )


def _add_weights(session: SparkSession, config: ReservoirConfig, decided: DataFrame) -> DataFrame:
    """Add the original weights of the records to decisions; a decision with an invalid weight fails the job."""
    words = (
        f"concat('{UNFIT} ', to_json(named_struct('part', d.part, 'id', d.id)), ' is ', coalesce(d.adjusted, 'null'))"
    )
    fits = "d.id IS NOT NULL AND d.adjusted > 0D AND d.adjusted < double('infinity')"
    adjusted = f"IF({fits}, d.adjusted, CAST(raise_error({words}) AS DOUBLE)) AS adjusted"
    rows = decided.alias("d")
    if config.weights == "one":
        return rows.selectExpr("part", "id", "group", "1D AS weight", adjusted)
    same = f.expr("coalesce(d.part, w._part_id) = w._part_id AND d.id = w.id")
    found = rows.join(session.table(WEIGHTS).alias("w"), same, "left")
    return found.selectExpr("d.part", "d.id", "d.group", f"{weight_sql(config, 'w')} AS weight", adjusted)


def _quote(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
