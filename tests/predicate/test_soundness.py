"""Both users of predicates against DuckDB: a file that either of them leaves out has no row that matches."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from sqlglot import exp

from neve.autopilot.estimate.columns import find_column_types
from neve.autopilot.estimate.file_pruning import build_spec_views
from neve.autopilot.estimate.table_files import ColumnStatistics, SpecFiles
from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.workload.queries import Query
from neve.autopilot.workload.query_parser import IgnoredQuery, parse_query
from neve.autopilot.workload.tables import Tables
from neve.predicate.compiled_filters import compile_filters
from neve.predicate.filters import NEVER, Filter
from neve.predicate.pruning import Pruner
from neve.query.planning.scans import find_scans
from neve.query.sql.dialect import read
from neve.query.sql.references import SCAN
from neve.query.sql.statement import Statement
from tests.predicate.files import SPECS, Row, files_of, is_nan
from tests.query.predicates import CREATE, FIELDS, SCHEMA, conditions, tables
from tests.query.quick import connect

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table import Table

    from neve.lake.read.manifest_cache import FileEntry

read("SELECT 1")  # reading raises the limit of recursion once, which Hypothesis would notice
LATER = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = Tables({"s.t": SCHEMA})


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """A DuckDB with an empty table t."""
    connection = connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE t {CREATE}")
    return connection


def matching(database: duckdb.DuckDBPyConnection, rows: list[Row], sql: str) -> set[int] | None:
    """The ids of the rows that DuckDB returns; `None` where it refuses."""
    database.execute("DELETE FROM t")
    if rows:
        database.executemany(
            f"INSERT INTO t VALUES ({', '.join('?' * len(FIELDS))})", [[row[of] for of in FIELDS] for row in rows]
        )
    try:
        return {row[0] for row in database.execute(sql).fetchall()}
    except duckdb.Error:
        return None


def metadata_of(spec: PartitionSpec) -> TableMetadata:
    """The metadata of a table with a partition spec."""
    return new_table_metadata(SCHEMA, spec, UNSORTED_SORT_ORDER, "file:///t")


def read_by_queries(sql: str, spec: PartitionSpec, entries: list[FileEntry]) -> set[str]:
    """The files that the planner of queries keeps."""
    [tree] = read(sql)
    for table in tree.find_all(exp.Table):
        table.meta[SCAN] = 0
    [scan] = find_scans(Statement(tree, "select"), {"t": SCHEMA})
    pruner = Pruner(metadata_of(spec), scan.predicate)
    return {entry.file_path for entry in entries if pruner.file(entry)}


def logged_filter(sql: str) -> Filter:
    """The filter of a logged query."""
    found = parse_query(LoggedQuery("q", "neve", LATER, sql, "duckdb", schema="s"), TABLES)
    if isinstance(found, IgnoredQuery):
        return NEVER
    assert isinstance(found, Query), found
    return found.uses[0].filter


def read_by_estimates(sql: str, spec: PartitionSpec, entries: list[FileEntry]) -> set[str]:
    """The files that the estimate of the autopilot counts."""
    types = find_column_types(SCHEMA, SCHEMA.column_names)
    compiled = compile_filters([logged_filter(sql)], types)
    statistics = {name: ColumnStatistics(kind, SCHEMA.find_field(name).field_id) for name, kind in types.items()}
    files = SpecFiles(0, statistics, partitions=[entry.partition for entry in entries])
    for entry in entries:
        for column in statistics.values():
            column.add(cast("Any", entry))
    table = cast("Table", SimpleNamespace(schema=lambda: SCHEMA, specs=lambda: {0: spec}))
    [matches] = compiled.matches(build_spec_views(table, compiled, files), len(entries))
    return {entries[place].file_path for place in np.flatnonzero(matches)}


@pytest.mark.slow
@example(rows=[], spec=SPECS[4], condition="big = 1e300")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables, spec=st.sampled_from(SPECS), condition=conditions())
def test_a_file_with_a_matching_row_is_read(
    database: duckdb.DuckDBPyConnection, rows: list[Row], spec: PartitionSpec, condition: str
) -> None:
    """Whatever a condition asks, a file is left out only if DuckDB returns no row of it."""
    sql = f"SELECT id FROM t WHERE {condition}"
    wanted = matching(database, rows, sql)
    if wanted is None:
        return
    files = files_of(rows, spec)
    entries = [entry for entry, _ in files]
    needed = {entry.file_path for entry, some in files if any(row["id"] in wanted for row in some)}
    assert needed <= read_by_queries(sql, spec, entries)
    # Engines differ about NaN, and estimates follow those that find it in no range.
    numbers = {entry.file_path for entry, some in files if not any(is_nan(row["x"]) for row in some)}
    assert needed & numbers <= read_by_estimates(sql, spec, entries)
