"""Forms that people bring from standard SQL and other systems, and that have one equivalent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from neve import __version__
from neve.errors import QueryError
from neve.query.sql.statement import parse, write_for_duckdb
from tests.query.engines import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """The rows of a statement that reads no table."""
    found: list[dict[str, Any]] = (
        connection.execute(write_for_duckdb(parse(sql, SCHEMAS), {})).to_arrow_table().to_pylist()
    )
    return found


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT version()", [{"version()": f"Neve {__version__}"}]),
        (
            "SELECT current_database(), current_schema() AS s",
            [{"current_database()": "neve", "s": "telemetry"}],
        ),
        ("SELECT upper(VERSION()) = 'X' AS x", [{"x": False}]),
        ("SHOW DATABASES", [{"database_name": "neve"}]),
        ("SHOW SCHEMAS;", [{"database_name": "neve", "schema_name": "telemetry"}]),
        ("SELECT ARRAY(SELECT x FROM range(3) AS t(x) ORDER BY x DESC) AS a", [{"a": [2, 1, 0]}]),
        ("SELECT ARRAY(SELECT 1 WHERE false) AS a, ARRAY[1] AS b", [{"a": [], "b": [1]}]),
        ("SELECT 'abc' RLIKE 'b' AS a, 'abc' NOT REGEXP '^b' AS b", [{"a": True, "b": True}]),
        (
            "SELECT date_bin('15 minutes', TIMESTAMP '2026-01-01 00:17:00')::VARCHAR AS a,"
            " date_bin('00:15:00', TIMESTAMP '2026-01-01 00:17:00')::VARCHAR AS b,"
            " date_bin(INTERVAL 1 hour, TIMESTAMP '2026-01-01 00:17:00', TIMESTAMP '2026-01-01 00:05:00')::TEXT AS c",
            [{"a": "2026-01-01 00:15:00", "b": "2026-01-01 00:15:00", "c": "2026-01-01 00:05:00"}],
        ),
        ("SELECT x FROM range(9) AS t(x) ORDER BY x FETCH FIRST ROW ONLY", [{"x": 0}]),
    ],
)
def test_a_form_has_its_meaning(sql: str, rows: list[dict[str, Any]], plain: duckdb.DuckDBPyConnection) -> None:
    """The rows of the equivalent, under the names that were written."""
    assert answer(plain, sql) == rows


@pytest.mark.parametrize("word", ["current_timestamp", "current_date", "current_time", "localtime", "localtimestamp"])
def test_a_clock_is_a_column(word: str, plain: duckdb.DuckDBPyConnection) -> None:
    """The keyword is the name of the column, as in DuckDB, and the result is never cached."""
    [row] = answer(plain, f"SELECT {word}, {word} = {word} AS same, {word.upper()} AS x")
    assert list(row) == [word, "same", "x"]
    assert row["same"] is True
    assert row[word] is not None
    assert parse(f"SELECT {word}", SCHEMAS).volatile


def test_headers_are_the_text_of_the_statement() -> None:
    """Tables of a subquery have no added quotes and aliases, and a rewritten function keeps its name."""
    sql = "SELECT ARRAY(SELECT message FROM logs), date_bin('1 day', timestamp) FROM spans"
    written = write_for_duckdb(parse(sql, SCHEMAS), {0: "(SELECT 1)", 1: "(SELECT 1)"})
    assert 'AS "array(SELECT message FROM logs)"' in written
    assert """AS "date_bin('1 day', timestamp)\"""" in written
    texts = [f"SELECT (SELECT count(*) FROM {table})" for table in ("logs", "telemetry.logs")]
    keys = {parse(text, SCHEMAS).normalised_sql for text in texts}
    assert len(keys) == 2  # a cached result has its own header


def test_all_tables_are_listed_with_their_columns(plain: duckdb.DuckDBPyConnection) -> None:
    """SHOW ALL TABLES has one row for each table, with names and types of the same number."""
    rows = answer(plain, "SHOW ALL TABLES")
    assert [row["name"] for row in rows] == sorted(SCHEMAS)
    assert all(len(row["column_names"]) == len(row["column_types"]) > 3 for row in rows)


@pytest.mark.parametrize("sql", ["SHOW TABLES FROM telemetry", "show tables in NEVE", "SHOW TABLES FROM main;"])
def test_tables_of_the_schema_are_listed(sql: str) -> None:
    """The one schema may be named."""
    assert parse(sql, SCHEMAS).kind == "tables"


@pytest.mark.parametrize("sql", ["SHOW COLUMNS FROM logs", "SHOW FIELDS IN telemetry.logs", "SHOW logs", "DESC logs"])
def test_columns_of_a_table_are_listed(sql: str) -> None:
    """As DESCRIBE lists them."""
    assert parse(sql, SCHEMAS).described == "logs"


@pytest.mark.parametrize("sql", ["SHOW TABLES FROM other", "SHOW COLUMNS FROM nothing", "SHOW COLUMNS", "SHOW ALL"])
def test_other_commands_are_refused(sql: str) -> None:
    """Nothing else is shown."""
    with pytest.raises(QueryError):
        parse(sql, SCHEMAS)
