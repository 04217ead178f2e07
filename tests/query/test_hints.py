"""Hints for words of other systems, and the place of an error in the statement."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import duckdb
import pytest

from neve.errors import QueryError
from neve.query.config import QueryConfig
from neve.query.request import Request
from neve.query.service import QueryService, no_limits
from neve.query.sql.error_text import explain_engine_error
from neve.query.sql.hints import COLUMN_HINTS, FILES_HINT, FUNCTION_HINTS, LANGUAGES, duckdb_functions
from neve.query.sql.identifiers import KNOWN
from neve.query.sql.statement import OTHER_STATEMENTS, parse
from tests.query.engines import SCHEMAS
from tests.query.lakes import ACME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neve.lake.lake import Lake


@pytest.fixture(scope="module")
def service(lake: Lake) -> Iterator[QueryService]:
    """A service over a small lake."""
    service = QueryService(lake, QueryConfig(), limits=no_limits)
    yield service
    service.close()


def refuse(service: QueryService, sql: str) -> QueryError:
    """The error of a statement."""
    with pytest.raises(QueryError) as caught:
        list(service.start(Request(sql, ACME)).batches())
    return caught.value


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELCT 1", "syntax error near 'SELCT' (line 1, column 1)\n  SELCT 1\n  ^", "did you mean SELECT?"),
        (
            "SELECT 1 FRM logs",
            "syntax error near 'FRM' (line 1, column 10)\n  SELECT 1 FRM logs\n           ^",
            "did you mean FROM?",
        ),
        (
            "SELECT a,\n  b b2 c\nFROM logs",
            "syntax error near 'c' (line 2, column 8)\n    b b2 c\n         ^",
            None,
        ),
        ("SELECT 'abc", "syntax error: a quote is not closed", None),
        (
            "SELECT `message` FROM logs",
            "syntax error near '`' (line 1, column 8)\n  SELECT `message` FROM logs\n         ^",
            'write names without quotes, or in double quotes: "message"',
        ),
        ("SELECT TOP 10 * FROM logs", "syntax error near '10'", "write LIMIT at the end: SELECT … LIMIT 10"),
        (
            "SELECT * FROM logs WHERE timestamp > now() - 1h",
            "can't read the number 1h (line 1, column 46)",
            "write an interval: now() - INTERVAL 1 hour",
        ),
        (
            "SELECT * FROM logs LIMIT 10 BY service_name",
            "LIMIT … BY is not allowed in queries",
            "write QUALIFY row_number() OVER (PARTITION BY service_name ORDER BY timestamp) <= 10",
        ),
        (
            "SELECT quantile(0.95)(duration_ms) FROM spans",
            "a call with two lists of arguments is not allowed in queries",
            "write quantile_cont(x, 0.95) instead of quantile(0.95)(x)",
        ),
        (
            "SELECT\n  toStartOfMinute(timestamp) FROM logs",
            "unknown function toStartOfMinute (line 2, column 3)\n    toStartOfMinute(timestamp) FROM logs\n    ^",
            "write date_trunc('minute', timestamp)",
        ),
        ("SELECT read_text('x')", "the function read_text is not allowed in queries", FILES_HINT),
        ("SELECT * FROM 'x.parquet'", "'x.parquet' is not a table of the lake", FILES_HINT),
        (
            'SELECT * FROM logs WHERE service_name = "cart"',
            "unknown column 'cart' (line 1, column 41)",
            "a text has single quotes: 'cart'",
        ),
        (
            "SELECT date_diff(minute, timestamp, now()) FROM logs",
            "unknown column 'minute' (line 1, column 18)",
            "a unit of time is a text: 'minute'",
        ),
        (
            "SELECT body.x FROM logs",
            "unknown table or column 'body' (line 1, column 8)",
            "did you mean message? `DESCRIBE logs` lists the columns",
        ),
        (
            "SELECT attributes.http.route FROM spans",
            "attributes.http.route is not a column (line 1, column 8)",
            "an attribute has its whole name in brackets: attributes['http.route']",
        ),
        ("FROM logs | stats count() by service", "syntax error near '|'", "SQL has no pipes: SELECT service_name"),
        ("SELECT uniq(message) FROM logs", "unknown function uniq", "write count(DISTINCT x)"),
        ("SELECT body FROM logs", "unknown column 'body'", "did you mean message? `DESCRIBE logs` lists the columns"),
        (
            "SELECT s.name FROM metrics AS s",
            "unknown column 'name' (line 1, column 10)",
            "did you mean metric_name? `DESCRIBE metrics` lists the columns",
        ),
        (
            "SELECT Duration FROM spans",
            "unknown column 'Duration'",
            "did you mean duration_ms? `DESCRIBE spans` lists the columns",
        ),
        (
            "SELECT l.severity_text FROM spans JOIN logs AS l USING (trace_id) WHERE mesage = 'x'",
            "unknown column 'mesage'",
            "did you mean message? `DESCRIBE logs` lists the columns",
        ),
        ("SELECT zzz FROM logs", "unknown column 'zzz'", "`DESCRIBE logs` lists the columns"),
        ("SELECT current_user", "CURRENT USER is not allowed in queries", "requests have an API key, and no user"),
    ],
)
def test_errors_have_a_place_and_a_hint(service: QueryService, sql: str, message: str, hint: str | None) -> None:
    """The word as it was written, its line with a caret, and what to write instead."""
    error = refuse(service, sql)
    assert error.message.startswith(message)
    assert (error.hint or "").startswith(hint) if hint else error.hint is None


def test_statements_that_do_not_read_have_a_hint() -> None:
    """Each statement of DuckDB that is refused says what to do instead, and those of other systems too."""
    for kind in (*OTHER_STATEMENTS - {"COMMENT", "EXPLAIN", "FORCE"}, "GRANT"):
        with pytest.raises(QueryError, match="expected one that only reads") as caught:
            parse(f"{kind} SELECT ON logs TO x", SCHEMAS)
        assert caught.value.hint, kind
    with pytest.raises(QueryError) as caught:
        parse("SET TimeZone = 'Europe/Rome'", SCHEMAS)
    assert "SET TimeZone = 'Europe/Berlin'; SELECT" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("rate(http_requests_total[5m])", "PromQL"),
        ('sum(rate(http_requests_total{job="x"}[5m])) by (job)', "PromQL"),
        ('sum by (job) (up{job="x"})', "PromQL"),
        ('http_requests_total{job="x"}', "PromQL"),
        ("histogram_quantile(0.9, sum by (le) (rate(x_bucket[5m])))", "PromQL"),
        ('{app="cart"} |= "error"', "LogQL"),
        ('{app="cart", level=~"err.*"} | json | status >= 500', "LogQL"),
        ('count_over_time({app="x"}[5m])', "LogQL"),
        ("{ span.http.status_code >= 200 && duration > 1s }", "TraceQL"),
        ("{ resource.service.name = 'cart' }", "TraceQL"),
        ("{ .http.route = '/pay' } | count() > 2", "TraceQL"),
    ],
)
def test_another_language_is_recognized(service: QueryService, text: str, language: str) -> None:
    """With the option that evaluates it, and with a statement that is similar and works."""
    error = refuse(service, text)
    assert error.message == f"this looks like {language}, expected SQL"
    option, _, example = (error.hint or "").partition("for example: ")
    assert f"`neve query --{language.lower()}`" in option
    assert parse(example, SCHEMAS).tables


@pytest.mark.parametrize("sql", ["SELECT {'a': 1} AS x", "SELECT max(x) FROM (VALUES (1)) AS t(x)", "FROM range(2)"])
def test_sql_is_not_taken_for_another_language(service: QueryService, sql: str) -> None:
    """Braces and functions are SQL as well."""
    assert list(service.start(Request(sql, ACME)).batches())


def test_hints_name_what_exists() -> None:
    """Columns of the tables, functions that are allowed, and no function that is allowed already."""
    columns = {name for schema in SCHEMAS.values() for name in schema.names}
    assert {name for names in COLUMN_HINTS.values() for name in names} <= columns
    assert not set(FUNCTION_HINTS) & KNOWN
    for hint in set(FUNCTION_HINTS.values()):
        words = {word for word in hint.replace("(", "( ").split() if word.endswith("(")}
        assert {word[:-1].lower() for word in words if word[:-1].isidentifier()} <= KNOWN | {"over", "filter", "list"}
    assert "read_parquet" in duckdb_functions()
    assert len(LANGUAGES) == 3


def test_an_engines_error_shows_what_the_user_wrote() -> None:
    """The name is looked for in the user's text; a name that is not there has no place."""
    error = QueryError('Binder Error: Referenced column "x" not found in FROM clause!')
    assert "unknown column 'x' (line 1, column 8)" in explain_engine_error(error, "SELECT X FROM t", {}).message
    assert explain_engine_error(error, "SELECT y", {}).message == "unknown column 'x'"
    other = QueryError("Conversion Error: no")
    assert explain_engine_error(other, "SELECT 1", {}) is other


@pytest.mark.slow
def test_long_words_and_lines_are_cheap() -> None:
    """A statement of the greatest length is refused quickly, with a part of its line."""
    began = time.thread_time()
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT {'x' * 99_000}(1)", SCHEMAS)
    assert len(caught.value.message) < 400
    with pytest.raises(QueryError) as caught:
        parse(f"SELECT {'1, ' * 9_000} FROM logs WHERE )", SCHEMAS)
    assert len(caught.value.message) < 400
    assert time.thread_time() - began < 5


def test_duckdb_lists_its_functions() -> None:
    """Names are folded as in statements."""
    [(count,)] = duckdb.sql("SELECT count(DISTINCT lower(function_name)) FROM duckdb_functions()").fetchall()
    assert abs(len(duckdb_functions()) - count) < 5
