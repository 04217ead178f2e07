"""What a statement is read as: its tables, its parameters, and words for what is refused."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from neve.errors import QueryError
from neve.query.sql.statement import Statement, find_lake_tables, parse, write_for_duckdb, write_for_spark
from tests.query.engines import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

THERE_ARE = f"there are {', '.join(sorted(SCHEMAS))}"


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB with nothing in it."""
    with duckdb.connect(config={}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def refused(sql: str, parameters: Any = ()) -> QueryError:
    """What is said of a statement that is refused."""
    with pytest.raises(QueryError) as caught:
        parse(sql, SCHEMAS, parameters)
    return caught.value


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT 1", ()),
        ("SELECT * FROM spans", ("spans",)),
        ("SELECT * FROM Telemetry.SPANS, main.logs AS l", ("spans", "logs")),
        ("FROM spans JOIN spans AS b USING (trace_id)", ("spans", "spans")),
        ("SELECT (SELECT max(value) FROM metrics) FROM spans", ("metrics", "spans")),
        ("WITH a AS (SELECT * FROM logs) SELECT * FROM a", ("logs",)),
        ("WITH spans AS (SELECT * FROM spans) SELECT * FROM spans", ("spans",)),
        ("WITH logs AS (SELECT 1 AS x) SELECT * FROM logs", ()),
        ("WITH logs AS (SELECT 1 AS x) SELECT * FROM telemetry.logs", ("logs",)),
        ("SELECT * FROM (WITH logs AS (SELECT 1 AS x) SELECT * FROM logs) AS a, logs", ("logs",)),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a, spans) SELECT * FROM b", ("spans",)),
        (
            "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t, spans",
            ("spans",),
        ),
        ("SELECT * FROM spans WHERE trace_id IN (SELECT trace_id FROM logs)", ("spans", "logs")),
        ("SELECT * FROM spans UNION ALL (SELECT * FROM logs)", ("spans", "logs")),
        ("PIVOT spans ON status_code IN (1, 2) USING count(*)", ("spans",)),
        ("SELECT * FROM range(3), unnest([1, 2]) AS u(x), generate_series(1, 2)", ()),
    ],
)
def test_tables_of_the_lake_are_found(sql: str, tables: tuple[str, ...]) -> None:
    """Each reference is marked once; what a WITH defines is not, within its reach."""
    statement = parse(sql, SCHEMAS)
    assert sorted(statement.tables) == sorted(tables)
    assert list(find_lake_tables(statement.tree)) == list(range(len(tables)))


@pytest.mark.parametrize(
    ("sql", "kind", "explain", "described"),
    [
        ("SELECT 1;", "select", "", ""),
        ("explain SELECT * FROM spans", "select", "plan", ""),
        ("/* x */ EXPLAIN ANALYZE SELECT * FROM spans", "select", "analyze", ""),
        ("EXPLAIN ANALYZE /* x */ FROM spans;", "select", "analyze", ""),
        ("DESCRIBE spans", "describe", "", "spans"),
        ("describe Telemetry.Spans;", "describe", "", "spans"),
        ("SHOW logs", "describe", "", "logs"),
        ("show tables", "tables", "", ""),
        ("VALUES (1), (2)", "select", "", ""),
        ("(SELECT 1) UNION (SELECT 2)", "select", "", ""),
    ],
)
def test_kinds_of_statements(sql: str, kind: str, explain: str, described: str) -> None:
    """What is asked about tables is told apart from what is asked of them."""
    statement = parse(sql, SCHEMAS)
    assert (statement.kind, statement.explain, statement.described) == (kind, explain, described)
    assert statement.normalised_sql


@pytest.mark.parametrize(
    ("sql", "words", "hint"),
    [
        ("COPY spans TO 'x'", "got a statement of type COPY, expected one that only reads", None),
        ("SELECT 1; SELECT 2", "got 2 statements, expected one", None),
        (" -- nothing", "got 0 statements, expected one", None),
        ("SELECT * FROM span", "'span' is not a table of the lake", "did you mean spans? `SHOW TABLES` lists all"),
        (
            "SELECT * FROM x.y.spans",
            "'x.y.spans' is not a table of the lake",
            "did you mean spans? `SHOW TABLES` lists all",
        ),
        ("SELECT * FROM Traces", "'Traces' is not a table of the lake", "did you mean spans? `SHOW TABLES` lists all"),
        ("SELECT * FROM events", "'events' is not a table of the lake", "did you mean logs? `SHOW TABLES` lists all"),
        ("SELECT * FROM q", "'q' is not a table of the lake", THERE_ARE),
        ("DESCRIBE traces", "'traces' is not a table of the lake", "did you mean spans? `SHOW TABLES` lists all"),
        ("DESCRIBE range(3)", "only tables of the lake can be described", "`SHOW TABLES` lists them"),
        ("SELECT lenght(message) FROM logs", "unknown function lenght (line 1, column 8)", "did you mean length?"),
        ("SELECT zzzzzzz(1)", "unknown function zzzzzzz", None),
        ("SELECT * FROM read_csv('x')", "the function read_csv is not allowed in queries", None),
        ("SELECT x::mood", "the type USER-DEFINED is not allowed in queries", "use a built-in type"),
        ("SELECT 'a' COLLATE nocase", "COLLATE is not allowed in queries", None),
        ("SELECT message.lower() FROM logs", "a function can't be called with a dot", "write f(x) instead of x.f()"),
        ("PIVOT spans ON * USING count(*)", "a PIVOT needs a column", "PIVOT … ON column IN ('a', 'b') USING …"),
        ("DESCRIBE SELECT 1", "DESCRIBE needs the name of one table", "`SHOW TABLES` lists the tables"),
        ("SELECT has_term(message, 'two words') FROM logs", "", None),
        ("SELECT has_term(message, service_name) FROM logs", "has_term takes a text and what to look for, as a literal",
         "has_term(message, 'timeout')"),
    ],
)  # fmt: skip
def test_what_is_refused_is_said_in_words(sql: str, words: str, hint: str | None) -> None:
    """The value, what was expected, and what may have been meant."""
    if not words:
        with pytest.raises(QueryError, match="expected one word"):
            write_for_duckdb(parse(sql, SCHEMAS), {0: "(SELECT 1)"})
        return
    error = refused(sql)
    assert words in error.message
    assert hint is None or error.hint == hint


@pytest.mark.parametrize("depth", [50, 150])
def test_depth_within_the_bound_is_read(depth: int) -> None:
    """Brackets, subqueries and cases."""
    for sql in (
        "SELECT " + "(" * depth + "1" + ")" * depth,
        "SELECT * FROM " + "(SELECT * FROM " * (depth // 2) + "spans" + ")" * (depth // 2),
        "SELECT " + "abs(" * depth + "1" + ")" * depth,
    ):
        statement = parse(sql, SCHEMAS)
        assert write_for_duckdb(statement, dict.fromkeys(find_lake_tables(statement.tree), "(SELECT 1)"))


@pytest.mark.slow
def test_depth_beyond_the_bound_is_refused_in_words() -> None:
    """As is a length beyond it; long chains of one operator are no depth."""
    assert "more than 200 levels deep" in refused("SELECT " + "(" * 201 + "1" + ")" * 201).message
    assert "at most 100,000 are read" in refused("SELECT '" + "x" * 100_000 + "'").message
    assert parse("SELECT " + "1 + " * 5000 + "1", SCHEMAS).normalised_sql
    assert parse("SELECT * FROM spans WHERE " + "flags = 1 OR " * 2000 + "true", SCHEMAS).tables == ("spans",)


@pytest.mark.parametrize(
    ("sql", "parameters", "values"),
    [
        ("SELECT ?, ?", ["a", 1], ("a", 1)),
        ("SELECT $2, $1, $1", ["a", 1], (1, "a", "a")),
        ("SELECT $name, :other", {"name": True, "other": None}, (True, None)),
        ("SELECT :name", {"name": "x"}, ("x",)),
        ("SELECT :n::INT AS n", {"n": 7}, (7,)),
        ("SELECT DISTINCT :n", {"n": 7}, (7,)),
        ("WITH a AS (SELECT :n AS x) SELECT x FROM a", {"n": 7}, (7,)),
        ("(SELECT :n) INTERSECT SELECT :n", {"n": 7}, (7,)),
        ("SELECT (SELECT :a), x: :b", {"a": 1, "b": 2}, (1, 2)),
        ("WITH a AS (SELECT ? AS x) SELECT ?, x FROM a WHERE x = ? LIMIT ?", ["w", "s", "w", 5], ("s", "w")),
        ("SELECT ? || 'x' WHERE 'a' = ?", ["it's -- ? $1", "a"], ("it's -- ? $1x",)),
        ("SELECT '?', '$1', ?", ["v"], ("?", "$1", "v")),
        ("SELECT ?", [b"\x00\xff'"], (b"\x00\xff'",)),
        ("SELECT ?::VARCHAR", [datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)], ("2026-01-02 03:04:05.000006+00",)),
        ("SELECT ?::VARCHAR", [datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2)))], ("2026-01-01 22:00:00+00",)),
        ("SELECT ?", [date(2026, 1, 2)], (date(2026, 1, 2),)),
        ("SELECT typeof(?), typeof(?), typeof(?)", [1.5, -1.5, 10**20], ("DOUBLE", "DOUBLE", "HUGEINT")),
    ],
)
def test_parameters_are_bound_in_the_order_of_the_text(
    plain: duckdb.DuckDBPyConnection, sql: str, parameters: Any, values: tuple[Any, ...]
) -> None:
    """By number or by name, as values that are never read as SQL."""
    assert plain.execute(write_for_duckdb(parse(sql, SCHEMAS, parameters), {})).fetchall() == [values]


@pytest.mark.parametrize(
    ("sql", "parameters", "words"),
    [
        ("SELECT ?, ?", ["a"], "there is no value for the parameter $2"),
        ("SELECT $name", {"nome": 1}, "there is no value for the parameter $name"),
        ("SELECT ?", ["a", "b"], "the statement has no parameter $2"),
        ("SELECT 1", {"x": 1}, "the statement has no parameter $x"),
        ("SELECT ?", [object()], "the parameter $1 is a object, expected text, a number, a boolean, bytes or a time"),
        ("SELECT ?", ["\0"], "a parameter has a character that is not text"),
        ("SELECT ?", [10**40], "too large for an integer"),
    ],
)
def test_parameters_that_do_not_fit_are_said(sql: str, parameters: Any, words: str) -> None:
    """The missing one, the one too many, and the one that is no value."""
    assert words in refused(sql, parameters).message


@given(st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.floats(), st.booleans(), st.binary(max_size=20), st.none()))
def test_every_value_comes_back(plain: duckdb.DuckDBPyConnection, value: Any) -> None:
    """Exactly, with its type."""
    [[found]] = plain.execute(write_for_duckdb(parse("SELECT ?", SCHEMAS, [value]), {})).fetchall()
    assert type(found) is type(value)
    assert found == value or (math.isnan(found) and math.isnan(value))


def test_statements_that_mean_the_same_have_one_text() -> None:
    """Spacing, comments and the case of keywords do not count; names and texts do."""
    texts = {
        parse(sql, SCHEMAS).normalised_sql
        for sql in (
            "SELECT a, 'X' FROM spans WHERE b > 1",
            "select a,'X' from telemetry.spans -- c\n where b>1;",
            "/* c */ Select a, /* d */ 'X'\nFrom SPANS Where b > 1",
        )
    }
    assert len(texts) == 1
    others = {
        parse(sql, SCHEMAS).normalised_sql for sql in ("SELECT a, 'x' FROM spans WHERE b > 1", "EXPLAIN SELECT 1")
    }
    assert len(texts | others) == 3
    assert parse("SELECT ?", SCHEMAS, [1]).normalised_sql != parse("SELECT ?", SCHEMAS, [2]).normalised_sql


@pytest.mark.parametrize(
    ("sql", "volatile"),
    [
        ("SELECT count(*) FROM spans", ""),
        ("SELECT now()", "now"),
        ("SELECT * FROM spans WHERE timestamp > current_timestamp - INTERVAL 1 HOUR", "current_timestamp"),
        ("SELECT today()", "today"),
        ("SELECT current_date", "current_date"),
        ("SELECT random(), 1", "random"),
        ("SELECT (SELECT uuid())", "uuid"),
        ("SELECT * FROM spans USING SAMPLE 5", "sample"),
        ("SELECT * FROM spans TABLESAMPLE 10%", "sample"),
    ],
)
def test_what_changes_by_itself_is_said(sql: str, volatile: str) -> None:
    """So that its answer is not kept."""
    assert parse(sql, SCHEMAS).volatile == volatile


def test_sources_stand_where_tables_were() -> None:
    """With the alias that the user gave, or the name of the table; text of the user is not touched."""
    statement = parse("SELECT spans.flags, l.flags, 'spans' FROM telemetry.spans, logs AS l", SCHEMAS)
    sources = {0: "(SELECT 1 AS flags)", 1: "(SELECT 2 AS flags)"}
    expected = 'FROM (SELECT 1 AS flags) AS "spans", (SELECT 2 AS flags) AS "l"'
    assert expected in write_for_duckdb(statement, sources)
    assert expected.replace('"', "`") in write_for_spark(statement, sources)
    assert "scan" in next(iter(statement.tree.find_all(exp.Table))).meta
    with pytest.raises(QueryError, match="there is no source for table 1, logs"):
        write_for_duckdb(statement, {0: "(SELECT 1)"})


def test_columns_may_be_named_with_the_schema_of_the_table(plain: duckdb.DuckDBPyConnection) -> None:
    """As in `telemetry.spans.flags`."""
    statement = parse("SELECT telemetry.spans.flags FROM telemetry.spans", SCHEMAS)
    assert plain.execute(write_for_duckdb(statement, {0: "(SELECT 7 AS flags)"})).fetchall() == [(7,)]


@pytest.mark.parametrize(
    ("text", "term", "found"),
    [
        ("Connection Timeout!", "timeout", True),
        ("timeouts", "timeout", False),
        ("time-out", "time", True),
        ("a_b", "b", True),
        ("ÜBER alles", "über", True),
        ("x\ntimeout\ny", "TIMEOUT", True),
        ("", "a", False),
        (None, "a", None),
        ("error42", "42", False),
    ],
)
def test_has_term(plain: duckdb.DuckDBPyConnection, text: str | None, term: str, found: bool | None) -> None:
    """Whole words, whatever their case."""
    statement = parse("SELECT has_term(?, ?)", SCHEMAS, [text, term])
    assert plain.execute(write_for_duckdb(statement, {})).fetchall() == [(found,)]


@pytest.mark.parametrize(
    ("text", "phrase", "found"),
    [
        ("Connection: timed out", "timed out", True),
        ("timed  --  out", "timed out", True),
        ("timed it out", "timed out", False),
        ("untimed out", "timed out", False),
        ("timed outs", "timed-out", False),
        ("TIMED OUT", "timed-out", True),
    ],
)
def test_has_phrase(plain: duckdb.DuckDBPyConnection, text: str, phrase: str, found: bool) -> None:
    """Words in sequence, with anything but words between them."""
    statement = parse("SELECT has_phrase(?, ?)", SCHEMAS, [text, phrase])
    assert plain.execute(write_for_duckdb(statement, {})).fetchall() == [(found,)]


def test_answers_have_names_for_their_columns(plain: duckdb.DuckDBPyConnection) -> None:
    """The text of the expression where the user gave none."""
    answer = plain.execute(write_for_duckdb(parse("SELECT count(*), 1 + 1, 2 AS two", SCHEMAS), {}))
    assert [column[0] for column in answer.description] == ["count(*)", "1 + 1", "two"]


def test_tables_of_other_schemas_can_be_read() -> None:
    """What the lake has is given with each call."""
    statement = parse("SELECT sum(x) FROM t", {"t": pa.schema([("x", pa.int64())])})
    assert isinstance(statement, Statement)
    assert (statement.tables, statement.not_portable) == (("t",), "")
