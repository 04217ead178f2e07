"""Proof that a branch has main's rows: their number, and a hash of all of them that does not depend on their order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.autopilot.stage.result import RowProof
from neve.autopilot.stage.shape import key_of
from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column, DataFrame

    from neve.autopilot.layout import Promoted
    from neve.lake.lake import Lake

DIGITS = "decimal(38, 0)"


class RowsChanged(LakeError):
    """Raised when a branch does not have the rows that it should; it is never published."""


def rows_at(lake: Lake, table: str, version: int | str) -> DataFrame:
    """A table's rows at a snapshot, or at the head of a branch or tag."""
    return lake.spark.read.option("versionAsOf", str(version)).table(lake.spark_name(table))


def proven(lake: Lake, table: str, main: int, head: int, promoted: Collection[Promoted] = ()) -> RowProof:
    """That two snapshots have the same rows in the first one's columns, and promoted columns the values of their keys.

    Raises `RowsChanged` where they don't.
    """
    before, after = rows_at(lake, table, main), rows_at(lake, table, head)
    new = {one.name for one in promoted}  # main may have these already, without their values
    columns = [name for name in before.columns if name not in new]
    expected, _asked = fingerprint(before, columns)
    found, _asked = fingerprint(after, columns)
    if expected != found or _types(before, columns) != _types(after, columns):
        raise RowsChanged(
            f"{table} has {expected.rows} rows at {main} (hash {expected.hash:x}), but {found.rows} at {head} "
            f"(hash {found.hash:x}), expected the same",
            hint="main is untouched; roll the branch back: this is a bug in Neve",
        )
    for one in promoted:
        _check_values(after, one, table)
    return found


def fingerprint(rows: DataFrame, columns: Sequence[str]) -> tuple[RowProof, DataFrame]:
    """Rows counted and hashed, and what was asked for that."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    hashed = F.xxhash64(*(hashable(rows, name) for name in columns)) if columns else F.lit(0)
    asked = rows.agg(F.count(F.lit(1)).alias("rows"), F.sum(hashed.cast(DIGITS)).alias("hash"))
    [found] = asked.collect()
    return RowProof(int(found["rows"]), int(found["hash"] or 0)), asked


def types_of(rows: DataFrame) -> tuple[str, ...]:
    """The types of the columns, in order."""
    return tuple(field.dataType.simpleString() for field in rows.schema.fields)


def _types(rows: DataFrame, columns: Sequence[str]) -> dict[str, str]:
    return {name: rows.schema[name].dataType.simpleString() for name in columns}


def hashable(rows: DataFrame, name: str) -> Column:
    """A column as Spark hashes it: it takes no maps, so what may hold one is hashed as JSON. Nulls are told apart."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports
    from pyspark.sql.types import ArrayType, MapType, StructType, VariantType  # noqa: PLC0415

    column = F.col("`" + name.replace("`", "``") + "`")
    if isinstance(rows.schema[name].dataType, ArrayType | MapType | StructType | VariantType):
        column = F.to_json(F.struct(column), {"ignoreNullFields": "false"})
    # A hash leaves a null as it found it: (null, 1) and (1, null) would be the same.
    return F.struct(column.isNull(), column)


def _check_values(rows: DataFrame, promoted: Promoted, table: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a JVM's worth of imports

    column, key = key_of(promoted)
    value = F.element_at(F.col(f"`{column}`"), F.lit(key))
    wrong = rows.where(~F.col(f"`{promoted.name}`").eqNullSafe(value)).count()
    if wrong:
        raise RowsChanged(
            f"{wrong} rows of {table} have in {promoted.name} another value than {promoted.source}, expected none"
        )
