"""Statements, answers and verdicts of the canary, without an engine."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.autopilot.config import CanaryConfig
from neve.autopilot.layout import Promoted
from neve.autopilot.rollout.canary import CanaryResult, estimate_reduction, judge_canary
from neve.autopilot.rollout.canary_engine import Answer, compare_answers
from neve.autopilot.rollout.canary_queries import CanaryQuery, PreparedQuery, QuerySides, UnsuitableQuery, prepare_query

if TYPE_CHECKING:
    from random import Random

NOW = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
SIDES = QuerySides("lake", ("shop", "orders"), "m", "b", NOW, (Promoted("route", "tags['http.route']"),))
NUMBERS = st.floats(allow_infinity=False) | st.none()


def ready(text: str, dialect: str = "spark") -> PreparedQuery:
    """A query that can be asked."""
    found = prepare_query(CanaryQuery(text, dialect=dialect), SIDES)
    assert isinstance(found, PreparedQuery), found
    return found


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        ("SELECT id FROM shop.orders WHERE id = 1", "spark", "SELECT id FROM `m` AS `orders` WHERE id = 1"),
        (
            "SELECT shop.orders.id FROM iceberg.shop.orders",
            "trino",
            "SELECT orders.id FROM `m` AS `orders`",
        ),
        (
            "WITH o AS (SELECT * FROM orders) SELECT o.id FROM o JOIN items i ON i.id = o.id",
            "spark",
            "WITH o AS (SELECT * FROM `m` AS `orders`) SELECT o.id FROM o JOIN `lake`.`shop`.items AS i ON i.id = o.id",
        ),
        (
            "SELECT count(*) FROM shop.orders WHERE at >= CURRENT_DATE",
            "trino",
            "SELECT COUNT(*) FROM `m` AS `orders` WHERE at >= CAST('2026-02-03' AS DATE)",
        ),
    ],
)
def test_tables_are_read_through_views(text: str, dialect: str, expected: str) -> None:
    """Ours by its view under the name that the query calls it, others in the lake's catalog, the clock stopped."""
    found = ready(text, dialect)
    assert found.main == f"/* neve:autopilot */ {expected}"
    assert found.branch == found.main.replace("`m`", "`b`")


def test_a_key_is_its_column_on_the_branch_alone() -> None:
    """Main has no values there; another key stays what it is."""
    found = ready("SELECT tags['a'] FROM orders o WHERE o.tags['http.route'] = 'x'")
    assert found.main.endswith("SELECT tags['a'] FROM `m` AS o WHERE o.tags['http.route'] = 'x'")
    assert found.branch.endswith("SELECT tags['a'] FROM `b` AS o WHERE `o`.`route` = 'x'")


def test_a_quantile_is_said_as_spark_says_it() -> None:
    """DuckDB's two arguments are those of `percentile`."""
    found = ready("SELECT quantile_cont(price, 0.95) FILTER (WHERE price > 1) FROM orders", "duckdb")
    assert "PERCENTILE(price, 0.95) FILTER" in found.main.replace("`", "")


def test_a_limit_is_left_out_and_said() -> None:
    """Which rows it lets through is nobody's promise."""
    found = ready("SELECT id FROM orders ORDER BY at LIMIT 10")
    assert "LIMIT" not in found.main
    assert len(found.remarks) == 1
    assert not found.aggregates
    assert ready("SELECT sum(price) FROM orders").aggregates


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SELECT FROM WHERE", "can't be parsed"),
        ("DELETE FROM orders", "it is a delete"),
        ("SELECT rand() FROM orders", "not deterministic"),
        ("SELECT any_value(id) FROM orders", "not deterministic"),
        ("SELECT * FROM (SELECT * FROM orders LIMIT 5) x", "a subquery has a limit"),
        ("SELECT * FROM items", "does not read shop.orders"),
        ("SELECT * FROM other.orders", "does not read shop.orders"),
    ],
)
def test_what_proves_nothing_is_left_out_with_a_reason(text: str, reason: str) -> None:
    """Each by its own."""
    found = prepare_query(CanaryQuery(text), SIDES)
    assert isinstance(found, UnsuitableQuery)
    assert reason in found.reason


@pytest.mark.parametrize("text", ["SELECT 'it's a secret' FROM orders", "SELECT id FROM WHERE id = 'secret' ((("])
def test_reasons_have_no_values(text: str) -> None:
    """What a parser says about a text may quote it: that is kept apart."""
    found = prepare_query(CanaryQuery(text), SIDES)
    assert isinstance(found, UnsuitableQuery)
    assert found.reason == "it can't be parsed as spark"
    assert found.detail


def test_other_tables_are_read_through_views_where_they_have_one() -> None:
    """What a tenant asked is asked again of that tenant's rows, in every table."""
    sides = replace(SIDES, other={"shop.items": "v"}.get)
    found = prepare_query(CanaryQuery("SELECT * FROM orders JOIN items ON true JOIN more.items AS x ON true"), sides)
    assert isinstance(found, PreparedQuery)
    assert found.main.endswith("FROM `m` AS `orders` JOIN `v` AS `items` ON TRUE JOIN `lake`.more.items AS x ON TRUE")


@given(st.lists(st.tuples(st.integers(0, 3), NUMBERS)), st.randoms(use_true_random=False))
def test_answers_are_the_same_in_any_order(rows: list[tuple[int, float | None]], chance: Random) -> None:
    """Also with nulls and what is not a number."""
    values = [((key,), (number,)) for key, number in rows]
    shuffled = list(values)
    chance.shuffle(shuffled)
    one, other = (Answer(("int", "double"), len(rows), values=tuple(some)) for some in (values, shuffled))
    assert compare_answers(one, other, 0.0) == ""


@given(st.floats(1e-300, 1e300), st.floats(-0.9, 0.9))
def test_numbers_may_differ_by_the_tolerance_and_no_more(number: float, share: float) -> None:
    """Within it they are the same; a hundred times beyond it they are not."""
    tolerance = 1e-9

    def answer(value: float) -> Answer:
        return Answer(("double",), 1, values=(((), (value,)),))

    assert compare_answers(answer(number), answer(number * (1 + share * tolerance)), tolerance) == ""
    if number > 1:
        assert "more than a relative 1e-09" in compare_answers(
            answer(number), answer(number * (1 + 100 * tolerance)), tolerance
        )
    assert compare_answers(answer(number), answer(math.nan), tolerance)


def test_types_rows_and_hashes_count() -> None:
    """What differs is said; exact answers have no tolerance."""
    one = Answer(("bigint",), 3, 77)
    assert compare_answers(one, one, 0.1) == ""
    assert "types bigint on main, int" in compare_answers(one, replace(one, types=("int",)), 0.1)
    assert compare_answers(one, replace(one, rows=4), 0.1) == "3 rows on main, 4 on the branch"
    assert compare_answers(one, replace(one, hash=78), 0.1) == "different values"
    keyed = Answer(("int", "double"), 1, values=(((1,), (2.0,)),))
    assert compare_answers(keyed, replace(keyed, values=(((2,), (2.0,)),)), 0.1) == "different values"


def result(main: int, branch: int, weight: float = 1.0, **more: Any) -> CanaryResult:
    """A query whose answers are the same."""
    return CanaryResult("q", weight, more.pop("difference", ""), 1, main, branch, None, None, 0.1, 0.1, **more)


def test_passing_needs_equal_answers_and_enough_less() -> None:
    """Each alone is not enough, and nothing compared is no proof."""
    config = CanaryConfig(threshold_pct=30)

    def passes(*results: CanaryResult) -> bool:
        return judge_canary("a", "t", results, (), config).passed

    assert passes(result(100, 50), result(100, 60))
    assert not passes(result(100, 50), result(100, 60, difference="different values"))
    assert not passes(result(100, 80))
    assert not passes()
    assert not passes(result(0, 0))
    # On the whole it is half, but other queries of the kind may be all like the second.
    assert not passes(result(100, 0), result(100, 100))
    assert judge_canary("a", "t", [result(100, 50)], (), config).as_document()["reduction"]["low"] == 50


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 1000), st.floats(0.1, 10)), min_size=1, max_size=20))
def test_the_bounds_hold_the_reduction(lines: list[tuple[int, int, float]]) -> None:
    """It lies between the best and the worst query, and the same queries give the same bounds."""
    results = [result(*line) for line in lines]
    found = estimate_reduction(results, 0.9)
    assert found is not None
    assert found == estimate_reduction(results, 0.9)
    each = [1 - branch / main for main, branch, _weight in lines]
    for value in (found.low, found.estimate, found.high):
        assert min(each) - 1e-9 <= value <= max(each) + 1e-9
