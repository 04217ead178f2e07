"""SQL fragments for DuckDB: lists of Parquet files, filters by position deletes, types and quoted names."""

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
from neve.lake.duckdb import find_link_path, quote_literal
from neve.lake.time_ranges import EVERYTHING, Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.types import IcebergType, NestedField


def format_file_list(paths: Iterable[str], root: str = "") -> str:
    """Format paths for `read_parquet`. Local ones are mapped into the folder of links, if there is one.

    >>> format_file_list(["file:///lake/a.parquet"])
    "['/lake/a.parquet']"
    """
    return f"[{', '.join(quote_literal(find_link_path(root, path)) for path in paths)}]"


def exclude_deleted_sql(deletes: Iterable[str], root: str = "") -> str:
    """Return the SQL after `read_parquet(…) AS data` that excludes the rows in position-delete files.

    Paths in delete files have the form of Iceberg's writers.
    """
    plain = r"regexp_replace(regexp_replace(file_path, '^file:/+', '/'), '^s3[an]:', 's3:')"
    found = (
        f"CASE WHEN {plain} LIKE '/%' THEN {quote_literal(root + '/')} || md5({plain}) || '.parquet' ELSE {plain} END"
    )
    file_path = found if root else plain
    deleted = f"SELECT {file_path} AS file_path, pos FROM read_parquet({format_file_list(deletes, root)})"  # noqa: S608 - quoted
    return (
        f" ANTI JOIN ({deleted}) AS deleted ON data.filename = deleted.file_path AND data.file_row_number = deleted.pos"
    )


def select_by_id(fields: Iterable[NestedField]) -> str:
    """Return the option of `read_parquet` that selects columns by id: renamed ones are correct, missing ones null."""
    columns = (
        f"{field.field_id}: {{name: {quote_literal(field.name)}, "
        f"type: {quote_literal(to_duckdb_type(field.field_type))}, default_value: NULL}}"
        for field in fields
    )
    return f"schema = MAP {{{', '.join(columns)}}}"


def select_nothing(fields: Iterable[NestedField]) -> str:
    """Return the statement of no rows with some columns."""
    columns = (f"NULL::{to_duckdb_type(field.field_type)} AS {quote_name(field.name)}" for field in fields)
    return f"SELECT {', '.join(columns)} WHERE false"


def scan_tasks_sql(schema: Schema, tasks: Sequence[FileScanTask], names: Sequence[str]) -> str:
    """Return a subquery in parentheses: rows of some files without deleted ones, with the path in `filename`."""
    fields = [schema.find_field(name) for name in names]
    if not tasks:
        return f"(SELECT *, NULL::VARCHAR AS filename FROM ({select_nothing(fields)}))"  # noqa: S608 - quoted
    paths = format_file_list(task.file.file_path for task in tasks)
    deletes = sorted({file.file_path for task in tasks for file in task.delete_files})
    source = f"read_parquet({paths}, {select_by_id(fields)}, hive_partitioning = false) AS data"
    listed = ", ".join(quote_name(name) for name in names)
    return f"(SELECT {listed}, filename FROM {source}{exclude_deleted_sql(deletes) if deletes else ''})"  # noqa: S608 - quoted


def match_times(ranges: Ranges, time: str, scale: int = 1) -> str:
    """Return the condition that a time is in one of some ranges. It has `scale` units in a microsecond.

    >>> match_times(Ranges.of([(1, 2)]), "time_ns", 1000)
    '(time_ns >= 1000 AND time_ns < 2000)'
    """
    if ranges == EVERYTHING:
        return "true"
    return " OR ".join(f"({time} >= {start * scale} AND {time} < {end * scale})" for start, end in ranges)


SIMPLE_TYPES: dict[type[IcebergType], str] = {
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


def to_duckdb_type(kind: IcebergType) -> str:
    """Return the name of a type in DuckDB.

    >>> to_duckdb_type(MapType(1, StringType(), 2, DecimalType(9, 2)))
    'MAP(VARCHAR, DECIMAL(9, 2))'
    """
    match kind:
        case DecimalType():
            return f"DECIMAL({kind.precision}, {kind.scale})"
        case ListType():
            return f"{to_duckdb_type(kind.element_type)}[]"
        case MapType():
            return f"MAP({to_duckdb_type(kind.key_type)}, {to_duckdb_type(kind.value_type)})"
        case StructType() if kind.fields:
            members = (f"{quote_name(member.name)} {to_duckdb_type(member.field_type)}" for member in kind.fields)
            return f"STRUCT({', '.join(members)})"
        case _ if type(kind) in SIMPLE_TYPES:
            return SIMPLE_TYPES[type(kind)]
    raise LakeError(f"DuckDB has no type for {kind}")


def quote_name(name: str) -> str:
    """Quote a name for SQL. It may contain any character."""
    return '"' + name.replace('"', '""') + '"'
