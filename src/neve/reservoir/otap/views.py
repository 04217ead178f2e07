"""Spark views of the tables of a window.

Joins on them work as specified, with either id convention of the files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf

from neve.otap.ids import find_row_offsets
from neve.otap.part_reader import read_ids
from neve.otap.tables import STARS, schema
from neve.reservoir.otap.root_files import WITHOUT_ID, time_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.lake.config import S3Config
    from neve.otap.ids import Offsets
    from neve.otap.tables import Star
    from neve.reservoir.otap.root_files import RootFile
    from neve.reservoir.otap.source import PlannedWindow

SPARK = {
    pa.uint8(): t.ShortType(),
    pa.uint16(): t.IntegerType(),
    pa.uint32(): t.LongType(),
    pa.int32(): t.IntegerType(),
    pa.int64(): t.LongType(),
    pa.float64(): t.DoubleType(),
    pa.bool_(): t.BooleanType(),
    pa.string(): t.StringType(),
    pa.binary(): t.BinaryType(),
    pa.timestamp("ns"): t.LongType(),
    pa.duration("ns"): t.LongType(),
}


@dataclass(frozen=True)
class Parts:
    """Parts that have records of a window: their files by table, and the offsets of batches if ids need them."""

    files: Mapping[str, Mapping[str, Sequence[str]]]
    offsets: Mapping[str, Offsets | None] = field(default_factory=dict)


def open_session(spark: SparkSession) -> SparkSession:
    """Return a separate session for the views, in which times are whole nanoseconds."""
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    session.conf.set("spark.sql.shuffle.partitions", str(max(8, 2 * spark.sparkContext.defaultParallelism)))
    return session


def open_views(session: SparkSession, signal: str, planned: PlannedWindow, parts: Parts, s3: S3Config) -> None:
    """Register the tables of a window as views: its root, and the children of all parts that have records of it."""
    star = STARS[signal]
    root_view(session, star, planned, parts, s3).createOrReplaceTempView(star.root)
    for child in star.children:
        child_view(session, child.table, parts).createOrReplaceTempView(child.table)


def root_view(session: SparkSession, star: Star, planned: PlannedWindow, parts: Parts, s3: S3Config) -> DataFrame:
    """Return the records of a window.

    Each has an id, and ids that lead to its resource and its scope.
    """
    plain: dict[str, list[str]] = {}
    frames = []
    for ordinal, file in enumerate(planned.files):
        offsets = parts.offsets.get(file.part)
        if offsets is None and not file.without_id:
            plain.setdefault(file.part, []).append(file.path)
        else:
            frames.append(_single_file_view(session, star, file, ordinal, offsets, s3))
    frames += [_read(session, star.root, paths, part) for part, paths in plain.items()]
    moment = f.coalesce(*(f.nullif(f.col(name), f.lit(0)) for name in time_columns(star.root)), f.lit(0))
    window = planned.window
    return _union(frames).where((moment >= window.start_ns) & (moment < window.end_ns))


def child_view(session: SparkSession, table: str, parts: Parts) -> DataFrame:
    """Return the rows of a child table in all parts of a window."""
    frames = [_read(session, table, files[table], part) for part, files in parts.files.items() if files.get(table)]
    return _union(frames) if frames else _empty(session, table)


def _single_file_view(
    session: SparkSession, star: Star, file: RootFile, ordinal: int, offsets: Offsets | None, s3: S3Config
) -> DataFrame:
    """Return the records of one file that can't be identified by their ids alone."""
    rows = _read(session, star.root, [file.path], file.part)
    place = f.col("_metadata.row_index")
    rows = rows.withColumn("id", f.coalesce(f.col("id"), f.lit(-1 - ordinal * WITHOUT_ID) - place))
    if offsets is None:
        return rows
    shift = _shift(file.path, offsets, s3)(place)
    return rows.withColumn("resource", _shift_column("resource", shift)).withColumn(
        "scope", _shift_column("scope", shift)
    )


def _shift(path: str, offsets: Offsets, s3: S3Config):  # type: ignore[no-untyped-def]
    """Return the offset of a record's batch, by the record's place in the file: batches are consecutive."""
    ids, *nested = read_ids(path, s3)
    shifts, _guessed = find_row_offsets(ids, nested, offsets)
    firsts = np.flatnonzero(np.diff(shifts, prepend=-1))
    values = shifts[firsts]

    @arrow_udf(t.LongType())  # type: ignore[call-overload, untyped-decorator]
    def shift(places: pa.Array) -> pa.Array:
        return pa.array(values[np.searchsorted(firsts, places.to_numpy(), side="right") - 1])

    return shift


def _shift_column(name: str, shift: Column) -> Column:
    return f.col(name).withField("id", f.col(f"{name}.id") + shift)


def _read(session: SparkSession, table: str, paths: Sequence[str], part: str) -> DataFrame:
    # Paths are literal: the name of a folder may have a bracket or a star.
    reader = session.read.schema(spark_schema(table)).option("__globPaths__", "false")
    rows = reader.parquet(*map(spark_path, paths))
    return rows.withColumn("_part_id", f.lit(part))


def _empty(session: SparkSession, table: str) -> DataFrame:
    return session.createDataFrame([], spark_schema(table)).withColumn("_part_id", f.lit(""))


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def spark_schema(table: str) -> t.StructType:
    """Return the schema of a table for Spark.

    Ids of traces and spans are left out: otel-arrow's exporter declares them wrongly, and Spark would trust the
    declaration.
    """
    wanted = [field for field in schema(table) if not pa.types.is_fixed_size_binary(field.type)]
    return t.StructType([t.StructField(field.name, _spark_type(field.type)) for field in wanted])


def _spark_type(kind: pa.DataType) -> t.DataType:
    if pa.types.is_struct(kind):
        return t.StructType([t.StructField(field.name, _spark_type(field.type)) for field in kind])
    return SPARK[kind]


def spark_path(path: str) -> str:
    """Return a path in Spark's notation."""
    scheme, colon, rest = path.partition("://")
    if not colon:
        return f"file://{path}"
    return f"s3a://{rest}" if scheme == "s3" else path
