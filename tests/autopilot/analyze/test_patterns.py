"""Patterns of a workload, and which queries come again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.analyzer import analyze
from neve.autopilot.logs.records import LoggedQuery
from neve.autopilot.patterns import PatternCounter
from neve.autopilot.workload import queries
from neve.predicate import filters
from tests.autopilot.analyze.schemas import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = count()


def query(engine: str, size: int | None, *tests: filters.Test, text: str = "SELECT 1") -> queries.Query:
    """A query that reads one table."""
    number = next(_numbers)
    use = queries.TableUse("s.t", filters.AllOf(tests), bytes_read=size)
    return queries.Query(f"q{number}", engine, START + timedelta(seconds=number), text, 0.5, (use,))


def test_bytes_of_different_engines_are_never_added_up() -> None:
    """A share is one within an engine; engines weigh by their queries, however many bytes they count."""
    counter = PatternCounter()
    a, b = filters.Test("a", "eq", (1,)), filters.Test("b", "range", low=1)
    for one in (query("trino", 10, a), query("trino", 30, b), query("clickhouse", 9_000_000, a)):
        counter.add(one)
    table = counter.tables()["s.t"]
    by_column = {pattern.column: pattern for pattern in table.patterns}
    assert by_column["a"].weight == pytest.approx(2 / 3 * 10 / 40 + 1 / 3)
    assert by_column["b"].weight == pytest.approx(2 / 3 * 30 / 40)
    assert by_column["a"].share_of_queries == pytest.approx(2 / 3)
    assert dict(table.bytes_by_engine) == {"trino": 40, "clickhouse": 9_000_000}


def test_a_column_counts_once_in_a_query() -> None:
    """However often a query tests a column in one way, it is one query."""
    counter = PatternCounter()
    counter.add(query("trino", None, filters.Test("a", "eq", (1,)), filters.Test("a", "eq", (2,))))
    [pattern] = counter.tables()["s.t"].patterns
    assert (pattern.queries, pattern.share_of_queries, pattern.weight) == (1, 1.0, 1.0)


def test_joins_and_orders_are_patterns_too() -> None:
    """The share of a column is that of its filters, unless another use is asked for."""
    use = queries.TableUse("s.t", join_keys=("k",), order_by=("o",))
    counter = PatternCounter()
    counter.add(queries.Query("q", "spark", START, "SELECT 1", None, (use,)))
    table = counter.tables()["s.t"]
    assert (table.share("k"), table.share("k", "join"), table.share("o", "order")) == (0.0, 1.0, 1.0)


def test_hot_queries_are_told_apart_by_everything_but_values() -> None:
    """The heaviest come first, with the newest example; engines have queries of their own."""
    counter = PatternCounter()
    for number in range(3):
        counter.add(query("trino", 10, text=f"SELECT a FROM t WHERE b = {number} -- {number}"))
    last = query("trino", 10, text="select a from t where b = 'x'")
    for one in (last, query("trino", 500, text="SELECT z FROM t"), query("spark", 1, text="SELECT z FROM t")):
        counter.add(one)
    hot = counter.hot()
    assert [(one.engine, one.queries, one.bytes_read) for one in hot] == [
        *(("spark", 1, 1), ("trino", 1, 500), ("trino", 4, 40)),
    ]
    assert hot[2].example == last
    assert hot[1].share_of_bytes == pytest.approx(500 / 540)


def test_too_many_kinds_of_queries_are_counted_not_kept() -> None:
    """What has no room is said."""
    counter = PatternCounter(most_fingerprints=2)
    for name in "abcd":
        counter.add(query("trino", 1, text=f"SELECT {name} FROM t"))
    assert (len(counter.hot()), counter.untracked) == (2, 2)


@given(
    st.lists(st.tuples(st.sampled_from(["trino", "spark"]), st.integers(0, 1000), st.sampled_from("abc")), min_size=1)
)
def test_shares_and_weights_stay_shares(asked: list[tuple[str, int, str]]) -> None:
    """Whatever is counted, shares are between nothing and all, and columns that exclude each other share the whole."""
    counter = PatternCounter()
    for engine, size, column in asked:
        counter.add(query(engine, size, filters.Test(column, "eq", (1,))))
    patterns = counter.tables()["s.t"].patterns
    assert sum(one.share_of_queries for one in patterns) == pytest.approx(1)
    assert sum(one.weight for one in patterns) == pytest.approx(1)


class _Many:
    """A source of many queries, made as they are asked for."""

    name = "many"

    def queries(self, since: datetime) -> Iterator[LoggedQuery]:
        """One after the other."""
        for number in range(400):
            yield LoggedQuery(
                f"q{number}", "trino", since, f"SELECT id FROM shop.orders WHERE id = {number % 40}", "trino"
            )


def test_of_many_queries_a_random_part_is_kept_and_all_are_counted() -> None:
    """Memory is bounded; the same log gives the same part."""
    first, second = (analyze([_Many()], TABLES, START, max_queries=50) for _ in range(2))
    assert (len(first.queries), first.counted, first.tables["shop.orders"].queries) == (50, 400, 400)
    assert first.queries == second.queries
    assert max(int(one.query_id[1:]) for one in first.queries) > 300
