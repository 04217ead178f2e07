"""The tables of a window as views that joins work on as the specification says, whichever convention its ids follow."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.pandas.functions import arrow_udf

from neve.otap.ids import placed
from neve.otap.part_ids import id_columns
from neve.otap.tables import STARS, schema
from neve.reservoir.star.files import WITHOUT_ID, time_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from neve.lake.config import S3Config
    from neve.otap.ids import Offsets
    from neve.otap.tables import Star
    from neve.reservoir.star.files import RootFile
    from neve.reservoir.star.plan import Turn

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
    """The parts that a window has records of: their files by table, and the offsets of batches where ids need them."""

    files: Mapping[str, Mapping[str, Sequence[str]]]
    offsets: Mapping[str, Offsets | None] = field(default_factory=dict)


def session_for(spark: SparkSession) -> SparkSession:
    """A session of its own for the views, in which times are whole nanoseconds."""
    session = spark.newSession()
    session.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    session.conf.set("spark.sql.shuffle.partitions", str(max(8, 2 * spark.sparkContext.defaultParallelism)))
    return session


def open_views(session: SparkSession, signal: str, turn: Turn, parts: Parts, s3: S3Config) -> None:
    """Name the tables of a window: its root, and the children of all parts that it has records of."""
    star = STARS[signal]
    root_view(session, star, turn, parts, s3).createOrReplaceTempView(star.root)
    for child in star.children:
        child_view(session, child.table, parts).createOrReplaceTempView(child.table)


def root_view(session: SparkSession, star: Star, turn: Turn, parts: Parts, s3: S3Config) -> DataFrame:
    """The records of a window; every one has an id, and finds its resource and its scope by theirs."""
    plain: dict[str, list[str]] = {}
    frames = []
    for ordinal, file in enumerate(turn.files):
        offsets = parts.offsets.get(file.part)
        if offsets is None and not file.without_id:
            plain.setdefault(file.part, []).append(file.path)
        else:
            frames.append(_alone(session, star, file, ordinal, offsets, s3))
    frames += [_read(session, star.root, paths, part) for part, paths in plain.items()]
    moment = f.coalesce(*(f.nullif(f.col(name), f.lit(0)) for name in time_columns(star.root)), f.lit(0))
    window = turn.window
    return _union(frames).where((moment >= window.start_ns) & (moment < window.end_ns))


def child_view(session: SparkSession, table: str, parts: Parts) -> DataFrame:
    """The rows of a child in all parts of a window."""
    frames = [_read(session, table, files[table], part) for part, files in parts.files.items() if files.get(table)]
    return _union(frames) if frames else _empty(session, table)


def _alone(
    session: SparkSession, star: Star, file: RootFile, ordinal: int, offsets: Offsets | None, s3: S3Config
) -> DataFrame:
    """One file whose records can't be told by their ids alone."""
    rows = _read(session, star.root, [file.path], file.part)
    place = f.col("_metadata.row_index")
    rows = rows.withColumn("id", f.coalesce(f.col("id"), f.lit(-1 - ordinal * WITHOUT_ID) - place))
    if offsets is None:
        return rows
    shift = _shift(file.path, offsets, s3)(place)
    return rows.withColumn("resource", _shifted("resource", shift)).withColumn("scope", _shifted("scope", shift))


def _shift(path: str, offsets: Offsets, s3: S3Config):  # type: ignore[no-untyped-def]
    """The offset of the batch that a record is of, by its place in the file: batches lie one behind the other."""
    ids, *nested = id_columns(path, s3)
    shifts, _guessed = placed(ids, nested, offsets)
    firsts = np.flatnonzero(np.diff(shifts, prepend=-1))
    values = shifts[firsts]

    @arrow_udf(t.LongType())  # type: ignore[call-overload, untyped-decorator]
    def shift(places: pa.Array) -> pa.Array:
        return pa.array(values[np.searchsorted(firsts, places.to_numpy(), side="right") - 1])

    return shift


def _shifted(name: str, shift: Column) -> Column:
    return f.col(name).withField("id", f.col(f"{name}.id") + shift)


def _read(session: SparkSession, table: str, paths: Sequence[str], part: str) -> DataFrame:
    # Paths are taken as they are: a folder may have a bracket or a star in its name.
    reader = session.read.schema(spark_schema(table)).option("__globPaths__", "false")
    rows = reader.parquet(*map(spark_path, paths))
    return rows.withColumn("_part_id", f.lit(part))


def _empty(session: SparkSession, table: str) -> DataFrame:
    return session.createDataFrame([], spark_schema(table)).withColumn("_part_id", f.lit(""))


def _union(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def spark_schema(table: str) -> t.StructType:
    """The columns of a table as Spark reads them.

    Ids of traces and spans are left out: otel-arrow's exporter declares them wrongly, and Spark would believe it.
    """
    wanted = [field for field in schema(table) if not pa.types.is_fixed_size_binary(field.type)]
    return t.StructType([t.StructField(field.name, _spark_type(field.type)) for field in wanted])


def _spark_type(kind: pa.DataType) -> t.DataType:
    if pa.types.is_struct(kind):
        return t.StructType([t.StructField(field.name, _spark_type(field.type)) for field in kind])
    return SPARK[kind]


def spark_path(path: str) -> str:
    """A path as Spark takes it."""
    scheme, colon, rest = path.partition("://")
    if not colon:
        return f"file://{path}"
    return f"s3a://{rest}" if scheme == "s3" else path
