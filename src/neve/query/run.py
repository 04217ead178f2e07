"""Run SQL on DuckDB over one organization's rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from neve.errors import QueryError, TableMissing
from neve.lake.duck import confine, connect, literal, scan
from neve.model.tables import NAMESPACE, ORGANIZATION
from neve.query.statement import check_statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from neve.lake.lake import Lake
    from neve.query.config import QueryConfig

TENANT = ORGANIZATION.name


def run_query(lake: Lake, config: QueryConfig, sql: str, organization_id: str) -> pa.RecordBatchReader:
    """Answer one statement; every table name stands for the organization's rows of that table."""
    tables = [lake.table(name) for name in lake.table_names()]
    if not tables:
        raise TableMissing("the lake has no tables", hint="run `neve init`")
    connection = connect(lake.s3, on_s3=lake.lake.on_s3, threads=config.threads, memory_limit=config.memory_limit)
    for table in tables:
        _create_views(connection, table, organization_id)
    confine(connection, [table.metadata.location for table in tables])
    try:
        check_statement(connection, sql)
        reader = connection.execute(sql).to_arrow_reader()
    except duckdb.Error as error:
        raise QueryError(_say(error), hint=_hint(error)) from error
    return pa.RecordBatchReader.from_batches(reader.schema, _in_words(reader))


def _in_words(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a result; an error in a late row is said like one in the first."""
    try:
        yield from reader
    except (duckdb.Error, OSError, pa.ArrowException) as error:
        raise QueryError(_say(error)) from error


def _create_views(connection: duckdb.DuckDBPyConnection, table: Table, organization_id: str) -> None:
    """A view of the organization's rows, in the schema that the table has in the catalog and outside it."""
    name = table.name()[-1]
    tenant = any(field.name == TENANT for field in table.schema().fields)
    where = f"WHERE {TENANT} = {literal(organization_id)}" if tenant else ""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {NAMESPACE}")
    for view in (f'main."{name}"', f'{NAMESPACE}."{name}"'):
        connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {scan(table)} {where}")  # noqa: S608 - quoted


def _say(error: Exception) -> str:
    return str(error).split("\n\nLINE ")[0].strip()


def _hint(error: duckdb.Error) -> str | None:
    if isinstance(error, duckdb.CatalogException):
        return "`neve tables` lists the tables, `DESCRIBE spans` the columns of one"
    return None
