"""Arrow types as Iceberg types, and back, without pyiceberg's Arrow module, which takes 0.3 CPU seconds to import.

Both directions give what pyiceberg gives. Types that no table of Neve has are left to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

COMMENT_KEY = b"doc"  # of a field's metadata, as pyiceberg names it
NO_ID = -1  # until all ids are assigned
ARROW_TYPES: dict[IcebergType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", tz="UTC"),
    StringType(): pa.large_string(),
    BinaryType(): pa.large_binary(),
}
ICEBERG_TYPES: dict[pa.DataType, IcebergType] = {
    **{kind: iceberg for iceberg, kind in ARROW_TYPES.items()},
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}


def to_iceberg_schema(schema: pa.Schema) -> Schema:
    """Return columns as an Iceberg schema, with ids from 1. Raises `TypeError` for a type that no table may have."""
    return assign_fresh_schema_ids(Schema(*map(_to_iceberg_field, schema)))


def _to_iceberg_field(field: pa.Field) -> NestedField:
    comment = (field.metadata or {}).get(COMMENT_KEY)
    return NestedField(
        NO_ID,
        field.name,
        _to_iceberg_type(field.type),
        required=not field.nullable,
        doc=comment.decode() if comment else None,
    )


def _to_iceberg_type(kind: pa.DataType) -> IcebergType:
    if pa.types.is_struct(kind):
        return StructType(*map(_to_iceberg_field, kind))
    if pa.types.is_map(kind):
        key, value = _to_iceberg_type(kind.key_type), _to_iceberg_type(kind.item_type)
        return MapType(NO_ID, key, NO_ID, value, value_required=not kind.item_field.nullable)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return ListType(NO_ID, _to_iceberg_type(kind.value_type), element_required=not kind.value_field.nullable)
    found = ICEBERG_TYPES.get(kind)
    if found is None:
        raise TypeError(f"the Arrow type is {kind}, expected a type of the tables of the lake")
    return found


def to_arrow_schema(schema: Schema) -> pa.Schema:
    """Return the columns of a table, with their comments and without their ids."""
    try:
        return pa.schema([_to_arrow_field(field) for field in schema.fields])
    except KeyError:  # a type of tables of others, such as a decimal
        from pyiceberg.io.pyarrow import schema_to_pyarrow  # noqa: PLC0415 - see above

        return schema_to_pyarrow(schema, include_field_ids=False)


def _to_arrow_field(field: NestedField) -> pa.Field:
    comment = {COMMENT_KEY: field.doc.encode()} if field.doc else None
    return pa.field(field.name, _to_arrow_type(field.field_type), nullable=field.optional, metadata=comment)


def _to_arrow_type(kind: IcebergType) -> pa.DataType:
    match kind:
        case StructType():
            return pa.struct([_to_arrow_field(field) for field in kind.fields])
        case ListType():
            return pa.large_list(_to_arrow_field(kind.element_field))
        case MapType():
            return pa.map_(_to_arrow_field(kind.key_field), _to_arrow_field(kind.value_field))
    return ARROW_TYPES[kind]
