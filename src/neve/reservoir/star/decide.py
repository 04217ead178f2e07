"""Decisions about a window: which records are kept, and what each stands for, from the columns that tell it alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from neve.errors import ConfigError
from neve.otap.tables import RESOURCE_ATTRS, schema
from neve.reservoir.aggregate import NAME, register
from neve.reservoir.chance import salt_of
from neve.reservoir.draw import Draw
from neve.reservoir.star.asked import NAMELESS, asked
from neve.reservoir.star.weights import WEIGHTS, weight_sql
from neve.reservoir.transform import weighted_sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from neve.reservoir.config import ReservoirConfig
    from neve.reservoir.star.views import Parts
    from neve.reservoir.window import Window

VALUE = "coalesce(str, CAST(int AS STRING), CAST(double AS STRING), CAST(bool AS STRING))"
UNFIT = "neve: adjusted_count of record"


@contextmanager
def decided(session: SparkSession, config: ReservoirConfig, window: Window, parts: Parts) -> Iterator[DataFrame]:
    """`part`, `id`, `group`, `weight` and `adjusted` of the records that are kept, from the views of the window."""
    salt = stage_salt(config, window, parts.files)
    if config.query:
        register(session, salt)
        yield _weighed(session, config, asked(session, config.query, len(parts.files)))
        return
    rows = session.sql(default_rows(config))
    if config.method == "exact_total":
        rows = rows.persist()  # it looks at them six times, each time through all joins
    try:
        yield _sampled(rows, config, salt)
    finally:
        rows.unpersist()


def stage_salt(config: ReservoirConfig, window: Window, parts: Iterable[str]) -> int:
    """The salt of a window's chances.

    The sample of a sample needs other chances than that had. What a sampler writes has parts of its own, so that these
    tell the stage. How many are kept by what is not in it: a query keeps what the same settings would.
    """
    return salt_of("reservoir", config.name, config.signal, window.start_ns, window.seconds, *sorted(parts))


def _sampled(rows: DataFrame, config: ReservoirConfig, salt: int) -> DataFrame:
    """K records of each group."""
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
            columns.append(_column(config.signal, name))
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
        weight = weight_sql(config, "w")
        joins.append(f"LEFT JOIN {WEIGHTS} w ON w._part_id = l._part_id AND w.id = l.id")
    group = columns[0] if columns else "CAST(NULL AS STRING)"
    if len(columns) > 1:
        named = ", ".join(f"coalesce({column}, '{NAMELESS}')" for column in columns)
        group = f"concat_ws(' / ', {named})"
    return f"SELECT l._part_id, l.id, {group} AS group, {weight} AS weight FROM {config.signal} l {' '.join(joins)}"


def _column(signal: str, name: str) -> str:
    """A column of records as text."""
    kind = schema(signal).field(name).type
    if pa.types.is_struct(kind) or pa.types.is_fixed_size_binary(kind):
        raise ConfigError(
            f"reservoir.by has {name}, which tells no groups: it is {kind}",
            hint="name attributes of resources, or columns of numbers or text",
        )
    return f"CAST(l.{name} AS STRING)"


def default_query(config: ReservoirConfig) -> str:
    """What is decided without a query of one's own, as a query to begin one with."""
    return (
        f"SELECT group, {NAME}(struct(struct(_part_id, id), weight), {config.k or 100}) AS sample\n"
        f"FROM ({default_rows(config)})\nGROUP BY group"
    )


def _weighed(session: SparkSession, config: ReservoirConfig, decided: DataFrame) -> DataFrame:
    """Decisions with what the records weighed before; one that says nothing that can be ends the job."""
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


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
