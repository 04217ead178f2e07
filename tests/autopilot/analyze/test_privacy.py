"""No value of a query leaves the machine."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.workload.privacy import (
    extract_skeleton,
    fingerprint_query,
    format_filter,
    redact_query,
)
from tests.autopilot.analyze.schemas import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = datetime(2026, 1, 1, tzinfo=UTC)
DIALECTS = ("trino", "clickhouse", "spark", "duckdb")
ENGINES = {"trino": "trino", "clickhouse": "clickhouse", "spark": "spark", "duckdb": "neve"}
# Secrets that no other word of a report has in it.
secrets = st.text("QXZ", min_size=6, max_size=10)
numbers = st.integers(7_000_000_000, 7_999_999_999)


@pytest.mark.parametrize(
    ("dialect", "text", "said"),
    [
        ("trino", "SELECT a FROM t WHERE b = 'it''s' AND c > 5", "SELECT a FROM t WHERE b = ? AND c > ?"),
        ("spark", 'SELECT "secret", 12L, 1.5BD FROM `my t`', 'SELECT ? FROM "my t"'),
        ("clickhouse", "SELECT 0xDEAD, 1e5x FROM t LIMIT 5", "SELECT ? FROM t LIMIT ?"),
        ("clickhouse", "SELECT $h$secret$h$", "SELECT ?"),
        ("duckdb", "SELECT $$secret$$, e'x', 1_000", "SELECT ?"),
        ("trino", "SELECT U&'secret', X'AB', date'2026-01-01'", "SELECT ?, date?"),
        ("trino", "CALL drop_it('secret')", "CALL ?"),
        ("trino", "EXECUTE IMMEDIATE 'secret' USING 5", "EXECUTE ?"),
        ("trino", "SELECT 'secret", "(a text of 14 characters that can't be read)"),
        ("trino", "SELECT a /* secret */ FROM t -- secret", "SELECT a FROM t"),
    ],
)
def test_values_and_comments_go(dialect: str, text: str, said: str) -> None:
    """Every way to write a value becomes a question mark."""
    assert redact_query(text, dialect) == said


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[LoggedQuery], set[str]]:
    """Queries of all engines, some of them broken, and what must not be told of them."""
    queries, told = [], set()
    for place in range(draw(st.integers(1, 5))):
        dialect = draw(st.sampled_from(DIALECTS))
        text, second, number = draw(secrets), draw(secrets), draw(numbers)
        told |= {text, second, str(number)}
        condition = draw(
            st.sampled_from(
                [
                    f"customer = '{text}' AND id < {number}",
                    f"customer IN ('{text}', '{second}') OR id BETWEEN {number} AND {number}",
                    f"customer LIKE '{text}%' -- {second}",
                    f"lower(customer) = '{text}' AND id + {number} > 5 /* {second} */",
                    f"attributes['k'] = '{text}' AND NOT id = {number}",
                    f"customer = '{text}'{second}' AND",  # a quote too many
                    f"customer == = '{text}' {second} {number}",
                    f"regexp_like(customer, '{text}') LIMIT {number}",
                ]
            )
        )
        sql = f"SELECT customer, '{second}' FROM shop.orders WHERE {condition}"
        queries.append(LoggedQuery(f"id{place}", ENGINES[dialect], AT, sql, dialect))
    return queries, told


@given(workloads())
@settings(max_examples=150)
def test_no_value_of_a_workload_is_in_what_is_told(given_: tuple[list[LoggedQuery], set[str]]) -> None:
    """Reports, examples, texts that nobody understood, filters and fingerprints: none has a value in it."""
    queries, told = given_

    class Log:
        name = "log"

        def queries(self, _: datetime) -> Iterator[LoggedQuery]:
            return iter(queries)

    found = analyze([Log()], TABLES, AT)
    filters = [format_filter(use.filter) for query in found.queries for use in query.uses]
    said = json.dumps(found.as_document()) + repr(filters)
    assert not [secret for secret in told if secret in said]
    assert found.counted + sum(one.queries for one in found.unparsed) == len(queries)


def test_values_are_told_where_that_is_allowed() -> None:
    """Whoever allows it gets the texts as they are."""

    class Log:
        name = "log"

        def queries(self, _: datetime) -> Iterator[LoggedQuery]:
            yield LoggedQuery("q1", "trino", AT, "SELECT id FROM shop.orders WHERE id = 42", "trino")
            yield LoggedQuery("q2", "trino", AT, "SELECT 42 FROM WHERE", "trino")

    document = analyze([Log()], TABLES, AT).as_document(allow_literals=True)
    assert document["hot"][0]["text"].endswith("id = 42")
    assert document["unparsed"][0]["text"] == "SELECT 42 FROM WHERE"


def test_a_fingerprint_knows_no_values_no_case_and_no_lengths_of_lists() -> None:
    """Equal questions are equal, others are not."""
    same = {
        fingerprint_query(text, "trino")
        for text in ("SELECT a FROM t WHERE b IN (1)", "select a\nfrom t where b in ('x', 'y')")
    }
    assert len(same) == 1
    assert fingerprint_query("SELECT b FROM t WHERE b IN (1)", "trino") not in same


def test_of_a_text_that_is_no_sql_only_the_words_of_sql_are_told() -> None:
    """A quote in the wrong place makes names of values."""
    assert extract_skeleton("SELECT 'it's secret' FROM t", "trino").startswith("(a text of")
    assert extract_skeleton("SELECT 'it's secret, ' FROM t WHERE '", "trino") == "SELECT ? _ _, ?"
