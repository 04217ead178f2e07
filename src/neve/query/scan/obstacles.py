"""Why DuckDB would not read a table's files as Iceberg means them.

Columns are found by their ids. Members of structs within columns are found by their names, so these must never have
changed their meaning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyiceberg.manifest import FileFormat
from pyiceberg.types import ListType, MapType, StructType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType

    from neve.query.scan.manifests import Entry

NAME_MAPPING = "schema.name-mapping.default"
PLAIN = re.compile(r"^[A-Za-z_]\w*$", re.ASCII)  # other names are written in another way in files
Member = tuple[int, tuple[str, ...], int]


def obstacle(metadata: TableMetadata, files: Iterable[Entry]) -> str:
    """The reason to leave these files to Spark; empty where there is none."""
    schema = metadata.schema()
    if any(column.initial_default is not None for column in schema.fields):
        return "a column has a default for files that lack it, which only Spark fills in"
    if NAME_MAPPING in metadata.properties:
        return f"files may have columns without ids ({NAME_MAPPING}), which only Spark finds"
    others = {str(entry.file_format.value) for entry in files} - {FileFormat.PARQUET.value}
    if others:
        return f"files are {', '.join(sorted(others)).lower()}, which only Spark reads"
    return _renamed(schema, metadata.schemas)


def _renamed(schema: Schema, history: Iterable[Schema]) -> str:
    """Members of structs must have had one name and one id for as long as the table is there."""
    now = set(_members(schema))
    names = {(column, path): number for column, path, number in now}
    numbers = {(column, number): path for column, path, number in now}
    for column, path, number in {member for older in history for member in _members(older)} | now:
        is_same = names.get((column, path), number) == number and numbers.get((column, number), path) == path
        if not is_same or not all(map(PLAIN.match, path)):
            return f"{'.'.join((schema.find_column_name(column) or '', *path))} was renamed, which only Spark follows"
    return ""


def _members(schema: Schema) -> Iterator[Member]:
    """All members of structs: the id of the column, the names from there on, and the id of the member."""
    for column in schema.fields:
        for path, number in _within(column.field_type, ()):
            yield column.field_id, path, number


def _within(kind: IcebergType, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], int]]:
    match kind:
        case StructType():
            for member in kind.fields:
                yield (*path, member.name), member.field_id
                yield from _within(member.field_type, (*path, member.name))
        case ListType():
            yield from _within(kind.element_type, (*path, "element"))
        case MapType():
            yield from _within(kind.key_type, (*path, "key"))
            yield from _within(kind.value_type, (*path, "value"))
