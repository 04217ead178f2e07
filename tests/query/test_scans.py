"""What a statement asks of each table: never less than DuckDB needs, and as much as can be known."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, LiteralPredicate, Or
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.typedef import Record
from sqlglot import exp

from neve.lake.tokenizer import tokenize
from neve.predicate.expressions import compare_column, is_nan, is_null, not_null, starts_with
from neve.query.planning.scans import Scan, find_scans
from neve.query.sql.dialect import read, write
from neve.query.sql.references import SCAN, find_lake_tables
from neve.query.sql.statement import Statement
from tests.query.predicates import CREATE, EPOCH, FIELDS, SCHEMA, conditions, joined, nested, tables
from tests.query.quick import connect

SCHEMAS = {"t": SCHEMA, "u": SCHEMA}
read("SELECT 1")  # reading raises the limit of recursion once, which Hypothesis would notice


def scans(sql: str) -> tuple[Scan, ...]:
    """The scans of a text; the tables t and u are of the lake unless a WITH takes the name."""
    [tree] = read(sql)
    return find_scans(marked_as(tree), SCHEMAS)


def marked_as(tree: exp.Expression) -> Statement:
    """A statement with its tables numbered."""
    for number, table in enumerate(table for table in tree.find_all(exp.Table) if table.name in SCHEMAS):
        table.meta[SCAN] = number
    return Statement(tree, "select")


def scan(sql: str) -> Scan:
    """The one scan of a text."""
    [only] = scans(sql)
    return only


def record(row: dict[str, Any]) -> Record:
    """A row as pyiceberg sees it."""
    values = {name: row[name] for name in FIELDS}
    if values["t"] is not None:
        since = values["t"] - EPOCH
        values["t"] = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
    if values["d"] is not None:
        values["d"] = (values["d"] - EPOCH.date()).days
    return Record(*values.values())


def kept(rows: list[dict[str, Any]], found: Scan) -> list[dict[str, Any]]:
    """The rows that a scan keeps."""
    test = expression_evaluator(SCHEMA, found.predicate, case_sensitive=True)
    words = dict(found.tokens)
    return [
        row
        for row in rows
        if test(record(row)) and all(some <= tokenize(row[column] or "") for column, some in words.items())
    ]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """A DuckDB with empty tables t and u."""
    connection = connect(config={"threads": 1})
    connection.execute("SET TimeZone = 'UTC'")
    for name in SCHEMAS:
        connection.execute(f"CREATE TABLE {name} {CREATE}")
    return connection


def fill(database: duckdb.DuckDBPyConnection, name: str, rows: list[dict[str, Any]]) -> None:
    """Put rows into a table in the place of what is there."""
    database.execute(f"DELETE FROM {name}")
    if rows:
        database.executemany(
            f"INSERT INTO {name} VALUES ({', '.join('?' * len(FIELDS))})", [[row[of] for of in FIELDS] for row in rows]
        )


def answer(database: duckdb.DuckDBPyConnection, sql: str) -> Counter[str] | None:
    """The rows of an answer in no order; `None` where DuckDB refuses."""
    try:
        return Counter(map(repr, database.execute(sql).fetchall()))
    except duckdb.Error:
        return None


FREE = settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@FREE
@given(rows=tables, condition=conditions())
def test_no_row_of_an_answer_is_pruned(
    database: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], condition: str
) -> None:
    """Every row that DuckDB returns satisfies what was extracted."""
    fill(database, "t", rows)
    sql = f"SELECT id FROM t WHERE {condition}"
    found = scan(sql)
    try:
        wanted = {row[0] for row in database.execute(sql).fetchall()}
    except duckdb.Error:
        return
    assert wanted <= {row["id"] for row in kept(rows, found)}, str(found.predicate)


def pruned_answer(
    database: duckdb.DuckDBPyConnection, sql: str, rows: dict[str, list[dict[str, Any]]]
) -> Counter[str] | None:
    """The answer over what the scans keep: each reference to a table has rows of its own."""
    [tree] = read(sql)
    found = find_scans(marked_as(tree), SCHEMAS)
    for number, table in find_lake_tables(tree).items():
        name = f"kept{number}"
        database.execute(f"CREATE OR REPLACE TABLE {name} {CREATE}")
        fill(database, name, kept(rows[table.name], found[number]))
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name)))
        table.set("this", exp.to_identifier(name))
    return answer(database, write(tree))


@pytest.mark.slow
@FREE
@given(first=tables, second=tables, sql=joined() | nested())
def test_pruning_changes_no_answer(
    database: duckdb.DuckDBPyConnection, first: list[dict[str, Any]], second: list[dict[str, Any]], sql: str
) -> None:
    """Joins, subqueries and WITH give the same rows over what the scans keep as over everything."""
    fill(database, "t", first)
    fill(database, "u", second)
    expected = answer(database, sql)
    assume(expected is not None)
    assert pruned_answer(database, sql, {"t": first, "u": second}) == expected


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("n = 5", compare_column("n", "=", 5)),
        ("5 < N", compare_column("n", ">", 5)),
        ("n < 1.5", compare_column("n", "<=", 1)),
        ("n <> 1.5", not_null("n")),
        ("n IS DISTINCT FROM 5", Or(compare_column("n", "<>", 5), is_null("n"))),
        ("n IS NOT DISTINCT FROM NULL", is_null("n")),
        ("n = 1.5", AlwaysFalse()),
        ("n > 3000000000", AlwaysFalse()),
        ("NOT (n >= 5 OR s = 'a')", And(compare_column("n", "<", 5), compare_column("s", "<>", "a"))),
        ("n BETWEEN 1 AND 2", And(compare_column("n", ">=", 1), compare_column("n", "<=", 2))),
        ("n IN (1, 2, NULL)", Or(compare_column("n", "=", 1), compare_column("n", "=", 2))),
        ("x < 0.5", compare_column("x", "<", 0.5)),
        ("x > 0.5", Or(compare_column("x", ">", 0.5), is_nan("x"))),
        ("s LIKE 'ab%c'", starts_with("s", "ab")),
        ("s LIKE 'ab'", compare_column("s", "=", "ab")),
        ("s LIKE 'a!%%' ESCAPE '!'", starts_with("s", "a%")),
        ("starts_with(s, 'ab')", starts_with("s", "ab")),
        ("s LIKE '%a'", not_null("s")),
        ("b = unhex('00ff')", compare_column("b", "=", b"\x00\xff")),
        ("f AND NOT f", And(compare_column("f", "=", True), compare_column("f", "=", False))),
        ("s IS NULL", is_null("s")),
        ("t.s IS NOT NULL", not_null("s")),
        ("t >= '1970-01-01 00:00:01'", compare_column("t", ">=", TimestampLiteral(10**6))),
        ("t < TIMESTAMP '1970-01-01 01:00:00' - INTERVAL 1 HOUR", compare_column("t", "<", TimestampLiteral(0))),
        ("CAST(t AS DATE) <= '1970-01-01'", compare_column("t", "<", TimestampLiteral(86_400_000_000))),
        ("date_trunc('hour', t) >= '1970-01-01'", compare_column("t", ">=", TimestampLiteral(0))),
        ("date_trunc('hour', t) = '1970-01-01 00:30'", AlwaysFalse()),
        ("d = DATE '1970-01-02'", compare_column("d", "=", DateLiteral(1))),
    ],
)
def test_what_is_said(condition: str, said: BooleanExpression) -> None:
    """Every form that Iceberg has words for."""
    assert scan(f"SELECT * FROM t WHERE {condition}").predicate == said


@pytest.mark.parametrize(
    "condition",
    [
        *("n = 5 OR length(s) = 1", "n = s", "s = 5", "n = 'x'", "lower(s) = 'a'", "n + 1 = 2"),
        *("s ILIKE 'a%'", "s NOT LIKE 'a%'", "x = 'NaN'::DOUBLE", "x < 'inf'::DOUBLE"),
        *("big = 9007199254740993::DOUBLE", "n IN (SELECT n FROM u)", "s = 'a' COLLATE NOCASE"),
        *("t < 'infinity'", "nothing = 5", "other.n = 5", "CAST(n AS VARCHAR) = '5'", "n = random()", "x::FLOAT = 1"),
    ],
)
def test_what_is_left_alone(condition: str) -> None:
    """In doubt nothing is said."""
    assert scans(f"SELECT * FROM t WHERE {condition}")[0] == Scan(0, "t", AlwaysTrue())


def test_the_clock_moves_on() -> None:
    """A bound that depends on it is wider than what is asked for, on both sides."""
    found = [scan(f"SELECT * FROM t WHERE t {operator} now() - INTERVAL 1 HOUR").predicate for operator in "<>"]
    hour_ago = (time.time() - 3600) * 10**6
    upper, lower = (part.literal.value for part in found if isinstance(part, LiteralPredicate))
    assert lower < hour_ago - 60 * 10**6
    assert upper > hour_ago + 3600 * 10**6


@pytest.mark.parametrize(
    ("sql", "first", "second"),
    [
        ("FROM t JOIN u ON t.id = u.id AND t.n = 1 AND u.n = 2", 1, 2),
        ("FROM t JOIN u USING (id) WHERE t.n = 1 AND u.n = 2", 1, 2),
        ("FROM t, u WHERE t.n = 1 AND u.n = 2", 1, 2),
        ("FROM t LEFT JOIN u ON t.n = 1 AND u.n = 2", None, 2),
        ("FROM t LEFT JOIN u ON true WHERE t.n = 1 AND u.n = 2", 1, 2),
        ("FROM t RIGHT JOIN u ON t.n = 1 AND u.n = 2", 1, None),
        ("FROM t FULL JOIN u ON t.n = 1 AND u.n = 2", None, None),
        ("FROM t FULL JOIN u ON true WHERE t.n = 1", 1, None),
        ("FROM t SEMI JOIN u ON t.n = 1 AND u.n = 2", 1, 2),
        ("FROM t ANTI JOIN u ON t.n = 1 AND u.n = 2", None, 2),
        ("FROM t ASOF JOIN u ON t.id >= u.id AND t.n = u.n WHERE t.n = 1 AND u.n = 2", 1, None),
        ("FROM t JOIN u ON true WHERE n = 1", None, None),
        ("FROM (SELECT 1) AS c JOIN (SELECT 2) AS e ON false RIGHT JOIN t ON t.n = 1 RIGHT JOIN u ON t.n = 1", 1, None),
        ("FROM t WHERE t.n = 1 AND EXISTS (SELECT 1 FROM u WHERE u.n = 2 AND t.s = u.s)", 1, 2),
        ("FROM t JOIN (SELECT n AS m FROM u) AS c ON true WHERE m = 2 AND t.n = 1", 1, 2),
    ],
)
def test_each_table_of_a_join(sql: str, first: int | None, second: int | None) -> None:
    """A condition counts for a table where rows that fail it can't matter."""
    expected = [AlwaysTrue() if value is None else compare_column("n", "=", value) for value in (first, second)]
    assert [found.predicate for found in scans(f"SELECT 1 {sql}")] == expected


@pytest.mark.parametrize(
    ("sql", "is_said"),
    [
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE n = 1", True),
        ("WITH c AS (SELECT * FROM t), e AS (SELECT n AS m FROM c) SELECT * FROM e WHERE m = 1", True),
        ("SELECT * FROM (SELECT n, count(*) AS c FROM t GROUP BY n HAVING count(*) > 1) WHERE n = 1", True),
        ("SELECT * FROM (SELECT DISTINCT n FROM t ORDER BY n) WHERE n = 1", True),
        ("SELECT n + 1 AS n FROM t WHERE n = 1", True),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c JOIN c AS e ON true WHERE c.n = 1", False),
        ("SELECT * FROM (SELECT * FROM t LIMIT 5) WHERE n = 1", False),
        ("SELECT * FROM (SELECT n + 1 AS n FROM t) WHERE n = 1", False),
        ("SELECT * FROM (SELECT n, row_number() OVER () AS r FROM t) WHERE n = 1", False),
        ("SELECT * FROM (SELECT max(n) AS n FROM t) WHERE n = 1", False),
        ("SELECT * FROM (SELECT DISTINCT ON (s) * FROM t) WHERE n = 1", False),
        ("SELECT * FROM (SELECT n FROM t GROUP BY CUBE (n)) WHERE n = 1", False),
        ("SELECT n FROM t GROUP BY n HAVING n = 1", False),
        ("SELECT n FROM t QUALIFY n = 1", False),
        ("SELECT * FROM t TABLESAMPLE 5 WHERE n = 1", False),
        ("SELECT * FROM t AS c (n, id) WHERE n = 1", False),
        ("SELECT * FROM (SELECT * FROM t) AS c (n, id) WHERE n = 1", False),
    ],
)
def test_through_other_queries(sql: str, is_said: bool) -> None:
    """A condition on a result counts for the table where it could as well have been asked there."""
    assert scan(sql).predicate == (compare_column("n", "=", 1) if is_said else AlwaysTrue())


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("has_term(s, 'Timeout')", {"timeout"}),
        ("has_phrase(s, 'Pool exhausted, now')", {"pool", "exhausted", "now"}),
        ("s = 'Pool exhausted'", {"pool", "exhausted"}),
        ("'a-b' = s", {"a", "b"}),
        ("s LIKE '% pool exhausted %'", {"pool", "exhausted"}),
        ("s LIKE '%pool exhausted%'", set()),
        ("s ILIKE '%a Pool b%'", {"pool"}),
        ("s LIKE 'pool exhausted%'", {"pool"}),
        ("s LIKE 'pool_exhausted now'", {"now"}),
        ("s LIKE '% café %'", {"café"}),
        ("s ILIKE '% café %'", set()),
        ("s NOT LIKE '% pool %'", set()),
        ("NOT has_term(s, 'a')", set()),
        ("has_term(s, 'a') OR n = 1", set()),
        ("(has_term(s, 'a') AND (n = 1 AND has_term(s, 'b')))", {"a", "b"}),
        ("has_term(lower(s), 'a')", set()),
    ],
)
def test_words_that_must_be_there(condition: str, words: set[str]) -> None:
    """Whole words only: a part of a word is in no index."""
    assert dict(scan(f"SELECT * FROM t WHERE {condition}").tokens) == ({"s": frozenset(words)} if words else {})


@pytest.mark.slow
def test_a_long_list_becomes_a_range() -> None:
    """Iceberg looks at two hundred values one by one, and at no more."""
    members = ", ".join(map(str, range(1000)))
    assert scan(f"SELECT * FROM t WHERE n IN ({members})").predicate == And(
        compare_column("n", ">=", 0), compare_column("n", "<=", 999)
    )


@pytest.mark.slow
def test_a_long_chain_is_no_deep_tree() -> None:
    """Hundreds of alternatives are as good as one."""
    condition = " OR ".join(f"n = {number}" for number in range(500))
    assert kept([dict.fromkeys(FIELDS) | {"n": 499}], scan(f"SELECT * FROM t WHERE {condition}"))
