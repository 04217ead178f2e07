"""The types of Iceberg as DuckDB writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from neve.errors import LakeError

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

SIMPLE: dict[type[IcebergType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "INTEGER",
    LongType: "BIGINT",
    FloatType: "FLOAT",
    DoubleType: "DOUBLE",
    StringType: "VARCHAR",
    BinaryType: "BLOB",
    FixedType: "BLOB",
    UUIDType: "UUID",
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP",
    TimestamptzType: "TIMESTAMP WITH TIME ZONE",
    TimestampNanoType: "TIMESTAMP_NS",
}


def duckdb_type(kind: IcebergType) -> str:
    """The name of a type in DuckDB.

    >>> duckdb_type(MapType(1, StringType(), 2, DecimalType(9, 2)))
    'MAP(VARCHAR, DECIMAL(9, 2))'
    """
    match kind:
        case DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case ListType():
            return f"{duckdb_type(kind.element_type)}[]"
        case MapType():
            return f"MAP({duckdb_type(kind.key_type)}, {duckdb_type(kind.value_type)})"
        case StructType() if kind.fields:
            members = (f"{quoted(member.name)} {duckdb_type(member.field_type)}" for member in kind.fields)
            return f"STRUCT({', '.join(members)})"
        case _ if type(kind) in SIMPLE:
            return SIMPLE[type(kind)]
    raise LakeError(f"DuckDB has no type for {kind}")


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'
