"""Run SQL on DuckDB over one organization's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from neve.errors import QueryError, TableMissing
from neve.lake.duck import connect, scan
from neve.model.tables import NAMESPACE, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig


def run_query(lake: Lake, config: QueryConfig, sql: str, organization_id: str) -> pa.RecordBatchReader:
    """Answer one statement; every table name stands for the organization's rows of that table."""
    connection = connect(lake.s3, on_s3=lake.lake.on_s3, threads=config.threads, memory_limit=config.memory_limit)
    _create_views(connection, lake, organization_id)
    try:
        return connection.execute(sql).to_arrow_reader()
    except duckdb.Error as error:
        raise QueryError(_say(error), hint=_hint(error)) from error


def _create_views(connection: duckdb.DuckDBPyConnection, lake: Lake, organization_id: str) -> None:
    """A view for each table, inside the schema that the tables have in the catalog and outside it."""
    names = lake.table_names()
    if not names:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    connection.execute(f"CREATE SCHEMA {NAMESPACE}")
    owner = organization_id.replace("'", "''")
    for name in names:
        source = scan(lake.table(name))
        where = f"WHERE organization_id = '{owner}'" if _has_tenant(name) else ""
        for view in (f'main."{name}"', f'{NAMESPACE}."{name}"'):
            connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {source} {where}")  # noqa: S608 - quoted above


def _has_tenant(name: str) -> bool:
    return any(table.name == name for table in TABLES)


def _say(error: duckdb.Error) -> str:
    return str(error).split("\n\nLINE ")[0].strip()


def _hint(error: duckdb.Error) -> str | None:
    if isinstance(error, duckdb.CatalogException):
        return "`neve tables` lists the tables, `DESCRIBE spans` the columns of one"
    return None
