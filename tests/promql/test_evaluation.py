"""Rules of the evaluation, each by a small case."""

import math

import pytest

from neve.errors import EvaluationFailed, LimitExceeded
from neve.promql.evaluator import Options
from neve.promql.labels import make_labels
from neve.promql.series import STALE
from tests.promql.examples import MINUTE, as_dict, as_points, make_engine


def test_lookback() -> None:
    """A sample counts for five minutes, open at the far end."""
    engine = make_engine({"x": [1]})
    assert as_dict(engine.query("x", 5 * MINUTE - 1)) == {"__name__=x": 1}
    assert as_dict(engine.query("x", 5 * MINUTE)) == {}


def test_stale() -> None:
    """A stale mark ends a series at once, and is not part of a range."""
    engine = make_engine({"x": [1, STALE]})
    assert as_dict(engine.query("x", MINUTE)) == {}
    assert as_dict(engine.query("count_over_time(x[5m])", MINUTE)) == {"": 1}


def test_nan_is_a_value() -> None:
    """NaN and infinities are samples."""
    engine = make_engine({"x a=1": [math.nan], "x a=2": [math.inf]})
    assert as_dict(engine.query("count(x)", 0)) == {"": 2}
    assert as_dict(engine.query("max(x)", 0)) == {"": math.inf}


def test_left_open_range() -> None:
    """A range does not contain its start."""
    engine = make_engine({"x": [1, 2, 3]})
    assert as_dict(engine.query("sum_over_time(x[2m])", 2 * MINUTE)) == {"": 5}


def test_rate_with_reset() -> None:
    """A counter that falls was reset: what it had before is added."""
    engine = make_engine({"x_total": [0, 60, 0, 60]})
    assert as_dict(engine.query("increase(x_total[3m1ms])", 3 * MINUTE))[""] == pytest.approx(120, rel=1e-4)


def test_rate_needs_two_samples() -> None:
    """One sample has no rate."""
    engine = make_engine({"x_total": [1]})
    assert as_dict(engine.query("rate(x_total[5m])", 0)) == {}


def test_info_about_counters() -> None:
    """A rate of something that is not named like a counter gives an info with its place."""
    result = make_engine({"x": [1, 2]}).query("sum(rate(x[5m]))", MINUTE)
    assert result.infos == (
        'PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "x" (1:10)',
    )


def test_at_and_offset() -> None:
    """`@` fixes the time, `offset` moves it, in any order."""
    engine = make_engine({"x": [1, 2, 3, 4]})
    for text in ("x @ 120 offset 1m", "x offset 1m @ 120"):
        assert as_dict(engine.query(text, 10 * MINUTE)) == {"__name__=x": 2}
    points = as_points(engine.query_range("x @ end()", 0, 2 * MINUTE, MINUTE))
    assert points == {"__name__=x": [(0, 3), (MINUTE, 3), (2 * MINUTE, 3)]}


def test_subquery_steps() -> None:
    """Steps of a subquery are multiples of its step since 1970, not since the query's time."""
    engine = make_engine({"x": list(range(11))})
    assert as_dict(engine.query("sum_over_time(x[5m:2m])", 9 * MINUTE)) == {"": 6 + 8}


def test_one_to_one() -> None:
    """Series match by all their labels, and the name is dropped."""
    engine = make_engine({"a l=1": [6], "a l=2": [8], "b l=1": [3]})
    assert as_dict(engine.query("a / b", 0)) == {"l=1": 2}


def test_group_left() -> None:
    """Many series may match one, and take labels from it."""
    engine = make_engine({"a l=1 m=x": [6], "a l=1 m=y": [8], "b l=1 n=z": [2]})
    assert as_dict(engine.query("a / on (l) group_left (n) b", 0)) == {"l=1 m=x n=z": 3, "l=1 m=y n=z": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a / on (l) b", "multiple matches for labels: many-to-one matching must be explicit"),
        ("b / on (l) a", "found duplicate series for the match group {l=\"1\"} on the right hand-side"),
        ("label_replace(a, \"m\", \"\", \"\", \"\")", "vector cannot contain metrics with the same labelset"),
        ("label_replace(a, \"m\", \"$1\", \"m\", \"(\")", "invalid regular expression"),
        ("topk(NaN, a)", "Parameter value is NaN"),
    ],
)  # fmt: skip
def test_failures(text: str, message: str) -> None:
    """What has no unique answer is an error, in Prometheus' words."""
    engine = make_engine({"a l=1 m=x": [6], "a l=1 m=y": [8], "b l=1": [2]})
    with pytest.raises(EvaluationFailed) as caught:
        engine.query(text, 0)
    assert message in str(caught.value)


def test_filter_and_bool() -> None:
    """A comparison filters and keeps the name. With `bool` it gives 0 or 1 without the name."""
    engine = make_engine({"x l=1": [1], "x l=2": [3]})
    assert as_dict(engine.query("x > 2", 0)) == {"__name__=x l=2": 3}
    assert as_dict(engine.query("x > bool 2", 0)) == {"l=1": 0, "l=2": 1}


def test_sets() -> None:
    """Set operators compare label sets at each step."""
    engine = make_engine({"a l=1": [1, 1], "a l=2": [2, 2], "b l=1": [5, None, None, None, None, None, 5]})
    assert as_dict(engine.query("a and b", 0)) == {"__name__=a l=1": 1}
    assert as_dict(engine.query("a unless b", 0)) == {"__name__=a l=2": 2}
    assert as_dict(engine.query("b or a", 0)) == {"__name__=b l=1": 5, "__name__=a l=2": 2}


def test_exact_sum() -> None:
    """Sums keep what plain additions lose."""
    engine = make_engine({"x l=1": [1e100], "x l=2": [1], "x l=3": [-1e100]})
    assert as_dict(engine.query("sum(x)", 0)) == {"": 1}
    assert as_dict(engine.query("sum_over_time(y[10m])", 2 * MINUTE)) == {}
    over = make_engine({"x": [1e100, 1, -1e100]})
    assert as_dict(over.query("sum_over_time(x[10m])", 2 * MINUTE)) == {"": 1}


def test_mean_without_overflow() -> None:
    """A mean exists even if the sum is too large for a float."""
    engine = make_engine({"x l=1": [1.5e308], "x l=2": [1.7e308]})
    assert as_dict(engine.query("avg(x)", 0))[""] == pytest.approx(1.6e308)


def test_topk_order() -> None:
    """Topk keeps all labels and orders by value, NaN last."""
    engine = make_engine({"x l=1": [math.nan], "x l=2": [2], "x l=3": [3]})
    assert list(as_dict(engine.query("topk(2, x)", 0))) == ["__name__=x l=3", "__name__=x l=2"]


def test_classic_quantile() -> None:
    """A quantile of a classic histogram is interpolated in its bucket."""
    engine = make_engine({"x_bucket le=1": [1], "x_bucket le=2": [3], "x_bucket le=+Inf": [4]})
    assert as_dict(engine.query("histogram_quantile(0.5, x_bucket)", 0)) == {"": 1.5}


def test_repaired_buckets() -> None:
    """Buckets that shrink are raised, with an info about it."""
    engine = make_engine({"x_bucket le=1": [5], "x_bucket le=2": [3], "x_bucket le=+Inf": [6]})
    [info] = engine.query("histogram_quantile(0.5, x_bucket)", 0).infos
    assert "needed to be fixed for monotonicity" in info
    assert info.endswith("over 1 samples from 1970-01-01T00:00:00Z to 1970-01-01T00:00:00Z (1:25)")


def test_absent() -> None:
    """Absent takes the labels that the selector fixes."""
    engine = make_engine({"y": [1]})
    assert as_dict(engine.query('absent(x{a="1", b=~"2"})', 0)) == {"a=1": 1}


def test_dates() -> None:
    """Dates are in UTC, also far from now."""
    engine = make_engine({})
    assert as_dict(engine.query("year(vector(4102444800))", 0)) == {"": 2100}
    assert as_dict(engine.query("days_in_month(vector(1709164800))", 0)) == {"": 29}
    assert as_dict(engine.query("hour()", 58_000 * 365 * 86_400_000)) == {"": 0}


def test_far_future() -> None:
    """A query in the year 58000 is answered: Grafana sends one to look for exemplars."""
    assert as_dict(make_engine({"x": [1]}).query("x", 1_760_000_000_000_000)) == {}


@pytest.mark.parametrize("text", ["sum_over_time(vector(1)[200y:1ms])", "sum_over_time(x[10y:1s])"])
def test_sample_limit(text: str) -> None:
    """A query that would need too much memory is rejected before it allocates."""
    engine = make_engine({"x": [1]}, options=Options(max_samples=100_000))
    with pytest.raises(LimitExceeded):
        engine.query(text, 0)


def test_start_times() -> None:
    """With start times, a counter that restarted above its old value is seen as reset."""
    source_labels = make_labels({"__name__": "x_total"})
    engine = make_engine({}, options=Options(uses_start_times=True))
    engine.source.add(source_labels, [(0, 5.0, -1000), (MINUTE, 7.0, 1000)])  # type: ignore[attr-defined]
    assert as_dict(engine.query("resets(x_total[5m])", MINUTE)) == {"": 1}
    plain = make_engine({"x_total": [5, 7]})
    assert as_dict(plain.query("resets(x_total[5m])", MINUTE)) == {"": 0}


def test_merge_over_steps() -> None:
    """Series that get the same labels are one series if they never meet at a step."""
    engine = make_engine({"a": [1, STALE], "b": [None, 2]})
    points = as_points(engine.query_range('-{__name__=~"a|b"}', 0, MINUTE, MINUTE))
    assert points == {"": [(0, -1), (MINUTE, -2)]}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("x", [2, 2, 1]),
        ("sum(x) + 1", [2, 2, 1]),
        ("count_over_time(x[2m])", [4, 4, 3]),
        ("x @ 120", [2, 2, 2]),
        ("max_over_time(sum(x)[2m:1m])", [2, 2, 2]),
        ("1", [0, 0, 0]),
    ],
)
def test_samples_at_each_step(text: str, counts: list[int]) -> None:
    """Samples are counted at each step as in Prometheus: those of a subquery are the values in its windows."""
    engine = make_engine({"x a=1": [1, 2, 3, 4], "x a=2": [1, 2, 3]}, options=Options(lookback_ms=MINUTE))
    result = engine.query_range(text, MINUTE, 3 * MINUTE, MINUTE)
    assert result.samples is not None
    assert result.samples.times_ms.tolist() == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    assert result.samples.counts.tolist() == counts
