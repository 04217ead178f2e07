"""The small pure parts do what their names say."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.demo.metric_points import PERIOD, SCALE, Timeline, exponential_indexes, plan_timeline
from neve.demo.otlp_encoding import group_by, split_by_time
from neve.demo.simulation import draw_arrivals, load_curve
from neve.demo.spans import MINUTE, Interval
from neve.demo.topology import NANOS_PER_MS, Failure, Latency, format_stacktrace, make_timeout_failure

BASE = 2 ** (1 / 2**SCALE)


@given(st.floats(min_value=1e-3, max_value=1e5))
def test_exponential_buckets_enclose_their_values(value: float) -> None:
    """A value lies above its bucket's lower bound and not above its upper one."""
    index = int(exponential_indexes(np.array([value]))[0])
    assert BASE**index * (1 - 1e-9) <= value <= BASE ** (index + 1) * (1 + 1e-9)


@given(st.lists(st.integers(min_value=0, max_value=99)))
def test_segments_lose_nothing(items: list[int]) -> None:
    """Cutting by time keeps every item, in order, between the edges that it lies between."""
    first, second = split_by_time(items, lambda item: item, [0, 40, 60])
    assert first == sorted(item for item in items if item < 40)
    assert second == sorted(item for item in items if item >= 40)


def test_groups_keep_the_order() -> None:
    """Groups come as their first items do."""
    assert group_by("abcab", str.upper) == {"A": ["a", "a"], "B": ["b", "b"], "C": ["c"]}
    assert list(group_by("cab", str.upper)) == ["C", "A", "B"]


def test_load_swings_gently() -> None:
    """The load stays within a quarter of its mean, and the mean is the mean."""
    shares = [load_curve(share / 100) for share in range(100)]
    assert 0.75 < min(shares) < max(shares) < 1.25
    assert np.mean(shares) == pytest.approx(1.0, abs=0.01)


def test_arrivals_are_sorted_and_in_the_run() -> None:
    """Visitors come in order, within the run, about as many as were asked for."""
    instants = draw_arrivals(random.Random(1), 0, 10, 100)
    assert instants == sorted(instants)
    assert instants[0] >= 0
    assert instants[-1] < 10 * MINUTE
    assert len(instants) == pytest.approx(1000, rel=0.15)


def test_latency_has_its_median() -> None:
    """Half of all samples are below the median."""
    rng = random.Random(1)
    samples = [Latency(10.0, 0.5).sample(rng) / NANOS_PER_MS for _ in range(2000)]
    assert np.median(samples) == pytest.approx(10.0, rel=0.06)


def test_a_process_that_stops_early_flushes() -> None:
    """The last export of a process that ends between two exports is at its end; the others are on the grid."""
    exports = Timeline(0, 10 * PERIOD).exports(Interval(PERIOD // 2, 3 * PERIOD + 5))
    assert exports.times.tolist() == [PERIOD, 2 * PERIOD, 3 * PERIOD, 3 * PERIOD + 5]
    assert exports.previous.tolist() == [PERIOD // 2, PERIOD, 2 * PERIOD, 3 * PERIOD]
    assert exports.starts(cumulative=True).tolist() == [PERIOD // 2] * 4


def test_the_timeline_ends_after_the_last_span() -> None:
    """What ends after the run is reported by one more export."""
    assert plan_timeline(Interval(0, 4 * PERIOD), latest=3 * PERIOD).end == 4 * PERIOD
    assert plan_timeline(Interval(0, 4 * PERIOD), latest=4 * PERIOD + 1).end == 5 * PERIOD


def test_a_relayed_failure_keeps_its_first_cause() -> None:
    """However many services pass a failure on, the message names the nearest callee and the first cause."""
    failure = Failure("E", "no connection", "UNAVAILABLE").relay("go", "payment").relay("nodejs", "checkout")
    assert failure == Failure("Error", "checkout: code = UNAVAILABLE desc = no connection", "UNAVAILABLE")


def test_a_timeout_says_how_long_it_waited() -> None:
    """A client that gives up names the callee and its patience."""
    assert make_timeout_failure("go", "payment", 1550).message == (
        "payment: code = DEADLINE_EXCEEDED desc = no answer within 1550ms"
    )


@pytest.mark.parametrize("language", ["cpp", "dotnet", "go", "java", "nodejs", "python", "ruby", "rust"])
def test_stack_traces_are_of_every_language(language: str) -> None:
    """Every language of the shop has a stack trace that begins with the exception."""
    assert format_stacktrace(Failure("E", "m", "INTERNAL"), language, "cart", "GetCart").startswith("E: m\n")
