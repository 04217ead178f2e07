"""Proof that a branch has the rows of main: their count, and a hash that doesn't depend on their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.rollout.reports import RowProof
from neve.autopilot.table_layout import parse_map_key
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

    from neve.autopilot.layout import Promoted
    from neve.lake.lake import Lake

HASH_TYPE = "decimal(38, 0)"


class RowsChanged(LakeError):
    """Raised when a branch does not have the expected rows; it is never published."""


def read_rows(lake: Lake, table: str, version: int | str) -> DataFrame:
    """Return a table's rows at a snapshot, or at the head of a branch or tag."""
    return lake.spark.read.option("versionAsOf", str(version)).table(lake.spark_name(table))


def prove_rows(lake: Lake, table: str, main: int, head: int, promoted: Collection[Promoted] = ()) -> RowProof:
    """Prove that two snapshots have the same rows in the first one's columns.

    Promoted columns must have the values of their keys. Raises `RowsChanged` if a proof fails.
    """
    before, after = read_rows(lake, table, main), read_rows(lake, table, head)
    new = {one.name for one in promoted}  # main may have these already, without their values
    columns = [name for name in before.columns if name not in new]
    expected, _query = hash_rows(before, columns)
    found, _query = hash_rows(after, columns)
    if expected != found or _types_by_name(before, columns) != _types_by_name(after, columns):
        raise RowsChanged(
            f"{table} has {expected.rows} rows at {main} (hash {expected.hash:x}), but {found.rows} at {head} "
            f"(hash {found.hash:x}), expected the same",
            hint="main is unchanged; roll the branch back and report this bug",
        )
    for one in promoted:
        _check_values(after, one, table)
    return found


def hash_rows(rows: DataFrame, columns: Sequence[str]) -> tuple[RowProof, DataFrame]:
    """Count and hash rows, and return the result with the query for it."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    hashed = F.xxhash64(*(make_hashable(rows, name) for name in columns)) if columns else F.lit(0)
    query = rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed.cast(HASH_TYPE)).alias("hash"))
    [found] = query.collect()
    return RowProof(int(found["rows"]), int(found["hash"] or 0)), query


def list_types(rows: DataFrame) -> tuple[str, ...]:
    """Return the types of the columns, in order."""
    return tuple(field.dataType.simpleString() for field in rows.schema.fields)


def _types_by_name(rows: DataFrame, columns: Sequence[str]) -> dict[str, str]:
    return {name: rows.schema[name].dataType.simpleString() for name in columns}


def make_hashable(rows: DataFrame, name: str) -> Column:
    """Return a column in a form that Spark can hash, with nulls distinguished.

    Spark can't hash maps, so a column that may contain one is hashed as JSON.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType  # noqa: PLC0415

    column = F.col("`" + name.replace("`", "``") + "`")
    if isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType | VariantType):
        column = F.to_json(F.struct(column), {"ignoreNullFields": "false"})
    # A hash ignores a null: (null, 1) and (1, null) would have the same hash.
    return F.struct(column.isNull(), column)


def _check_values(rows: DataFrame, promoted: Promoted, table: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    column, key = parse_map_key(promoted)
    value = F.element_at(F.col(f"`{column}`"), F.lit(key))
    wrong = rows.where(~F.col(f"`{promoted.name}`").eqNullSafe(value)).count()
    if wrong:
        raise RowsChanged(
            f"{wrong} rows of {table} have a value in {promoted.name} that differs from {promoted.source}"
        )
