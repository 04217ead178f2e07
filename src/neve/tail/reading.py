"""The SQL with which DuckDB reads some files of a table as spans that policies know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neve.lake.duck import literal
from neve.lake.duck_files import file_list, without_deleted
from neve.lake.duckdb_types import duckdb_type
from neve.lake.manifest_sources import readable
from neve.tail.rows import AS_ROWS, OWN, ROW_KINDS
from neve.tail.spans import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.schema import Schema

    from neve.tail.news import SpanFile
    from neve.tail.spans import SpanColumns

NO_TRACE = "trace_id IS NOT NULL AND octet_length(trace_id) > 0"


@dataclass(frozen=True)
class SpanReader:
    """How one table is read. It pickles."""

    schema: Schema
    columns: SpanColumns
    organization: str = ""  # only this one, where the table has several

    def spans(self, files: Sequence[SpanFile], wanted: Iterable[str]) -> str:
        """A subquery in parentheses: the spans of some files, with the wanted columns alone."""
        names = tuple(wanted)
        arrived = "arrived_us" in names and "arrived_us" not in self.columns.expressions
        listed = self.columns.select(name for name in names if not (arrived and name == "arrived_us"))
        commit = ", arrived_us" if arrived else ""
        select = f"SELECT {listed}{commit} FROM {self.rows(files, self.columns.read(names), arrived=arrived)}"
        return f"(SELECT * FROM ({select}) WHERE {self._mine(names)})"

    def spans_of(self, relation: str, wanted: Iterable[str]) -> str:
        """A subquery in parentheses: the spans of rows that DuckDB has under a name, with the wanted columns alone."""
        names = tuple(wanted)
        return f"(SELECT * FROM (SELECT {self.columns.select(names)} FROM {relation}) WHERE {self._mine(names)})"

    def table_rows(self, files: Sequence[SpanFile]) -> str:
        """A subquery in parentheses: the spans of some files as rows of the lake's own table of spans."""
        named = {field.name for field in self.schema.fields}
        if named >= OWN:
            return f"(SELECT {', '.join(sorted(OWN))} FROM {self.rows(files, OWN)} WHERE {self._mine(tuple(OWN))})"
        spans = self.spans(files, tuple(name for name in TYPES if name != "arrived_us"))
        listed = ", ".join(f"{AS_ROWS.get(name, f'NULL::{kind}')} AS {name}" for name, kind in ROW_KINDS)
        return f"(SELECT {listed} FROM {spans})"

    def rows(self, files: Sequence[SpanFile], columns: Iterable[str], *, arrived: bool = False) -> str:
        """The rows of some files as the table has them, without those that were deleted."""
        paths, by_id = file_list(file.path for file in files), all(file.by_id for file in files)
        read = f"read_parquet({paths}{self._columns(columns, by_id=by_id)}, hive_partitioning = false)"
        deletes = sorted({path for file in files for path in file.deletes})
        source = f"{read} AS data{without_deleted(deletes) if deletes else ''}"
        if not arrived:
            return source
        commits = ", ".join(f"({literal(readable(file.path))}, {file.committed_us})" for file in files)
        return f"{source} JOIN (VALUES {commits}) AS commits(path, arrived_us) ON data.filename = commits.path"

    def _mine(self, names: Sequence[str]) -> str:
        if self.organization and "organization_id" in names and "organization_id" in self.columns.reads:
            return f"{NO_TRACE} AND organization_id = {literal(self.organization)}"
        return NO_TRACE

    def _columns(self, names: Iterable[str], *, by_id: bool) -> str:
        """The table's columns by their ids, so that renamed ones are right and ones that a file lacks are null."""
        if not by_id:
            return ", union_by_name = true"
        columns = ", ".join(
            f"{field.field_id}: {{name: {literal(field.name)}, type: {literal(duckdb_type(field.field_type))}, "
            "default_value: NULL}"
            for field in (self.schema.find_field(name) for name in sorted(set(names)))
        )
        return f", schema = MAP {{{columns}}}"
