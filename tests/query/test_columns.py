"""Which columns a statement can see: leaving out all others changes no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

from neve.model.tables import LOGS, METRICS, SPANS
from neve.query.planning.duckdb_source import named_columns
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb
from tests.query.attacks import ANSWERED
from tests.query.dialect_queries import ALL, NOT_PORTABLE
from tests.query.engines import ACME, SCHEMAS, logs, metrics, spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.query.sql.statement import Statement

STATEMENTS = [*(sql for _name, sql in ALL), *(sql for sql, _reason in NOT_PORTABLE), *ANSWERED]
BY_CHANCE = ("SAMPLE", "uuid", "random", "localtimestamp")


@pytest.fixture(scope="module")
def session() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with the rows of one organization."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for table, rows in ((SPANS, spans(ACME, 60)), (LOGS, logs(ACME, 60)), (METRICS, metrics(ACME, 60))):
            columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in table.schema]
            connection.register("rows", pa.table(columns, schema=table.schema))
            connection.execute(f"CREATE TABLE stored_{table.name} AS SELECT * FROM rows")
        yield connection


def columns_of(statement: Statement) -> frozenset[str] | None:
    """The columns that a statement can see."""
    known = {name.lower() for table in statement.tables for name in SCHEMAS[table].names}
    return named_columns(statement.tree, known)


def answer(session: duckdb.DuckDBPyConnection, statement: Statement, columns: frozenset[str] | None) -> Any:
    """The rows, or how it failed, where tables have no more than some columns."""

    def source(table: str) -> str:
        names = [name for name in SCHEMAS[table].names if columns is None or name.lower() in columns]
        return f"(SELECT {', '.join(names or SCHEMAS[table].names[:1])} FROM stored_{table})"

    sources = {number: source(table.name) for number, table in find_lake_tables(statement.tree).items()}
    try:
        found = session.execute(write_for_duckdb(statement, sources)).to_arrow_table()
    except duckdb.Error as error:
        return str(error).split("\n\nLINE")[0]
    return found.schema, str(found.to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("sql", [sql for sql in STATEMENTS if not any(word in sql for word in BY_CHANCE)])
def test_other_columns_make_no_difference(session: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Neither to rows, nor to names and types of the result, nor to what an error says."""
    statement = parse(sql, SCHEMAS)
    if {"spans", "logs", "metrics"} >= set(statement.tables):
        assert answer(session, statement, columns_of(statement)) == answer(session, statement, None)


@pytest.mark.slow
def test_most_statements_name_their_columns() -> None:
    """The test above proves something because most of its statements leave columns out."""
    found = [columns_of(parse(sql, SCHEMAS)) for sql in STATEMENTS]
    assert sum(columns is not None for columns in found) > len(found) / 2


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT Service_Name, count(*) FROM spans GROUP BY 1", {"service_name"}),
        ("SELECT count(*) FROM spans AS s JOIN logs AS l USING (trace_id)", {"trace_id"}),
        ("SELECT a.flags FROM (SELECT flags FROM spans) AS a WHERE a.flags > 1", {"flags"}),
        ("SELECT list_filter(bucket_counts, n -> n > 1) FROM metrics", {"bucket_counts"}),
    ],
)
def test_named_columns_are_found(sql: str, columns: set[str]) -> None:
    """In any clause, whatever else the names may mean."""
    found = columns_of(parse(sql, SCHEMAS))
    assert found is not None
    assert found & {name for schema in SCHEMAS.values() for name in schema.names} == columns


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM spans",
        "SELECT s.* FROM spans AS s",
        "FROM spans",
        "SELECT * EXCLUDE (flags) FROM spans",
        "SELECT count(s.*) FROM spans AS s",
        "SELECT COLUMNS('f.*') FROM spans",
        "SELECT s FROM spans AS s",
        "SELECT spans FROM spans",
        "SELECT row_to_json(s) FROM spans AS s",
        "SELECT struct_extract(s, 'flags') FROM spans AS s",
        "SELECT s['flags'] FROM spans AS s",
        "SELECT x FROM spans AS s(x)",
        "SELECT count(*) FROM spans NATURAL JOIN logs",
        "SELECT flags FROM spans EXCEPT SELECT (SELECT max(m) FROM metrics AS m) FROM logs",
        "SELECT service FROM spans",
    ],
)
def test_all_columns_count_where_some_may_be_meant_without_their_names(sql: str) -> None:
    """Stars, whole rows, joins by all that two tables share; and where a name is of nothing."""
    assert columns_of(parse(sql, SCHEMAS)) is None


def test_a_mistake_is_still_told_what_was_meant(session: duckdb.DuckDBPyConnection) -> None:
    """DuckDB knows all columns when it says which one comes near."""
    statement = parse("SELECT service FROM spans", SCHEMAS)
    assert "service_name" in answer(session, statement, columns_of(statement))
