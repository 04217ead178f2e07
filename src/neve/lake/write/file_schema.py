"""Arrow schemas of data files with Iceberg's field ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import ListType, MapType, StructType

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

FIELD_ID = b"PARQUET:field_id"


def build_file_schema(schema: Schema, arrow: pa.Schema) -> pa.Schema:
    """Return the schema of a data file: the table's columns in order, in the Arrow types of the batches."""
    return pa.schema([_field_with_id(field, _find_arrow_type(field, arrow)) for field in schema.fields])


def conform_to_schema(batch: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with exactly these columns. A column that only the Iceberg table has becomes null."""
    columns = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _find_arrow_type(field: NestedField, arrow: pa.Schema) -> pa.DataType:
    if field.name in arrow.names:
        return arrow.field(field.name).type
    return schema_to_pyarrow(field.field_type, include_field_ids=False)


def _field_with_id(field: NestedField, kind: pa.DataType, name: str | None = None) -> pa.Field:
    typed = _type_with_ids(field.field_type, kind)
    return pa.field(
        name or field.name, typed, nullable=field.optional, metadata={FIELD_ID: str(field.field_id).encode()}
    )


def _type_with_ids(iceberg: IcebergType, kind: pa.DataType) -> pa.DataType:
    match iceberg:
        case StructType():
            return pa.struct([_field_with_id(field, _find_child_type(kind, field)) for field in iceberg.fields])
        case ListType():
            return pa.list_(_field_with_id(iceberg.element_field, kind.value_type, "element"))
        case MapType():
            return pa.map_(
                _field_with_id(iceberg.key_field, kind.key_type, "key"),
                _field_with_id(iceberg.value_field, kind.item_type, "value"),
            )
    return kind


def _find_child_type(kind: pa.StructType, field: NestedField) -> pa.DataType:
    index = kind.get_field_index(field.name)
    return kind.field(index).type if index >= 0 else schema_to_pyarrow(field.field_type, include_field_ids=False)
