"""The SQL with which DuckDB reads exactly the planned files of a table, and only the columns that the statement names.

Columns are matched by their Iceberg ids, so that renamed columns are correct and columns that a file lacks are null. A
column counts as named if its name is anywhere in the statement. If a statement selects columns without naming them, all
columns are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from neve.lake.duckdb import find_link_path, quote_literal
from neve.lake.duckdb_sql import exclude_deleted_sql, format_file_list, quote_name, select_by_id, select_nothing
from neve.predicate.names import fold
from neve.query.planning.file_planner import TIME, time_bounds
from neve.query.planning.tenancy import TENANT, check_tenant

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

    from neve.query.planning.file_planner import FilePlan, PlannedFile, Ranges
    from neve.query.request import TimeRange


# Only names are compared: a column counts if its name is anywhere in the statement, with any meaning. If columns are
# selected without being named, all of them count.

# `*`, COLUMNS(…) and pivots select columns that they do not name.
UNNAMED = (exp.Columns, exp.Pivot, exp.UnpivotColumns)


def named_columns(tree: exp.Expr, known: Collection[str]) -> frozenset[str] | None:
    """Return the names in a statement, in lower case, or `None` if it may select columns that it does not name.

    `known` are the columns of all tables that it reads, in lower case. A name that is neither one of them nor defined
    by the statement is most likely a mistake: then all columns count, so that DuckDB can suggest the right one.
    """
    nodes = list(tree.walk())
    tables = {fold(node.alias_or_name) for node in nodes if isinstance(node, exp.Table)}
    explained = {*known, *_given_names(nodes)}
    for node in nodes:
        if isinstance(node, exp.Column):
            name = fold(node.name)
            if name in tables or name not in explained:  # a table's name alone is a whole row of it
                return None
        if _selects_unnamed_columns(node):
            return None
    return frozenset(fold(node.name) for node in nodes if isinstance(node, exp.Identifier))


def _given_names(nodes: list[exp.Expr]) -> Iterator[str]:
    """Yield the names that a statement gives to computed values."""
    for node in nodes:
        if isinstance(node, exp.Alias):
            yield fold(node.alias)
        elif isinstance(node, exp.TableAlias):
            yield from (fold(column.name) for column in node.columns)
        elif isinstance(node, exp.Lambda):
            yield from (fold(argument.name) for argument in node.expressions)


def _selects_unnamed_columns(node: exp.Expr) -> bool:
    """Return whether a node refers to columns, or to their order, without names."""
    if isinstance(node, exp.Star):
        return not (isinstance(node.parent, exp.Count) and not any(node.args.values()))
    if isinstance(node, exp.Join):
        return str(node.args.get("method") or "").upper() == "NATURAL"
    return isinstance(node, UNNAMED) or (isinstance(node, exp.Table) and _renames(node))


def _renames(table: exp.Table) -> bool:
    alias = table.args.get("alias")
    return isinstance(alias, exp.TableAlias) and bool(alias.columns)


BRANCHES = 64  # parts of one statement that are read separately; more make planning slower than reading


def duckdb_source(
    table: Table,
    plan: FilePlan,
    organization: str,
    time: TimeRange,
    columns: Collection[str] | None = None,
    *,
    root: str = "",
) -> str:
    """Return a subquery in parentheses: the organization's rows of the planned files, with the columns in table order.

    `columns` are in lower case. Those that the table lacks are ignored, and `None` selects all. The organization and
    the time of each row are checked only where the plan does not prove that all rows of a file match. Local files are
    read through links below `root`.
    """
    schema = table.schema()
    check_tenant(schema, plan.table)
    wanted = [column for column in schema.fields if columns is None or fold(column.name) in columns]
    read = _FileRead(schema, wanted or [schema.fields[0]], organization, time, root)
    is_same_time = plan.time == time
    groups: dict[tuple[bool, bool], list[PlannedFile]] = {}
    for file in plan.files:
        groups.setdefault((file.owner == organization, is_same_time and file.is_inside), []).append(file)
    parts = [
        read.part(some, owned=owned, inside=inside)
        for (owned, inside), files in groups.items()
        for some in _group_files(files)
    ]
    return f"({' UNION ALL '.join(parts) or read.nothing()})"


def _group_files(files: Iterable[PlannedFile]) -> list[list[PlannedFile]]:
    """Group files that one read can handle: files with deletes apart, and each set of row ranges apart while few."""
    groups: dict[tuple[bool, Ranges], list[PlannedFile]] = {}
    for file in files:
        groups.setdefault((bool(file.deletes), _partial_ranges(file)), []).append(file)
    if len(groups) <= BRANCHES:
        return list(groups.values())
    merged: dict[tuple[bool, bool], list[PlannedFile]] = {}
    for (has_deletes, ranges), some in groups.items():
        merged.setdefault((has_deletes, bool(ranges)), []).extend(some)
    return list(merged.values())


@dataclass(frozen=True)
class _FileRead:
    """The columns and rows to read from each of a table's files."""

    schema: Schema
    wanted: Sequence[NestedField]
    organization: str
    time: TimeRange
    root: str

    def part(self, files: Sequence[PlannedFile], *, owned: bool, inside: bool) -> str:
        """Select rows of some files.

        All rows of owned files are the organization's, all rows of inside files are in the range.
        """
        conditions = [*self._tenant(owned), *self._times(inside), *self._rows(files)]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        deletes = sorted({path for file in files for path in file.deletes})
        paths = format_file_list((file.path for file in files), self.root)
        source = f"read_parquet({paths}, {self._options(owned, inside)})"
        left = exclude_deleted_sql(deletes, self.root) if deletes else ""
        return f"SELECT {self._names(owned)} FROM {source} AS data{left}{where}"  # noqa: S608 - quoted

    def nothing(self) -> str:
        """Select no rows."""
        return select_nothing(self.wanted)

    def _tenant(self, owned: bool) -> list[str]:
        return [] if owned else [f"{quote_name(TENANT)} = {quote_literal(self.organization)}"]

    def _times(self, inside: bool) -> list[str]:
        bounds = [] if inside else time_bounds(self.schema, self.time)
        return [f"{quote_name(TIME)} {operator} make_timestamptz({moment})" for operator, moment in bounds]

    def _names(self, owned: bool) -> str:
        return ", ".join(
            f"{quote_literal(self.organization)}::VARCHAR AS {quote_name(TENANT)}"
            if owned and column.name == TENANT
            else quote_name(column.name)
            for column in self.wanted
        )

    def _rows(self, files: Sequence[PlannedFile]) -> list[str]:
        """Return conditions on the rows of files that are read in part."""
        if not _partial_ranges(files[0]):
            return []
        if len({file.ranges for file in files}) == 1:
            return [_ranges_condition(files[0].ranges)]
        parts = (
            f"(data.filename = {quote_literal(find_link_path(self.root, file.path))} "
            f"AND {_ranges_condition(file.ranges)})"
            for file in files
        )
        return [f"({' OR '.join(parts)})"]

    def _options(self, owned: bool, inside: bool) -> str:
        """Return the options with each column to read, by its id: each column costs time for each file."""
        asked = {column.name for column in self.wanted if not (owned and column.name == TENANT)}
        asked |= {TENANT} if self._tenant(owned) else set()
        asked |= {TIME} if self._times(inside) else set()
        fields = [column for column in self.schema.fields if column.name in asked] or [self.schema.fields[0]]
        return f"{select_by_id(fields)}, hive_partitioning = false"


def _partial_ranges(file: PlannedFile) -> Ranges:
    """Return the row ranges to read of a file, or none if all rows are read."""
    return file.ranges if sum(end - first for first, end in file.ranges) < file.rows else ()


def _ranges_condition(ranges: Ranges) -> str:
    parts = (f"(data.file_row_number >= {first} AND data.file_row_number < {end})" for first, end in ranges)
    return f"({' OR '.join(parts)})"
