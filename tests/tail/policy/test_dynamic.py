"""Dynamic rates: rare keys are kept more often, and one in so many in all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import MAX_KEYS, KeyAverages, LimitState, compute_key_chances
from neve.tail.policy.tree import All, Dynamic
from tests.tail.policy.made import NOON_US, SECOND, holds, judged, policy_set, traces

RATES = Dynamic("rates", "dynamic", 0, 10.0)


def keyed(counts: dict[str, int], **columns: Any) -> tuple[list[str], dict[str, Any]]:
    """Keys that are seen so often, and the columns of their traces."""
    keys = [key for key, count in counts.items() for _trace in range(count)]
    return keys, {"keys": (keys,), **columns}


@seed(1)
@given(
    counts=st.lists(st.integers(1, 100_000), min_size=1, max_size=50),
    averages=st.lists(st.floats(0.01, 1e6), min_size=50, max_size=50),
    goal=st.floats(1, 1000),
)
def test_the_goal_is_met(counts: list[int], averages: list[float], goal: float) -> None:
    """Over the interval's own counts, whatever the averages were; a key that was seen less is not kept less."""
    count, average = np.array(counts), np.array(averages[: len(counts)])
    chances = compute_key_chances(goal, count, average)
    assert (chances * count).sum() == pytest.approx(count.sum() / goal)
    assert ((chances > 0) & (chances <= 1)).all()
    assert (np.diff(chances[np.argsort(average)]) <= 1e-12).all()


def test_rare_keys_are_kept_and_frequent_ones_by_the_logarithm() -> None:
    """A thousand of one and a million of another leave about two to one... of kept traces, not a thousand to one."""
    chances = compute_key_chances(100, np.array([1, 1000, 1_000_000]), np.array([1.0, 1000, 1_000_000]))
    assert chances[:2].tolist() == [1, 1]
    chances = compute_key_chances(100_000, np.array([1000, 1_000_000]), np.array([1000.0, 1_000_000]))
    assert chances[1] * 1_000_000 / (chances[0] * 1000) == pytest.approx(2, rel=1e-3)


def test_a_goal_of_one_keeps_all() -> None:
    """Or less than one."""
    assert compute_key_chances(1, np.array([5, 6]), np.array([1.0, 2.0])).tolist() == [1, 1]
    assert compute_key_chances(0.5, np.array([5]), np.array([1.0])).tolist() == [1]


def test_averages_move() -> None:
    """Each interval counts by its weight; a key that is not seen fades away; an interval without traces is none."""
    keys, columns = keyed({"a": 40, "b": 4})
    judge = PolicyEvaluator(policy_set(RATES))
    _verdicts, state = judge.judge(traces(44, **columns), LimitState())
    assert state.averages == {"rates": KeyAverages((("a", 20.0), ("b", 2.0)))}
    keys, columns = keyed({"a": 10, "c": 2}, ready_us=NOON_US + 600 * SECOND)
    _verdicts, state = judge.judge(traces(len(keys), **columns), state)
    assert state.averages == {"rates": KeyAverages((("a", 15.0), ("b", 1.0), ("c", 1.0)))}
    _verdicts, state = judge.judge(traces(1, keys=(["a"],)), state)
    _verdicts, state = judge.judge(traces(1, keys=(["a"],)), state)
    assert state.averages == {"rates": KeyAverages((("a", 4.5),))}


def test_keys_of_one_interval_have_their_rates() -> None:
    """Those of the next interval have others; a null is an empty key."""
    keys, columns = keyed({"big": 900, "small": 10, "": 90})
    of = traces(1000, **columns, ready_us=NOON_US + np.repeat([0, 15, 15], [800, 100, 100]) * SECOND)
    of = replace(of, keys=([key or None for key in keys],))
    verdicts = judged(policy_set(RATES), of)
    first, second = verdicts.probability[:800], verdicts.probability[800:]
    assert np.unique(first).tolist() == [pytest.approx(0.1)]
    assert len(np.unique(second)) == 3
    assert second.sum() == pytest.approx(20)
    assert (verdicts.decision == (of.randomness >= verdicts.threshold)).all()


def test_only_those_who_are_asked_count() -> None:
    """The goal is for them."""
    keys, columns = keyed({"a": 100, "b": 100}, facts=np.repeat([[1], [0]], 100, axis=0))
    verdicts = judged(policy_set(All("and", "and", (holds("a"), RATES))), traces(200, **columns))
    assert verdicts.probability[:100].sum() == pytest.approx(10)
    assert verdicts.probability[100:].sum() == 0
    assert keys[0] == "a"


def test_the_number_of_keys_is_bounded() -> None:
    """The most frequent ones keep their place, the others together are one key; the goal is met all the same."""
    counts = {f"key {place:04}": 1 + (place % 7 == 0) for place in range(2000)}
    keys, columns = keyed(counts)
    of = traces(len(keys), **columns)
    judge = PolicyEvaluator(policy_set(RATES))
    verdicts, state = judge.judge(of, LimitState())
    averages = state.averages["rates"]
    assert len(averages.by_key) == MAX_KEYS
    assert sum(counts[key] for key, _average in averages.by_key) == 286 * 2 + 214
    assert averages.rest == pytest.approx((len(keys) - 786) / 2)
    assert verdicts.probability.sum() == pytest.approx(len(keys) / 10)
    _verdicts, later = judge.judge(traces(1, keys=(["x"],)), state)
    assert later.averages["rates"].rest == averages.rest / 2 + 0.25  # one key made room
