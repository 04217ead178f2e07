"""Documented limits: a budget for each window, shared out by chance and not by order."""

from __future__ import annotations

import numpy as np
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState, apply_window_budget
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD, Windows
from neve.tail.policy.tree import Composite, RateLimit, Share
from tests.tail.policy.made import NOON_US, SECOND, decide, holds, judged, policy_set, traces

LIMIT = RateLimit("limit", "rate_limiting", 1, 2)  # ten spans in a window of ten seconds


def test_the_largest_numbers_are_taken_until_one_does_not_fit() -> None:
    """And none after it, though it may be small; T is one more than the first one's number that does not fit."""
    of = traces(5, span_count=[4, 3, 5, 1, 4], randomness=[90, 50, 60, 10, 80])
    verdicts = judged(policy_set(LIMIT), of, window=10)
    assert verdicts.decision.tolist() == [1, 0, 0, 0, 1]
    assert verdicts.threshold[[0, 4]].tolist() == [61, 61]
    assert verdicts.adjusted_count[0] == MAX_THRESHOLD / (MAX_THRESHOLD - 61)
    assert verdicts.refused_by.tolist() == [-1, 0, 0, 0, -1]


def test_each_window_has_its_budget() -> None:
    """Counted from 1970, whatever was left of the one before; where all fit, nothing is left to chance."""
    of = traces(
        4, span_count=[6, 6, 10, 1], ready_us=NOON_US + np.array([0, 9, 10, 20]) * SECOND, randomness=[2, 1, 1, 1]
    )
    verdicts = judged(policy_set(LIMIT), of, window=10)
    assert verdicts.decision.tolist() == [1, 0, 1, 1]
    assert verdicts.probability[2:].tolist() == [1, 1]


def test_what_is_larger_than_the_budget_takes_no_place() -> None:
    """It never passes, and the others share all that there is."""
    of = traces(3, span_count=[11, 5, 5], randomness=[9, 2, 1])
    verdicts = judged(policy_set(LIMIT), of, window=10)
    assert verdicts.decision.tolist() == [0, 1, 1]
    assert verdicts.probability.tolist() == [0, 1, 1]


def test_bytes_are_limited_alike() -> None:
    """By the bytes of whole traces."""
    limit = RateLimit("bytes", "bytes_limiting", 100, 200, "bytes")
    of = traces(3, bytes=[500, 400, 200], randomness=[3, 2, 1])
    assert judged(policy_set(limit), of, window=10).decision.tolist() == [1, 1, 0]


def test_the_order_of_traces_does_not_matter() -> None:
    """Nor does time within the window."""
    of = traces(200, span_count=np.arange(200) % 7 + 1, ready_us=NOON_US + np.arange(200))
    turned = of.take(np.arange(199, -1, -1))
    decisions = [judged(policy_set(LIMIT), each, window=10).decision for each in (of, turned)]
    assert decisions[0].tolist() == decisions[1][::-1].tolist()


def test_only_those_who_reach_a_limit_compete() -> None:
    """Behind other parts, and with shares, which have budgets of their own."""
    shares = (Share(holds("a"), 1), Share(holds("b"), 1))
    of = traces(4, facts=[[1, 1], [1, 0], [0, 1], [0, 0]], span_count=6, randomness=[4, 3, 2, 1])
    verdicts = judged(policy_set(Composite("shares", "composite", 2, shares)), of, window=10)
    assert verdicts.decision.tolist() == [1, 0, 1, 0]
    assert verdicts.reason(3) == "not sampled: no policy voted for it"


def test_a_share_is_not_more_than_the_total() -> None:
    """As in the collector, each share by itself."""
    shares = (Share(holds("a"), 5), Share(holds("a", inverted=True), 5))
    of = traces(4, facts=[[1], [1], [0], [0]], span_count=6, randomness=[4, 3, 2, 1])
    policies = policy_set(Composite("shares", "composite", 1, shares))
    assert judged(policies, of, window=10).decision.tolist() == [1, 0, 1, 0]


def test_a_budget_of_nothing_lets_nothing_pass() -> None:
    """Whatever is drawn."""
    assert decide(traces(3), RateLimit("none", "rate_limiting", 0, 0)) == [0, 0, 0]


def test_documented_limits_leave_no_state() -> None:
    """A window is known in full, so that there is nothing to carry."""
    _verdicts, state = PolicyEvaluator(policy_set(LIMIT)).judge(traces(5), LimitState())
    assert state == LimitState()


@seed(1)
@settings(max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 12), min_size=1, max_size=30),
    asked=st.integers(0, 2**30 - 1),
    budget=st.integers(0, 30),
    draw=st.integers(0, 2**32),
)
def test_each_has_the_threshold_that_it_would_meet(sizes: list[int], asked: int, budget: int, draw: int) -> None:
    """A trace that joins with R >= its own T passes, with the same T; with less it does not: whatever the others drew.

    That is what makes 1 / (1 - T / 2^56) an unbiased weight.
    """
    size, count = np.array(sizes), len(sizes)
    numbers = np.random.default_rng(draw).permutation(count * 10)[:count].astype(np.uint64) + np.uint64(5)
    windows = Windows.over(np.arange(count) // 10 * SECOND, 1)
    asks = np.array([bool(asked >> place & 1) for place in range(count)])
    settled = apply_window_budget(budget, asks, size, numbers, windows)
    assert (settled.passed == (asks & (numbers >= settled.thresholds))).all()
    for place in range(count):
        threshold = int(settled.thresholds[place])
        if size[place] > budget:
            assert threshold == MAX_THRESHOLD
            continue
        joins = asks.copy()
        joins[place] = True
        for drawn, passes in [(threshold, True), (count * 10 + 50, True), (threshold - 1, False)]:
            if drawn < 0:
                continue
            other = numbers.copy()
            other[place] = drawn
            again = apply_window_budget(budget, joins, size, other, windows)
            assert again.passed[place] == passes
            assert not passes or again.thresholds[place] == threshold
