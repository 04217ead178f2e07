"""Statements that try to reach more than the asker's own rows."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.identifiers import KNOWN, TABLE_FUNCTIONS
from neve.query.sql.references import SCAN
from neve.query.sql.statement import find_lake_tables, parse, write_for_duckdb, write_for_spark
from neve.query.sql.syntax_rules import ALLOWED
from tests.query.attacks import ANSWERED, CATALOG, CHANGES, FILES, TRICKS
from tests.query.engines import SCHEMAS, duckdb_sources, open_duckdb
from tests.query.lakes import ACME, OTHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from neve.lake.lake import Lake


@pytest.fixture(scope="module")
def session(lake: Lake) -> Iterator[DuckDBPyConnection]:
    """A DuckDB that is confined to the lake's files, as in production."""
    with open_duckdb(lake) as connection:
        yield connection


@pytest.fixture(scope="module")
def plain() -> Iterator[DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        yield connection


@pytest.mark.parametrize("sql", [*FILES, *CATALOG, *TRICKS])
def test_a_hostile_statement_is_refused(sql: str) -> None:
    """Before any engine sees it."""
    with pytest.raises(QueryError):
        parse(sql, SCHEMAS)


@pytest.mark.parametrize(("sql", "kind"), CHANGES)
def test_a_statement_that_changes_something_is_refused(sql: str, kind: str) -> None:
    """With its kind, where it has one."""
    with pytest.raises(QueryError) as caught:
        parse(sql, SCHEMAS)
    if kind:
        assert caught.value.message == f"got a statement of type {kind}, expected one that only reads"


@pytest.mark.slow
@pytest.mark.parametrize("sql", ANSWERED)
def test_an_answer_has_the_askers_rows_only(sql: str, lake: Lake, session: DuckDBPyConnection) -> None:
    """Whatever the statement says, no other organization's row and no file of the machine is in its answer."""
    statement = parse(sql, SCHEMAS)
    text = write_for_duckdb(statement, duckdb_sources(lake, statement, ACME))
    try:
        said = str(session.execute(text).to_arrow_table().to_pylist())
    except duckdb.Error:
        said = ""
    assert "secret" not in said
    assert OTHER not in said.replace(f"'{OTHER}'", "")
    assert "root:" not in said


@pytest.mark.slow
def test_answers_are_not_only_errors(lake: Lake, session: DuckDBPyConnection) -> None:
    """The test above proves something because most of its statements are answered with rows."""
    rows = 0
    for sql in ANSWERED:
        statement = parse(sql, SCHEMAS)
        try:
            text = write_for_duckdb(statement, duckdb_sources(lake, statement, ACME))
            rows += bool(session.execute(text).to_arrow_table().num_rows)
        except duckdb.Error:
            continue
    assert rows >= 20


@pytest.mark.parametrize("sql", FILES[:20])
def test_even_if_it_were_not_refused(sql: str, session: DuckDBPyConnection) -> None:
    """The engine itself is confined."""
    with pytest.raises(duckdb.Error):
        session.execute(sql).fetchall()


GOOD = (
    "spans",
    "logs",
    "a",
    "b",
    "main.spans",
    "telemetry.logs",
    "range(3) AS r",
    "unnest([1]) AS u(e)",
    "(FROM spans)",
)
BAD = ("'x.csv'", '"x.parquet"', "pg_views", "range", "read_text('x')", "glob('*')", "query('FROM spans')", "main.a")
CALLS = ("*", "1 AS x", "count(*)", "lower('X')", "range(3)", "read_text('x')", "getvariable('a')")
SOURCES = (*GOOD * 12, *BAD)


@st.composite
def selects(draw: st.DrawFn, depth: int = 2) -> str:
    """Statements of fragments, some of them hostile."""
    inner = [f"({draw(selects(depth=depth - 1))}) AS q"] if depth and draw(st.booleans()) else []
    source = draw(st.sampled_from((*SOURCES, *inner)))
    item = draw(st.sampled_from((*CALLS[:5] * 8, *CALLS[5:])))
    text = f"SELECT {item} FROM {source}"
    if draw(st.booleans()):
        text += f" {draw(st.sampled_from((',', 'CROSS JOIN', 'NATURAL JOIN')))} {draw(st.sampled_from(SOURCES))}"
    if draw(st.booleans()) and depth:
        text += f" WHERE EXISTS ({draw(selects(depth=depth - 1))})"
    if draw(st.booleans()) and depth:
        recursive = draw(st.sampled_from(("", "RECURSIVE ")))
        name = draw(st.sampled_from(("a", "b", "spans")))
        text = f"WITH {recursive}{name} AS ({draw(selects(depth=depth - 1))}) {text}"
    if draw(st.booleans()) and depth:
        text += f" UNION ALL ({draw(selects(depth=depth - 1))})"
    return text


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(selects())
@example("WITH a AS (SELECT 1 AS x FROM spans) SELECT * FROM a UNION ALL SELECT 1 AS x FROM logs")
@example("SELECT 1 AS x FROM (WITH a AS (SELECT 1 AS x FROM range(3)) SELECT * FROM a) AS q")
def test_what_is_accepted_reads_nothing_else(plain: DuckDBPyConnection, sql: str) -> None:
    """By the tree that was checked, and by what DuckDB's own parser makes of the text that it would get."""
    try:
        statement = parse(sql, SCHEMAS)
    except QueryError:
        return
    tree = statement.tree
    defined = {node.alias.lower() for node in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        function = table.this.name.lower() if isinstance(table.this, exp.Anonymous) else ""
        assert SCAN in table.meta or function in TABLE_FUNCTIONS or table.name.lower() in defined
    assert all(node.name.lower() in KNOWN for node in tree.find_all(exp.Anonymous))
    assert all(type(node) in ALLOWED for node in tree.walk())
    text = write_for_duckdb(statement, dict.fromkeys(find_lake_tables(tree), "(SELECT 1 AS neve_source)"))
    tables, functions = read_by_duckdb(plain, text)
    assert functions <= TABLE_FUNCTIONS
    assert {name.lower() for name in tables} <= defined


def read_by_duckdb(connection: DuckDBPyConnection, sql: str) -> tuple[set[str], set[str]]:
    """The tables and table functions that DuckDB sees in a text; in one that it can't read, none."""
    [row] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = json.loads(row[0])
    assert not tree.get("error") or "syntax error" in tree["error_message"], f"{sql}: {tree}"
    tables: set[str] = set()
    functions: set[str] = set()
    todo: list[Any] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables.add(".".join(filter(None, (node["schema_name"], node["table_name"]))))
            if node.get("type") == "TABLE_FUNCTION":
                functions.add(node["function"]["function_name"].lower())
            todo += node.values()
        elif isinstance(node, list):
            todo += node
    return tables, functions


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_texts_and_names_come_through_unchanged(plain: DuckDBPyConnection, value: str, name: str) -> None:
    """A text is one text for the engine, whatever is in it; so is a name."""
    assume(name and "\0" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name))
    quoted = name.replace('"', '""')
    try:
        statement = parse(f'SELECT ? AS "{quoted}"', SCHEMAS, [value])
    except QueryError:
        assert "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value)
        return
    answer = plain.execute(write_for_duckdb(statement, {}))
    assert answer.description[0][0] == name
    assert answer.fetchall() == [(value,)]


@given(st.text(alphabet=st.sampled_from("ab'\\${}:env\n\"`"), max_size=20))
def test_spark_gets_no_variables(value: str) -> None:
    """Spark puts settings and the environment into `${…}`, also within texts."""
    statement = parse("SELECT ? AS a, ? || 'x'", SCHEMAS, [value, value])
    assert "${" not in write_for_spark(statement, {})


def test_a_name_with_a_variable_is_kept_from_spark() -> None:
    """As above."""
    assert parse('SELECT 1 AS "${env:PATH}"', SCHEMAS).not_portable == "a name with ${"


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200))
def test_noise_is_refused_in_words(noise: str) -> None:
    """No text makes the parser fail in another way than by saying so."""
    with suppress(QueryError):
        assert parse(noise, SCHEMAS).normalised_sql
