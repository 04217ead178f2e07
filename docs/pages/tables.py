"""The page of tables, from their declarations."""

import re
from collections.abc import Iterable

import pyarrow as pa

from docs.pages import NOTICE
from docs.pages.markdown import code, codes, fence, page, table
from neve.model.columns import Column, Table
from neve.model.properties import BASE_PROPERTIES, BLOOM_FILTER_PREFIX, METRICS_PREFIX
from neve.model.signals import NAMESPACE

INTRODUCTION = f"""
All tables are Apache Iceberg tables in the namespace `{NAMESPACE}`. `neve init` creates them and adds the columns that
a newer release brings. Types are given in Spark's words; DuckDB says `VARCHAR` for `STRING`, `BLOB` for `BINARY`,
`INTEGER` for `INT`, `TIMESTAMP WITH TIME ZONE` for `TIMESTAMP`, and `T[]` for `ARRAY<T>`. Times are in UTC.

Ids are bytes. In SQL on DuckDB, compare them with `from_hex`, and print them with `hex`:
"""
EXAMPLE = """
neve query "SELECT operation_name, duration_ms FROM spans WHERE trace_id = from_hex('5b8efff798038103d269b633813fc60c')"
"""
PROPERTIES = """
A new table is created with these properties and with those that its own section names: its comment, `truncate(16)` for
each column with statistics, `true` for each column with a bloom filter. A property that a table already has is left as
it is. Tables have Iceberg format version 2.
"""
SQL_NAMES = {
    pa.string(): "STRING",
    pa.binary(): "BINARY",
    pa.bool_(): "BOOLEAN",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
TRANSFORM = re.compile(r"(?P<name>\w+)(\[(?P<width>\d+)\])?")


def tables_page(tables: Iterable[Table]) -> str:
    """Every table, with its layout and its columns."""
    shared = table(("Property", "Value"), [(code(name), code(value)) for name, value in BASE_PROPERTIES.items()])
    heading = ("# Tables", INTRODUCTION, fence(EXAMPLE, "sh"), "## Properties of every table", PROPERTIES, shared)
    return page(NOTICE, *heading, *map(_section, tables))


def sql_type(kind: pa.DataType) -> str:
    """A type as Spark SQL writes it.

    >>> sql_type(pa.list_(pa.struct([("ids", pa.binary()), ("tags", pa.map_(pa.string(), pa.int32()))])))
    'ARRAY<STRUCT<ids: BINARY, tags: MAP<STRING, INT>>>'
    """
    if pa.types.is_list(kind):
        return f"ARRAY<{sql_type(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"MAP<{sql_type(kind.key_type)}, {sql_type(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"STRUCT<{', '.join(f'{field.name}: {sql_type(field.type)}' for field in kind)}>"
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz else "TIMESTAMP_NTZ"
    return SQL_NAMES[kind]


def _section(declared: Table) -> str:
    return page(
        f"## {code(declared.name)}",
        f"{declared.comment[0].upper()}{declared.comment[1:]}.",
        _layout(declared),
        table(("Column", "Type", "Nullable", "Comment"), map(_column, declared.columns)),
    )


def _layout(declared: Table) -> str:
    facts = {
        "Partition": codes(_transform(*field) for field in declared.partition) or "none",
        "Sort order": f"{codes(declared.sort)}, ascending, nulls first" if declared.sort else "none",
        f"Statistics (`{METRICS_PREFIX}…`)": codes(declared.bounded) or "none",
        f"Bloom filters (`{BLOOM_FILTER_PREFIX}…`)": codes(declared.blooms) or "none",
        "Own properties": codes(f"{name}={value}" for name, value in declared.properties.items()) or "none",
    }
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _transform(column: str, transform: str) -> str:
    """A partition field as SQL writes it.

    >>> _transform("trace_id", "bucket[16]"), _transform("timestamp", "day"), _transform("organization_id", "identity")
    ('bucket(16, trace_id)', 'day(timestamp)', 'organization_id')
    """
    found = TRANSFORM.fullmatch(transform)
    if found is None or found["name"] == "identity":
        return column
    return f"{found['name']}({found['width']}, {column})" if found["width"] else f"{found['name']}({column})"


def _column(column: Column) -> tuple[str, str, str, str]:
    return code(column.name), code(sql_type(column.type)), "no" if column.required else "yes", column.comment
