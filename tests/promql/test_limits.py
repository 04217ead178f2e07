"""Limits of the evaluation: expressions of tenants that need too much memory or time are rejected."""

import pytest

from neve.errors import EvaluationFailed, LimitExceeded
from neve.promql.engine import Engine
from neve.promql.evaluator import Options
from neve.promql.histograms.native import Histogram, make_buckets
from neve.promql.labels import make_labels
from neve.promql.series import MemorySource
from tests.promql.examples import MINUTE, Values, make_engine

LONG = 'label_replace(x, "a", "0123456789", "", "")'


def test_label_join_bomb() -> None:
    """Nested joins multiply the length of a label, and are rejected before the value is built."""
    text, sources = LONG, ", ".join(["'a'"] * 50)
    for _ in range(5):
        text = f'label_join({text}, "a", "", {sources})'
    with pytest.raises(EvaluationFailed, match=r"label_join\(\) would have more than 65,536 characters"):
        make_engine({"x": [1]}).query(text, 0)


def test_label_replace_bomb() -> None:
    """Nested replacements by `$1$1…` are rejected in the same way."""
    text, replacement = LONG, "$1" * 50
    for _ in range(5):
        text = f'label_replace({text}, "a", "{replacement}", "a", "(.*)")'
    with pytest.raises(EvaluationFailed, match=r"label_replace\(\) would have more than 65,536 characters"):
        make_engine({"x": [1]}).query(text, 0)


def test_labels_of_functions() -> None:
    """Labels that are short enough one by one have a limit in total."""
    zeros = "0" * 100
    engine = make_engine({f"x i={index}": [1] for index in range(20)}, options=Options(max_label_chars=1000))
    engine.query('label_replace(x, "a", "0123456789", "", "")', 0)
    with pytest.raises(LimitExceeded, match="too long in total"):
        engine.query(f"count(label_replace(x, 'a', '{zeros}', '', ''))", 0)


def test_labels_of_result() -> None:
    """One long label that matching copies to many series counts once for each."""
    series: Values = {f"x i={index}": [1] for index in range(20)}
    engine = make_engine(series | {f"y a={'0' * 100}": [1]}, options=Options(max_label_chars=1000))
    with pytest.raises(LimitExceeded, match="too long in total"):
        engine.query("x * on () group_left (a) y", 0)


@pytest.mark.parametrize(
    "text", ["1", "x", "sum(x)", "rate(x[5m])", "x * on (i) x", "label_replace(x, 'a', 'b', '', '')"]
)
def test_deadline(text: str) -> None:
    """A query that is late ends with the limit of time."""
    engine = make_engine({"x i=1": [1, 2]}, options=Options(deadline=0.0))
    with pytest.raises(LimitExceeded, match="timed out") as caught:
        engine.query(text, MINUTE)
    assert caught.value.limit == "seconds"


@pytest.mark.parametrize(
    "text",
    [
        "quantile_over_time(0.5, x[1h])",
        "mad_over_time(x[1h])",
        "stddev_over_time(x[1h])",
        "ts_of_max_over_time(x[1h])",
        "deriv(x[1h])",
        "double_exponential_smoothing(x[1h], 0.5, 0.5)",
        "rate(x[1h] anchored)",
        "rate(x[1h] smoothed)",
        "x smoothed",
    ],
)
def test_visits(text: str) -> None:
    """Functions that look at each sample of each window have a limit on these visits, and a deadline in their loops."""
    series: Values = {"x": list(range(60))}
    make_engine(series, options=Options(max_visits=10_000)).query_range(text, 0, 59 * MINUTE, MINUTE)
    engine = make_engine(series, options=Options(max_visits=100))
    with pytest.raises(LimitExceeded, match="visit too many samples"):
        engine.query_range(text, 0, 59 * MINUTE, MINUTE)


@pytest.mark.parametrize("text", ["rate(x[1h])", "sum_over_time(x[1h])", "max_over_time(x[1h])", "x"])
def test_no_visits(text: str) -> None:
    """Functions that share work between windows don't count visits."""
    engine = make_engine({"x": list(range(60))}, options=Options(max_visits=0))
    assert engine.query_range(text, 0, 59 * MINUTE, MINUTE).series


def test_points_of_result() -> None:
    """The points of a result have a limit of their own: each needs many times the memory of a sample."""
    engine = make_engine({"x": [1, 2]}, options=Options(max_points=100))
    assert engine.query_range("x", 0, 99, 1).series
    with pytest.raises(LimitExceeded, match="too many points"):
        engine.query_range("x", 0, 100, 1)
    with pytest.raises(LimitExceeded, match="too many points"):
        make_engine({"x": [1] * 101}, options=Options(max_points=100)).query("x[2h]", 101 * MINUTE)


@pytest.mark.parametrize("text", ["h", "rate(h[5m])", "sum(h)", "h * 2", "-h", "h + h"])
def test_native_histograms(text: str) -> None:
    """Native histograms count by their buckets, when they are read and when an operation makes new ones."""
    source = MemorySource()
    histogram = Histogram(count=100.0, sum=1.0, positive=make_buckets(1, [1.0] * 100))
    source.add(make_labels({"__name__": "h"}), [(index * MINUTE, histogram, 0) for index in range(10)])
    Engine(source, Options(max_samples=100_000)).query_range(text, 0, 9 * MINUTE, MINUTE)
    limit = 1_000 if text == "h" else 2_000  # the ten that are read count 1,300
    with pytest.raises(LimitExceeded, match="too many samples"):
        Engine(source, Options(max_samples=limit)).query_range(text, 0, 9 * MINUTE, MINUTE)
