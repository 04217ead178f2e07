"""Quantiles of classic histograms over long ranges: from rollups, within the bound that the answer states."""

from __future__ import annotations

import math
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.promql.storage.test_rolled_windows import HOUR, HOURS, World, make_point

if TYPE_CHECKING:
    from neve.promql.engine import Result

pytestmark = pytest.mark.slow

BOUNDS = [0.1, 0.25, 0.5, 1.0, 2.5]
GAP_S = 290
QUERY = "histogram_quantile({}, sum by ({}) (rate(latency_seconds_bucket[12h])))"
BOUND = re.compile(r"windows of 1h, at most ([0-9.]+)% from the points")


def make_points(seed: int, hours: tuple[int, int] = (0, HOURS), pod: str = "a", **more: Any) -> list[dict[str, Any]]:
    """Return a histogram that grows, with latencies that change slowly."""
    chance = random.Random(seed)
    counts, mean, found = [chance.randint(0, 50) for _ in range(len(BOUNDS) + 1)], chance.uniform(0.05, 1), []
    at = hours[0] * 3600 + chance.uniform(1, GAP_S)
    while at < hours[1] * 3600:
        mean *= math.exp(chance.gauss(0, 0.02))
        for _ in range(chance.randint(0, 40)):
            value = chance.expovariate(1 / mean)
            counts[sum(value > bound for bound in BOUNDS)] += 1
        row = make_point(at, 0.0, queue=pod, metric_name="latency", metric_type="histogram", unit="s", **more)
        found.append(
            row
            | {
                "value": None,
                "aggregation_temporality": 2,
                "start_time_unix_nano": 10**18,
                "explicit_bounds": BOUNDS,
                "bucket_counts": list(counts),
                "count": sum(counts),
                "sum": float(sum(counts)),
                "record_id": chance.randbytes(16),
            }
        )
        at += chance.uniform(GAP_S - 60, GAP_S)
    return found


def find_bound(result: Result) -> float:
    """Return the relative error that an answer states."""
    [info] = [one for one in result.infos if "rollups" in one]
    found = BOUND.search(info)
    assert found is not None, info
    return float(found[1]) / 100


def assert_within(rolled: Result, points: Result, bound: float) -> None:
    """Compare two results, to within a relative error."""
    assert [one.labels for one in rolled.series] == [one.labels for one in points.series]
    for mine, theirs in zip(rolled.series, points.series, strict=True):
        assert mine.times_ms.tolist() == theirs.times_ms.tolist()
        for left, right in zip(mine.values.tolist(), theirs.values.tolist(), strict=True):
            assert (math.isnan(left) and math.isnan(right)) or abs(left - right) <= bound * abs(left) + 1e-9


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10**6), st.sampled_from([0.5, 0.9, 0.99]), st.integers(30, HOURS + 1), st.booleans())
def test_bound(seed: int, quantile: float, final: int, is_grouped: bool) -> None:
    """A quantile of two series, of which one begins later, is within its bound of the one from points."""
    begin = random.Random(seed).choice([0, 0, 30])
    world = World([*make_points(seed), *make_points(seed + 1, (begin, HOURS), "b")], final)
    query = QUERY.format(quantile, "le, queue" if is_grouped else "le")
    points, rolled = world.ask(query, may_roll=False), world.ask(query)
    assert not points.infos
    if rolled.infos:  # else the bound is too large
        assert_within(rolled, points, find_bound(rolled))
    else:
        assert_within(rolled, points, 0.0)


def test_rollup_is_read() -> None:
    """The rollup is read instead of points for a steady histogram, with a bound of some percent."""
    world = World(make_points(1))
    result = world.ask(QUERY.format(0.9, "le"))
    assert 0 < find_bound(result) < 0.15
    assert world.read[-1] == HOUR.table  # no points after it


@pytest.mark.parametrize(
    "query", [QUERY.format(0.9, "le").replace("12h", "2h"), 'sum(rate(latency_seconds_bucket{le="1"}[12h]))']
)
def test_points_are_read(query: str) -> None:
    """Ranges of few windows, and rates of single buckets, are computed from points."""
    world = World(make_points(2))
    rolled, points = world.ask(query), world.ask(query, may_roll=False)
    assert not rolled.infos
    assert_within(rolled, points, 0.0)


def test_changed_bounds() -> None:
    """Points are read if the bounds of a series change."""
    changed = [one | {"explicit_bounds": [0.2, *BOUNDS[1:]]} for one in make_points(3, (36, HOURS))]
    world = World([*make_points(3, (0, 36)), *changed])
    query = QUERY.format(0.5, "le")
    rolled = world.ask(query)
    assert not [one for one in rolled.infos if "rollups" in one]
    assert_within(rolled, world.ask(query, may_roll=False), 0.0)
