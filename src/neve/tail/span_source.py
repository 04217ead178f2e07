"""The table that spans are read from: check its columns against the policies, and build the SQL that reads its files.

Columns are checked before anything is read. A table of another writer is read as rows of the lake's own `spans`.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import pyarrow as pa

from neve.errors import ConfigError
from neve.lake.duckdb import quote_literal, to_duckdb_path
from neve.lake.duckdb_sql import exclude_deleted_sql, format_file_list, quote_name, select_by_id
from neve.model.signals import NAMESPACE
from neve.model.tables import ARRIVAL, SPANS
from neve.tail.column_mapping import COLUMN_TYPES, map_columns
from neve.tail.trace_summary import SummaryQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.tail.column_mapping import SpanColumns
    from neve.tail.config import TailConfig
    from neve.tail.new_files import SpanFile
    from neve.tail.policy.tree import PolicySet


SCALAR_TYPES = {
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", "UTC"): "TIMESTAMP WITH TIME ZONE",
}


def arrow_to_duckdb_type(kind: pa.DataType) -> str:
    """Return the DuckDB name of an Arrow type.

    >>> arrow_to_duckdb_type(pa.list_(pa.map_(pa.string(), pa.int64())))
    'MAP(VARCHAR, BIGINT)[]'
    """
    if pa.types.is_map(kind):
        return f"MAP({arrow_to_duckdb_type(kind.key_type)}, {arrow_to_duckdb_type(kind.item_type)})"
    if pa.types.is_list(kind):
        return f"{arrow_to_duckdb_type(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return f"STRUCT({', '.join(f'{quote_name(field.name)} {arrow_to_duckdb_type(field.type)}' for field in kind)})"
    return SCALAR_TYPES[kind]


ROW_TYPES = tuple((column.name, arrow_to_duckdb_type(column.type)) for column in SPANS.columns)
OWN_COLUMNS = {column.name for column in SPANS.columns}
NEWER_COLUMNS = {column.name for column in ARRIVAL}  # a table of the lake may lack them until `neve init` adds them

SERVICE_NAME = "service.name"
# Columns that a foreign table lacks stay null. The service is an attribute of the resource, where OTLP expects it.
ROW_EXPRESSIONS: Mapping[str, str] = {
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
        f"CASE WHEN service_name IS NULL OR map_contains(coalesce(resource_attributes, MAP {{}}), '{SERVICE_NAME}') "
        f"THEN resource_attributes ELSE map_concat(coalesce(resource_attributes, MAP {{}}), "
        f"MAP {{'{SERVICE_NAME}': service_name}}) END"
    ),
    "resource_attr_types": "resource_attribute_types",
    "events": "list_transform(events, lambda e: struct_insert(e, dropped_attributes_count := 0::BIGINT))",
}


HAS_TRACE_ID = "trace_id IS NOT NULL AND octet_length(trace_id) > 0"


@dataclass(frozen=True)
class SpanReader:
    """Reader of one table, which can be pickled."""

    schema: Schema
    columns: SpanColumns
    organization: str = ""  # only this organization, if the table has several

    def spans(self, files: Sequence[SpanFile], wanted: Iterable[str]) -> str:
        """Return a subquery in parentheses: the spans of some files, with only the wanted columns."""
        names = tuple(wanted)
        arrived = "arrived_us" in names and "arrived_us" not in self.columns.expressions
        listed = self.columns.select(name for name in names if not (arrived and name == "arrived_us"))
        commit = ", arrived_us" if arrived else ""
        select = f"SELECT {listed}{commit} FROM {self.rows(files, self.columns.read(names), arrived=arrived)}"
        return f"(SELECT * FROM ({select}) WHERE {self._own_rows_sql(names)})"

    def spans_of(self, relation: str, wanted: Iterable[str]) -> str:
        """Return a subquery in parentheses: the spans of a DuckDB relation, with only the wanted columns."""
        names = tuple(wanted)
        return (
            f"(SELECT * FROM (SELECT {self.columns.select(names)} FROM {relation}) WHERE {self._own_rows_sql(names)})"
        )

    def table_rows(self, files: Sequence[SpanFile]) -> str:
        """Return a subquery in parentheses: the spans of some files as rows of the lake's own table of spans."""
        named = {field.name for field in self.schema.fields}
        if named >= OWN_COLUMNS - NEWER_COLUMNS:
            own = ", ".join(name if name in named else f"NULL::BIGINT AS {name}" for name in sorted(OWN_COLUMNS))
            where = self._own_rows_sql(tuple(OWN_COLUMNS))
            return f"(SELECT {own} FROM {self.rows(files, OWN_COLUMNS & named)} WHERE {where})"
        spans = self.spans(files, tuple(name for name in COLUMN_TYPES if name not in {"arrived_us", *NEWER_COLUMNS}))
        listed = ", ".join(f"{ROW_EXPRESSIONS.get(name, f'NULL::{kind}')} AS {name}" for name, kind in ROW_TYPES)
        return f"(SELECT {listed} FROM {spans})"

    def rows(self, files: Sequence[SpanFile], columns: Iterable[str], *, arrived: bool = False) -> str:
        """Return the rows of some files with the table's columns, without deleted rows."""
        paths, by_id = format_file_list(file.path for file in files), all(file.by_id for file in files)
        read = f"read_parquet({paths}{self._columns(columns, by_id=by_id)}, hive_partitioning = false)"
        deletes = sorted({path for file in files for path in file.deletes})
        source = f"{read} AS data{exclude_deleted_sql(deletes) if deletes else ''}"
        if not arrived:
            return source
        commits = ", ".join(f"({quote_literal(to_duckdb_path(file.path))}, {file.committed_us})" for file in files)
        return f"{source} JOIN (VALUES {commits}) AS commits(path, arrived_us) ON data.filename = commits.path"

    def _own_rows_sql(self, names: Sequence[str]) -> str:
        if self.organization and "organization_id" in names and "organization_id" in self.columns.reads:
            return f"{HAS_TRACE_ID} AND organization_id = {quote_literal(self.organization)}"
        return HAS_TRACE_ID

    def _columns(self, names: Iterable[str], *, by_id: bool) -> str:
        """Select the table's columns by id, so that renamed columns are correct and missing ones are null."""
        if not by_id:
            return ", union_by_name = true"
        return f", {select_by_id(self.schema.find_field(name) for name in sorted(set(names)))}"


FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class SpanSource:
    """Table of spans, with its reader and its summary query for some policies."""

    lake: Lake
    name: str
    table: Table
    reader: SpanReader
    summary: SummaryQuery

    @classmethod
    def of(cls, lake: Lake, config: TailConfig, policies: PolicySet) -> SpanSource:
        """Load the table.

        Raises `ConfigError` if its columns are insufficient for the policies.
        """
        table = lake.table(config.source.table)
        columns = map_columns(table.schema(), config.source)
        if "organization_id" not in columns.expressions:
            raise ConfigError(
                f"{config.source.table} has no column for the organization",
                hint="name it in tail.source.columns.organization_id, or set tail.source.organization for all spans",
            )
        has_root = "parent_span_id" in columns.expressions
        if config.after_root_seconds is not None and not has_root:
            raise ConfigError(
                f"tail.after_root_seconds is set, but {config.source.table} has no parent span ids to find the root",
                hint="name the column in tail.source.columns.parent_span_id",
            )
        _check_policy_columns(config.source.table, policies, set(columns.expressions))
        reader = SpanReader(table.schema(), columns, config.source.organization)
        return cls(lake, config.source.table, table, reader, SummaryQuery(policies, config.clock, has_root))

    @property
    def layout(self) -> str:
        """Meaning of the bits of a summary, as summaries of different layouts can't be merged."""
        policies = self.summary.policies
        needed = [fact.sql for fact in policies.facts] + [repr(one) for one in self.summary.latencies]
        needed += [key.sql for key in policies.keys] + [self.summary.clock, str(self.summary.sizes)]
        needed += ["extents"] if self.summary.latencies else []
        return sha256("\n".join(needed).encode()).hexdigest()[:16]

    @property
    def counts_repeats(self) -> bool:
        """True if repeats of stored spans are counted: by the collector's semantics, in the lake's own table."""
        return self.summary.counts_repeats and self.table.name() == (NAMESPACE, SPANS.name)

    @property
    def on_s3(self) -> bool:
        """True if its files are in object storage."""
        return self.table.location().startswith("s3")

    def now(self, snapshot_id: int | None = None) -> Table:
        """Return the table now, or at a snapshot."""
        table = self.lake.table(self.name)
        if snapshot_id is not None:
            table = copy.copy(table)
            table.metadata = table.metadata.model_copy(update={"current_snapshot_id": snapshot_id})
        return table


def _check_policy_columns(table: str, policies: PolicySet, available: set[str]) -> None:
    needed = {column for fact in policies.facts for column in fact.columns}
    needed |= {column for key in policies.keys for column in key.columns}
    find_missing = sorted(name for name in needed - available if not name.endswith("attribute_types"))
    if find_missing:
        raise ConfigError(
            f"the policies need {', '.join(find_missing)}, which {table} does not have",
            hint="name the columns in tail.source.columns, or remove the policies that need them",
        )
