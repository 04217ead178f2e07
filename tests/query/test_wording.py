"""What EXPLAIN says files are told apart by: SQL that DuckDB itself takes for the same condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, Or
from pyiceberg.expressions.literals import DateLiteral, TimestampLiteral
from pyiceberg.expressions.visitors import expression_evaluator

from neve.predicate.expressions import compare_column, is_null, not_null, starts_with
from neve.query.planning.scans import format_predicate
from tests.query.predicates import SCHEMA, conditions, tables
from tests.query.test_scans import database, fill, record, scan

if TYPE_CHECKING:
    import duckdb
    from pyiceberg.expressions import BooleanExpression

__all__ = ["database"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (AlwaysTrue(), ""),
        (AlwaysFalse(), "false"),
        (
            And(compare_column("a", "=", "it's"), Or(is_null("b"), compare_column("x", ">", 1.5))),
            "a = 'it''s' AND (b IS NULL OR x > 1.5)",
        ),
        (
            Or(And(compare_column("a", "=", 1), compare_column("b", "<", 2)), not_null("c")),
            "(a = 1 AND b < 2) OR c IS NOT NULL",
        ),
        (And(Or(compare_column("a", "=", 1), compare_column("a", "=", 2)), is_null("b")), "a IN (1, 2) AND b IS NULL"),
        (
            And(And(compare_column("a", "=", 1), compare_column("b", "=", 2)), compare_column("c", "=", True)),
            "a = 1 AND b = 2 AND c = TRUE",
        ),
        (starts_with("s", "a%"), "starts_with(s, 'a%')"),
        (compare_column("b", "=", b"\x01\xff"), "b = unhex('01ff')"),
        (compare_column("d", "=", DateLiteral(20_000)), "d = DATE '2024-10-04'"),
        (
            compare_column("t", "<", TimestampLiteral(1_760_000_000_123_456)),
            "t < TIMESTAMP '2025-10-09 08:53:20.123456+00'",
        ),
        (compare_column("t", "<", TimestampLiteral(10**18)), "t < make_timestamptz(1000000000000000000)"),
    ],
)
def test_expressions_in_words(expression: BooleanExpression, words: str) -> None:
    """No more parentheses than are needed; values of one column in a list."""
    assert format_predicate(expression) == words


def test_words_of_an_index_are_said() -> None:
    """With the conditions, and alone."""
    tokens = (("message", frozenset({"pool", "empty"})),)
    assert format_predicate(AlwaysTrue(), tokens) == "has_term(message, 'empty') AND has_term(message, 'pool')"
    either = Or(compare_column("a", "=", 1), compare_column("b", "=", 2))
    assert format_predicate(either, (("m", frozenset({"x"})),)) == "(a = 1 OR b = 2) AND has_term(m, 'x')"


@pytest.mark.slow
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=tables, condition=conditions())
def test_the_words_mean_what_the_expression_does(
    database: duckdb.DuckDBPyConnection, rows: list[dict[str, Any]], condition: str
) -> None:
    """DuckDB keeps the rows for the words that Iceberg keeps for the expression; nulls and NaN are another matter."""
    predicate = scan(f"SELECT id FROM t WHERE {condition}").predicate
    test = expression_evaluator(SCHEMA, predicate, case_sensitive=True)
    whole = [row for row in rows if all(value is not None and value == value for value in row.values())]  # noqa: PLR0124
    fill(database, "t", whole)
    found = database.execute(f"SELECT id FROM t WHERE {format_predicate(predicate) or 'true'}").fetchall()
    assert {number for [number] in found} == {row["id"] for row in whole if test(record(row))}
