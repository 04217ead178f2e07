"""The SQL with which DuckDB reads exactly the planned files of a table.

Columns are found by their Iceberg ids, so that renamed ones are right and ones that a file lacks are null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.manifest_sources import readable
from neve.query.scan.duckdb_types import duckdb_type, quoted
from neve.query.scan.files import TENANT
from neve.query.scan.times import TIME, bounds_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from neve.query.request import TimeRange
    from neve.query.scan.files import FilePlan, PlannedFile, Ranges

BRANCHES = 64  # parts of one statement that are read apart; more make planning slower than reading


def duckdb_source(table: Table, plan: FilePlan, organization: str, time: TimeRange) -> str:
    """A subquery in parentheses: the organization's rows of the planned files, in the order of the table's columns.

    Rows of files that the plan knows to be within the range of time are not looked at for that once more.
    """
    schema = table.schema()
    tenant = [f"{quoted(TENANT)} = {literal(organization)}"] if TENANT in schema.column_names else []
    times = [f"{quoted(TIME)} {operator} make_timestamptz({moment})" for operator, moment in bounds_of(schema, time)]
    parts = []
    for inside, files in _halves(plan, time):
        bounds = tenant if inside else tenant + times
        parts += [_part(schema, some, bounds) for some in _alike(files)]
    return f"({' UNION ALL '.join(parts) or _nothing(schema)})"


def _halves(plan: FilePlan, time: TimeRange) -> list[tuple[bool, list[PlannedFile]]]:
    """Files with nothing but rows of the range of time, and the others."""
    is_same = plan.time == time
    return [(half, [file for file in plan.files if (is_same and file.is_inside) == half]) for half in (True, False)]


def _alike(files: Iterable[PlannedFile]) -> list[list[PlannedFile]]:
    """Files that one read can take: those with deletes apart, and each group of rows apart while they are few."""
    groups: dict[tuple[bool, Ranges], list[PlannedFile]] = {}
    for file in files:
        groups.setdefault((bool(file.deletes), file.ranges), []).append(file)
    if len(groups) <= BRANCHES:
        return list(groups.values())
    merged: dict[tuple[bool, bool], list[PlannedFile]] = {}
    for (has_deletes, ranges), some in groups.items():
        merged.setdefault((has_deletes, bool(ranges)), []).extend(some)
    return list(merged.values())


def _part(schema: Schema, files: Sequence[PlannedFile], bounds: list[str]) -> str:
    paths = sorted({path for file in files for path in file.deletes})
    conditions = [*bounds, *_rows(files)]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    read = f"read_parquet({_list(file.path for file in files)}, schema = {_columns(schema)}, hive_partitioning = false)"
    return f"SELECT {_names(schema)} FROM {read} AS data{_without(paths) if paths else ''}{where}"  # noqa: S608 - quoted


def _without(paths: Sequence[str]) -> str:
    """Leave out the rows that position-delete files name; paths in them are written as Iceberg's writers do."""
    plain = r"regexp_replace(regexp_replace(file_path, '^file:/+', '/'), '^s3[an]:', 's3:')"
    deleted = f"SELECT {plain} AS file_path, pos FROM read_parquet({_list(paths)})"  # noqa: S608 - quoted
    return (
        f" ANTI JOIN ({deleted}) AS deleted ON data.filename = deleted.file_path AND data.file_row_number = deleted.pos"
    )


def _rows(files: Sequence[PlannedFile]) -> list[str]:
    """Conditions on the rows of files that are read in part."""
    if not files[0].ranges:
        return []
    if len({file.ranges for file in files}) == 1:
        return [_in_ranges(files[0].ranges)]
    parts = (f"(data.filename = {literal(readable(file.path))} AND {_in_ranges(file.ranges)})" for file in files)
    return [f"({' OR '.join(parts)})"]


def _in_ranges(ranges: Ranges) -> str:
    parts = (f"(data.file_row_number >= {first} AND data.file_row_number < {end})" for first, end in ranges)
    return f"({' OR '.join(parts)})"


def _names(schema: Schema) -> str:
    return ", ".join(quoted(column.name) for column in schema.fields)


def _columns(schema: Schema) -> str:
    columns = (
        f"{column.field_id}: {{name: {literal(column.name)}, type: {literal(duckdb_type(column.field_type))}, "
        "default_value: NULL}"
        for column in schema.fields
    )
    return f"MAP {{{', '.join(columns)}}}"


def _nothing(schema: Schema) -> str:
    columns = (f"NULL::{duckdb_type(column.field_type)} AS {quoted(column.name)}" for column in schema.fields)
    return f"SELECT {', '.join(columns)} WHERE false"


def _list(paths: Iterable[str]) -> str:
    return f"[{', '.join(literal(readable(path)) for path in paths)}]"
