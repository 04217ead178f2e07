"""Rows of the lake's own table of spans, as DuckDB has them, and made from what policies see of a span."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from neve.lake.duckdb_types import quoted
from neve.model.tables import SPANS

if TYPE_CHECKING:
    from collections.abc import Mapping

SIMPLE = {
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def kind_of(kind: pa.DataType) -> str:
    """The name of an Arrow type in DuckDB.

    >>> kind_of(pa.list_(pa.map_(pa.string(), pa.int64())))
    'MAP(VARCHAR, BIGINT)[]'
    """
    if pa.types.is_map(kind):
        return f"MAP({kind_of(kind.key_type)}, {kind_of(kind.item_type)})"
    if pa.types.is_list(kind):
        return f"{kind_of(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quoted(field.name)} {kind_of(field.type)}' for field in kind)})"
    return SIMPLE[kind]


ROW_KINDS = tuple((column.name, kind_of(column.type)) for column in SPANS.columns)
OWN = {column.name for column in SPANS.columns}

SERVICE = "service.name"
# What a table of others does not tell stays null; the service is an attribute of the resource, where OTLP looks for it.
AS_ROWS: Mapping[str, str] = {
    **{
        name: name
        for name in (
            *("organization_id", "trace_id", "span_id", "parent_span_id", "service_name", "status_message"),
            *("trace_state", "flags", "scope_name", "scope_version", "attributes", "attribute_types"),
        )
    },
    "timestamp": "make_timestamptz(start_ns // 1000)",
    "operation_name": "name",
    "span_kind": "coalesce(kind, 0)",
    "status_code": "coalesce(status_code, 0)",
    "duration_ms": "CASE WHEN end_ns > 0 THEN (end_ns - start_ns) / 1e6 END",
    "start_time_unix_nano": "start_ns",
    "end_time_unix_nano": "end_ns",
    "resource_attrs": (
        f"CASE WHEN service_name IS NULL OR map_contains(coalesce(resource_attributes, MAP {{}}), '{SERVICE}') "
        f"THEN resource_attributes ELSE map_concat(coalesce(resource_attributes, MAP {{}}), "
        f"MAP {{'{SERVICE}': service_name}}) END"
    ),
    "resource_attr_types": "resource_attribute_types",
    "events": "list_transform(events, lambda e: struct_insert(e, dropped_attributes_count := 0::BIGINT))",
}
