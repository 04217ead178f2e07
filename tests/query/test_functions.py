"""Every function that a query may call gives what DuckDB itself gives."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from neve.errors import QueryError
from neve.query.sql.duckdb_statement import DuckDBStatement, check_duckdb_statement
from neve.query.sql.identifiers import KNOWN, VOLATILE
from neve.query.sql.statement import parse, write_for_duckdb
from tests.query.engines import SCHEMAS
from tests.query.function_examples import GROUPS, VALUES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = "(VALUES (1, 10, 'a', true), (2, 7, 'b', false), (4, 8, 'b', true), (9, 1, 'c', NULL)) AS t(x, y, s, b)"
OWN = {"has_phrase", "has_term"}  # Neve's own functions
CALL = re.compile(r"\bf(?=\()")
EXAMPLES = tuple((name, CALL.sub(name, template)) for template, names in GROUPS for name in names.split())


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def statement_of(expression: str) -> str:
    """A statement with one value. Aggregates and windows read `t`."""
    if " FROM (SELECT" in expression:
        return f"WITH t AS (FROM {ROWS}) SELECT {expression}"
    is_over_rows = re.search(r"\((?:x|y|s|b)\b(?! IN)|ORDER BY x|count_star", expression)
    return f"SELECT {expression} AS value" + (f" FROM {ROWS}" if is_over_rows else "")


def run_written(plain: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    """The rows of a statement that went through both checks."""
    written = write_for_duckdb(parse(sql, SCHEMAS), {})
    check_duckdb_statement(plain, DuckDBStatement(written))
    return plain.execute(written).fetchall()


@pytest.mark.parametrize(("name", "expression"), EXAMPLES)
def test_a_function_gives_what_duckdb_gives(name: str, expression: str, plain: duckdb.DuckDBPyConnection) -> None:
    """The same value and the same type, or an error of DuckDB for both."""
    sql = statement_of(expression)
    expected = repr(plain.execute(sql).fetchall())
    assert repr(run_written(plain, sql)) == expected
    assert name.lower() in sql.lower()


@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_documented_values(expression: str, value: Any, plain: duckdb.DuckDBPyConnection) -> None:
    """The values that the documentation of a function has."""
    assert run_written(plain, f"SELECT {expression} AS value") == [(value,)]


def test_every_function_has_an_example() -> None:
    """Except those whose value differs each time, which are run once."""
    assert {name.lower() for name, _ in EXAMPLES} | VOLATILE | OWN == KNOWN


@pytest.mark.parametrize("name", sorted(VOLATILE - {"current_localtime", "ago"}))
def test_a_function_of_the_clock_or_of_chance_runs(name: str, plain: duckdb.DuckDBPyConnection) -> None:
    """With parentheses, or as a keyword where SQL has one."""
    keywords = {"current_time", "current_timestamp", "localtime", "localtimestamp"}
    [[value]] = run_written(plain, f"SELECT {name if name in keywords else f'{name}()'} AS value")
    assert value is not None


def test_a_function_that_is_not_listed_is_refused(plain: duckdb.DuckDBPyConnection) -> None:
    """Whatever DuckDB has."""
    names = {name for (name,) in plain.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()}
    others = sorted(name for name in names if name.isidentifier() and name.lower() not in KNOWN)
    allowed = []
    for name in others:
        try:
            parse(f"SELECT {name}(1)", SCHEMAS)
        except QueryError:
            continue
        allowed.append(name)
    assert allowed == []
