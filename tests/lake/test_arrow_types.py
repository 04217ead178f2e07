"""Arrow types and Iceberg types are converted as pyiceberg converts them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids, schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import DecimalType, NestedField, UUIDType

from neve.lake.arrow_types import COMMENT_KEY, ICEBERG_TYPES, to_arrow_schema, to_iceberg_schema
from neve.model.tables import TABLES

names = st.sampled_from(("a", "b", "été", "x.y", "element", ""))
comments = st.sampled_from((None, {COMMENT_KEY: b"a comment"}, {b"other": b"1"}))


def fields(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.Field]:
    """Fields of some types."""
    return st.builds(
        pa.field,
        names,
        kinds,
        st.booleans(),
        comments,
    )


def nest(kinds: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    """Lists, maps and structs of some types."""
    return st.one_of(
        fields(kinds).map(pa.list_),
        fields(kinds).map(pa.large_list),
        st.builds(lambda key, value: pa.map_(key, value.with_name("value")), kinds, fields(kinds)),
        st.lists(fields(kinds), min_size=1, max_size=3, unique_by=lambda field: field.name).map(pa.struct),
    )


types = st.recursive(st.sampled_from(list(ICEBERG_TYPES)), nest, max_leaves=6)
schemas = st.lists(fields(types), min_size=1, max_size=4, unique_by=lambda field: field.name).map(pa.schema)


@given(schemas)
def test_schemas_are_converted_as_by_pyiceberg(schema: pa.Schema) -> None:
    """In both directions, with comments and without ids of columns in Arrow."""
    expected = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(schema))
    assert to_iceberg_schema(schema).model_dump_json() == expected.model_dump_json()
    assert to_arrow_schema(expected).equals(schema_to_pyarrow(expected, include_field_ids=False), check_metadata=True)


def test_declared_tables_are_converted_as_by_pyiceberg() -> None:
    """Each of them, so that the ids of columns are those of earlier releases."""
    for table in TABLES:
        expected = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(table.schema))
        assert to_iceberg_schema(table.schema).model_dump_json() == expected.model_dump_json(), table.name
        arrow = schema_to_pyarrow(expected, include_field_ids=False)
        assert to_arrow_schema(expected).equals(arrow, check_metadata=True), table.name


def test_types_of_other_tables_are_left_to_pyiceberg() -> None:
    """As decimals and UUIDs, which no table of the lake has."""
    schema = Schema(NestedField(1, "price", DecimalType(9, 2)), NestedField(2, "id", UUIDType(), required=True))
    assert to_arrow_schema(schema).equals(schema_to_pyarrow(schema, include_field_ids=False), check_metadata=True)


def test_a_type_that_no_table_may_have_is_named() -> None:
    """Nanoseconds do not exist in format version 2."""
    with pytest.raises(TypeError, match=r"the Arrow type is timestamp\[ns\]"):
        to_iceberg_schema(pa.schema([("at", pa.timestamp("ns"))]))
