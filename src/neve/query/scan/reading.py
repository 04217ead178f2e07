"""The SQL with which DuckDB reads exactly the planned files of a table.

Columns are found by their Iceberg ids, so that renamed ones are right and ones that a file lacks are null.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.duck_files import file_list, path_below, without_deleted
from neve.lake.duckdb_types import duckdb_type, quoted
from neve.query.scan.owners import TENANT, check_tenant
from neve.query.scan.times import TIME, bounds_of
from neve.query.sql.identifiers import fold

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from neve.query.request import TimeRange
    from neve.query.scan.files import FilePlan, PlannedFile, Ranges

BRANCHES = 64  # parts of one statement that are read apart; more make planning slower than reading


def duckdb_source(
    table: Table,
    plan: FilePlan,
    organization: str,
    time: TimeRange,
    columns: Collection[str] | None = None,
    *,
    root: str = "",
) -> str:
    """A subquery in parentheses: the organization's rows of the planned files, in the order of the table's columns.

    Of `columns`, which are in lower case, those are there that the table has; without any, all. Rows are only looked at
    for their organization and their time where the plan does not know that all of a file's are right. Local files are
    read below `root`, where links to them are.
    """
    schema = table.schema()
    check_tenant(schema, plan.table)
    wanted = [column for column in schema.fields if columns is None or fold(column.name) in columns]
    read = _Read(schema, wanted or [schema.fields[0]], organization, time, root)
    is_same_time = plan.time == time
    groups: dict[tuple[bool, bool], list[PlannedFile]] = {}
    for file in plan.files:
        groups.setdefault((file.owner == organization, is_same_time and file.is_inside), []).append(file)
    parts = [
        read.part(some, owned=owned, inside=inside)
        for (owned, inside), files in groups.items()
        for some in _alike(files)
    ]
    return f"({' UNION ALL '.join(parts) or read.nothing()})"


def _alike(files: Iterable[PlannedFile]) -> list[list[PlannedFile]]:
    """Files that one read can take: those with deletes apart, and each group of rows apart while they are few."""
    groups: dict[tuple[bool, Ranges], list[PlannedFile]] = {}
    for file in files:
        groups.setdefault((bool(file.deletes), _part_of(file)), []).append(file)
    if len(groups) <= BRANCHES:
        return list(groups.values())
    merged: dict[tuple[bool, bool], list[PlannedFile]] = {}
    for (has_deletes, ranges), some in groups.items():
        merged.setdefault((has_deletes, bool(ranges)), []).extend(some)
    return list(merged.values())


@dataclass(frozen=True)
class _Read:
    """What is read of each of a table's files."""

    schema: Schema
    wanted: Sequence[NestedField]
    organization: str
    time: TimeRange
    root: str

    def part(self, files: Sequence[PlannedFile], *, owned: bool, inside: bool) -> str:
        """Rows of some files; those of owned ones are all the organization's, those of inside ones all of the time."""
        conditions = [*self._tenant(owned), *self._times(inside), *self._rows(files)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        deletes = sorted({path for file in files for path in file.deletes})
        source = f"read_parquet({file_list((file.path for file in files), self.root)}, {self._options(owned, inside)})"
        left = without_deleted(deletes, self.root) if deletes else ""
        return f"SELECT {self._names(owned)} FROM {source} AS data{left}{where}"  # noqa: S608 - quoted

    def nothing(self) -> str:
        """No rows."""
        columns = (f"NULL::{duckdb_type(column.field_type)} AS {quoted(column.name)}" for column in self.wanted)
        return f"SELECT {', '.join(columns)} WHERE false"

    def _tenant(self, owned: bool) -> list[str]:
        return [] if owned else [f"{quoted(TENANT)} = {literal(self.organization)}"]

    def _times(self, inside: bool) -> list[str]:
        bounds = [] if inside else bounds_of(self.schema, self.time)
        return [f"{quoted(TIME)} {operator} make_timestamptz({moment})" for operator, moment in bounds]

    def _names(self, owned: bool) -> str:
        return ", ".join(
            f"{literal(self.organization)}::VARCHAR AS {quoted(TENANT)}"
            if owned and column.name == TENANT
            else quoted(column.name)
            for column in self.wanted
        )

    def _rows(self, files: Sequence[PlannedFile]) -> list[str]:
        """Conditions on the rows of files that are read in part."""
        if not _part_of(files[0]):
            return []
        if len({file.ranges for file in files}) == 1:
            return [_in_ranges(files[0].ranges)]
        parts = (
            f"(data.filename = {literal(path_below(self.root, file.path))} AND {_in_ranges(file.ranges)})"
            for file in files
        )
        return [f"({' OR '.join(parts)})"]

    def _options(self, owned: bool, inside: bool) -> str:
        """Every column that is read, by its id: each costs time for each file."""
        asked = {column.name for column in self.wanted if not (owned and column.name == TENANT)}
        asked |= {TENANT} if self._tenant(owned) else set()
        asked |= {TIME} if self._times(inside) else set()
        fields = [column for column in self.schema.fields if column.name in asked] or [self.schema.fields[0]]
        columns = (
            f"{column.field_id}: {{name: {literal(column.name)}, type: {literal(duckdb_type(column.field_type))}, "
            "default_value: NULL}"
            for column in fields
        )
        return f"schema = MAP {{{', '.join(columns)}}}, hive_partitioning = false"


def _part_of(file: PlannedFile) -> Ranges:
    """The rows of a file that are read where those are not all."""
    return file.ranges if sum(end - first for first, end in file.ranges) < file.rows else ()


def _in_ranges(ranges: Ranges) -> str:
    parts = (f"(data.file_row_number >= {first} AND data.file_row_number < {end})" for first, end in ranges)
    return f"({' OR '.join(parts)})"
