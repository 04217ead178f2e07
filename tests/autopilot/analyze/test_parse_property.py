"""Filters against DuckDB: leaving out rows that a filter excludes never changes an answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.workload.queries import Query
from neve.autopilot.workload.query_parser import IgnoredQuery, parse_query
from neve.autopilot.workload.tables import Tables
from neve.predicate.filters import AnyOf, Filter
from tests.autopilot.analyze.evaluate import may_pass, understood
from tests.autopilot.analyze.schemas import OTHERS, ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLES = Tables({"s.t": ROWS, "s.u": OTHERS})
FILL = """
CREATE TABLE t AS SELECT i AS id,
  CASE WHEN i % 7 = 0 THEN NULL ELSE i % 5 END::BIGINT AS a,
  CASE WHEN i % 11 = 0 THEN NULL ELSE ['', 'a', 'ab', 'b', 'a_c', 'B'][i % 6 + 1] END AS b,
  CASE WHEN i % 13 = 0 THEN NULL ELSE TIMESTAMP '2025-12-30 00:00:00' + INTERVAL (i * 7) HOUR END AS c,
  CASE WHEN i % 9 = 0 THEN NULL ELSE DATE '2025-12-28' + CAST(i % 10 AS INTEGER) END AS d,
  CASE WHEN i % 8 = 0 THEN NULL ELSE (i % 6) / 2.0 END::DOUBLE AS e,
  CASE WHEN i % 10 = 0 THEN NULL ELSE (i % 7) * 0.25 END::DECIMAL(8, 2) AS f,
  CASE WHEN i % 3 = 0 THEN NULL ELSE i % 2 = 0 END AS g,
  CASE WHEN i % 4 = 0 THEN MAP {} ELSE MAP {'k': 'v' || (i % 3)} END AS m
FROM range(60) r(i);
CREATE TABLE u AS SELECT CASE WHEN i = 5 THEN NULL ELSE i END AS k, 'w' || i AS w FROM range(7) r(i);
CREATE TABLE kept_ids (id BIGINT);
CREATE SCHEMA kept;
CREATE VIEW kept.t AS SELECT * FROM main.t WHERE id IN (SELECT id FROM main.kept_ids);
CREATE VIEW kept.u AS SELECT * FROM main.u;
"""

numbers = st.sampled_from(["0", "1", "3", "4", "1.5", "-1", "2 + 1", "NULL"])
texts = st.sampled_from(["''", "'a'", "'ab'", "'b'", "'zz'", "NULL"])
times = st.sampled_from(
    ["TIMESTAMP '2026-01-01 00:00:00'", "TIMESTAMP '2026-01-03 05:00:00'", "DATE '2026-01-02'", "'2026-01-01 07:00:00'"]
)
days = st.sampled_from(["DATE '2026-01-01'", "DATE '2025-12-30' + INTERVAL 1 DAY", "'2026-01-02'", "DATE '2025-12-31'"])
operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
TIME_TERMS = [
    *("{t}c", "{t}c::DATE", "CAST({t}c AS DATE)"),
    *(f"date_trunc('{unit}', {{t}}c)" for unit in ("hour", "day", "week", "month")),
]
PATTERNS = ["'a%'", "'a'", "'%b'", "'a\\_%'", "'a_'", "'a%b'", "''"]


def _compared(terms: list[str], values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    term = st.sampled_from(terms)
    both = st.tuples(term, operators, values, st.booleans()).map(
        lambda one: f"{one[2]} {one[1]} {one[0]}" if one[3] else f"{one[0]} {one[1]} {one[2]}"
    )
    among = st.tuples(term, st.lists(values, min_size=1, max_size=3), st.sampled_from(["", "NOT "])).map(
        lambda one: f"{one[0]} {one[2]}IN ({', '.join(one[1])})"
    )
    between = st.tuples(term, values, values).map(lambda one: f"{one[0]} BETWEEN {one[1]} AND {one[2]}")
    null = st.tuples(term, st.sampled_from(["IS NULL", "IS NOT NULL"])).map(" ".join)
    same = st.tuples(term, st.sampled_from(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]), values).map(" ".join)
    return both | among | between | null | same


leaves = (
    _compared(["{t}a", "CAST({t}a AS BIGINT)", "{t}e", "{t}f", "{t}a + 1"], numbers)
    | _compared(["{t}b", "lower({t}b)", "substring({t}b, 1, 1)", "{t}m['k']"], texts)
    | _compared(TIME_TERMS, times)
    | _compared(["{t}d", "date_trunc('month', {t}d)", "CAST({t}d AS DATE)"], days)
    | _compared(["year({t}c)", "year({t}d)"], st.sampled_from(["2025", "2026", "2027"]))
    | st.sampled_from(PATTERNS).map(lambda one: f"{{t}}b LIKE {one}")
    | st.sampled_from(PATTERNS).map(lambda one: f"{{t}}b NOT LIKE {one}")
    | st.sampled_from(["{t}g", "NOT {t}g", "{t}g IS TRUE", "starts_with({t}b, 'a')", "{t}a = {t}id", "1 = 0", "TRUE"])
)
conditions = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(inner, st.sampled_from([" AND ", " OR "]), inner).map(lambda one: f"({one[0]}{one[1]}{one[2]})")
        | inner.map(lambda one: f"NOT ({one})")
    ),
    max_leaves=6,
)

SHAPES = [
    "SELECT x.id, u.w FROM u LEFT JOIN t x ON x.a = u.k AND {x0} WHERE {x1}",
    "SELECT x.id, u.w FROM t x LEFT JOIN u ON x.a = u.k AND {x0} WHERE {x1}",
    "SELECT x.id, u.w FROM t x RIGHT JOIN u ON x.a = u.k AND {x0} WHERE {x1}",
    "SELECT x.id, u.w FROM t x FULL JOIN u ON x.a = u.k AND {x0} WHERE {x1}",
    "SELECT x.id FROM t x JOIN u ON x.a = u.k WHERE ({x0} AND u.w = 'w1') OR ({x1} AND u.w > 'w2')",
    "SELECT x.id FROM t x WHERE {x0} AND x.id IN (SELECT t.id FROM t WHERE {t1})",
    "SELECT u.w FROM u WHERE EXISTS (SELECT 1 FROM t x WHERE x.a = u.k AND {x0}) OR u.k = 3",
    "SELECT u.w FROM u ANTI JOIN t x ON x.a = u.k AND {x0}",
    "WITH q AS (SELECT * FROM t WHERE {t0}) SELECT x.id FROM q x JOIN q y ON x.id = y.id WHERE {x1}",
    "SELECT x.a, count(*) FROM (SELECT a, b, c, d, e, f, g, m, id FROM t) x WHERE {x0} GROUP BY 1",
    "SELECT * FROM (SELECT t.a, max(t.id) AS id FROM t WHERE {t0} GROUP BY t.a) x WHERE x.a > 1 AND x.id < 40",
    "SELECT * FROM (SELECT t.*, row_number() OVER (PARTITION BY t.a ORDER BY t.id) AS n FROM t) x "
    "WHERE x.n = 1 AND {x0}",
    "SELECT x.id FROM (SELECT * FROM t ORDER BY id LIMIT 20) x WHERE {x0}",
    "SELECT x.id FROM (SELECT * FROM t WHERE {t0} UNION ALL SELECT * FROM t) x WHERE {x1}",
    "SELECT x.id FROM (SELECT * FROM t EXCEPT SELECT * FROM t WHERE {t0}) x WHERE {x1}",
    "SELECT u.w, x.id FROM u LEFT JOIN (t x JOIN u v ON x.a = v.k AND {x0}) ON x.a = u.k WHERE {x1}",
    "SELECT a.id FROM t a LEFT JOIN t x ON a.id = x.a AND {x0} WHERE x.id IS NULL",
]


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the rows."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'; SET threads = 1")
        connection.execute(FILL)
        yield connection


@pytest.fixture(scope="module")
def rows(duck: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows, as Python has them."""
    cursor = duck.execute("SELECT * FROM t ORDER BY id")
    names = [one[0] for one in cursor.description or []]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _filter(sql: str) -> Filter:
    logged = LoggedQuery("q", "neve", datetime(2026, 1, 2, tzinfo=UTC), sql, "duckdb", schema="s")
    result = parse_query(logged, TABLES)
    if isinstance(result, IgnoredQuery):
        assert result.reason == "reads no rows"
        return AnyOf(())
    assert isinstance(result, Query), result
    return next((use.filter for use in result.uses if use.table == "s.t"), AnyOf(()))


@given(condition=conditions)
@settings(max_examples=150)
def test_no_row_that_a_query_keeps_is_excluded(
    duck: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], condition: str
) -> None:
    """A filter lets through every row that DuckDB keeps; where all of it is understood, no other row."""
    sql = f"SELECT id FROM t WHERE {condition.format(t='')}"
    kept = {row[0] for row in duck.execute(sql).fetchall()}
    found = _filter(sql)
    passing = {row["id"] for row in rows if may_pass(found, row)}
    assert kept <= passing
    if understood(found) and "%b" not in sql and "a\\_" not in sql and "'a_'" not in sql:
        assert kept == passing


@pytest.mark.long
@given(shape=st.sampled_from(SHAPES), first=conditions, second=conditions)
@settings(max_examples=150)
def test_leaving_out_excluded_rows_changes_no_answer(
    duck: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], shape: str, first: str, second: str
) -> None:
    """Whatever the shape of a query, it answers the same from the rows that its filter lets through."""
    sql = shape.format(
        x0=first.format(t="x."), x1=second.format(t="x."), t0=first.format(t="t."), t1=second.format(t="t.")
    )
    found = _filter(sql)
    ids = [(row["id"],) for row in rows if may_pass(found, row)]
    duck.execute("DELETE FROM main.kept_ids")
    if ids:
        duck.execute(f"INSERT INTO main.kept_ids VALUES {', '.join(f'({one[0]})' for one in ids)}")
    answers = []
    for schema in ("main", "kept"):
        duck.execute(f"SET schema = '{schema}'")
        answers.append(sorted(duck.execute(sql).fetchall(), key=repr))
    duck.execute("SET schema = 'main'")
    assert answers[0] == answers[1]
