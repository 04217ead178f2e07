"""Probabilities: by hand for each way to nest, and against many draws for random policies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from neve.tail.policy.evaluate.traces import MAX_THRESHOLD, derive_randomness
from neve.tail.policy.evaluate.verdicts import SAMPLED
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Node,
    Not,
    PolicySet,
    Probabilistic,
    RateLimit,
    Share,
)
from tests.tail.policy.made import FACTS, NOON_US, SECOND, holds, judged, policy_set, traces
from tests.tail.policy.trees import FACTUAL, LIMITS, PERCENTAGES

ALWAYS = Always("all", "always_sample")
HALF = MAX_THRESHOLD // 2


def percent(percentage: float, salt: str = "") -> Probabilistic:
    """A percentage."""
    return Probabilistic(f"p{percentage}{salt}", "probabilistic", percentage, salt)


def both(*parts: Node) -> All:
    """All of the parts."""
    return All("and", "and", parts)


@pytest.mark.parametrize(
    ("policies", "chance"),
    [
        ([percent(10)], 0.1),
        ([percent(10), percent(30)], 0.3),  # one hash
        ([percent(10), percent(30, "x")], 1 - 0.9 * 0.7),  # two
        ([both(percent(10), percent(30))], 0.1),
        ([both(percent(10), percent(30, "x"))], 0.03),
        ([Not("not", "not", percent(10))], 0.9),
        ([both(percent(30), Not("not", "not", percent(10)))], 0.2),
        ([both(percent(10), Not("not", "not", percent(30)))], 0),
        ([Drop("drop", "drop", (percent(10),)), percent(30)], 0.2),
        ([Drop("drop", "drop", (percent(10, "x"),)), percent(30)], 0.27),
        ([Drop("drop", "drop", (percent(10),)), ALWAYS], 0.9),
        ([percent(10), ALWAYS], 1),
        ([Composite("c", "composite", 9, (Share(percent(10), 9), Share(percent(30), 0)))], 0.1),
        ([Composite("c", "composite", 9, (Share(percent(10), 0), Share(percent(30), 9)))], 0.2),
        ([percent(0.0001), percent(10, "x")], 1 - (1 - 1e-6) * 0.9),
    ],
)
def test_percentages_in_all_ways(policies: list[Node], chance: float) -> None:
    """With one salt they are one draw, with two they are two."""
    verdicts = judged(policy_set(*policies), traces(3))
    assert verdicts.probability.tolist() == [pytest.approx(chance, rel=1e-12, abs=1e-18)] * 3


def test_an_empty_salt_is_the_default_one() -> None:
    """So that the two are one draw."""
    verdicts = judged(policy_set(percent(10), percent(30, "default-hash-seed")), traces(1))
    assert verdicts.probability[0] == pytest.approx(0.3)


def test_facts_are_fixed() -> None:
    """A trace that a fact samples is not left to chance."""
    verdicts = judged(policy_set(holds("a"), percent(10)), traces(2, facts=[[1], [0]]))
    assert verdicts.probability.tolist() == [1, pytest.approx(0.1)]
    assert verdicts.threshold.tolist() == [0, pytest.approx(0.9 * MAX_THRESHOLD, rel=1e-12)]


def test_a_small_chance_is_exact() -> None:
    """Sums of what is kept and of what is lost meet in the middle, not at the end."""
    tiny = [percent(1e-7, salt) for salt in "abc"]
    verdicts = judged(policy_set(both(*tiny)), traces(1))
    assert verdicts.probability[0] == pytest.approx(1e-27, rel=1e-6)
    assert judged(policy_set(*(percent(50, salt) for salt in "abcdef"), ALWAYS), traces(1)).probability[0] == 1


def test_what_the_sender_sampled_counts() -> None:
    """R was not under the sender's T: that chance is the same draw as a limit's, and another one than a hash's."""
    limit = RateLimit("limit", "rate_limiting", 1, 1)
    of = traces(3, randomness=[HALF + 3, HALF + 2, HALF + 1], head_threshold=[HALF, 0, HALF // 2])
    assert judged(policy_set(ALWAYS), of).threshold.tolist() == [HALF, 0, HALF // 2]
    assert judged(policy_set(percent(10)), of).probability.tolist() == [
        pytest.approx(each) for each in (0.05, 0.1, 0.075)
    ]
    limited = judged(policy_set(limit), of, window=1)
    assert limited.decision.tolist() == [1, 0, 0]
    assert limited.threshold[0] == HALF + 3


def test_a_sender_that_did_not_go_by_r_counts_apart() -> None:
    """Its T is over R, so that R can't have been what it went by."""
    of = traces(1, randomness=HALF - 1, head_threshold=HALF)
    assert judged(policy_set(ALWAYS), of).adjusted_count.tolist() == [2]
    dynamic = judged(policy_set(Dynamic("rates", "dynamic", 0, 1.0)), replace(of, keys=(["k"],)))
    assert dynamic.adjusted_count.tolist() == [2]


def test_thresholds_are_exact_where_r_alone_decides() -> None:
    """All 56 bits of them."""
    of = traces(1000, seed=3)
    verdicts = judged(policy_set(holds("a"), RateLimit("limit", "rate_limiting", 100, 1)), of, window=1)
    kept = verdicts.decision == SAMPLED
    assert kept.sum() == 100
    assert np.unique(verdicts.threshold[kept]).tolist() == [int(np.sort(of.randomness)[-101]) + 1]
    assert (of.randomness[kept] >= verdicts.threshold[kept]).all()


CHANCE = st.one_of(FACTUAL, PERCENTAGES)
INNER = st.recursive(
    CHANCE,
    lambda parts: st.one_of(
        st.lists(parts, min_size=1, max_size=3).map(lambda of: both(*of)),
        parts.map(lambda of: Not("not", "not", of)),
    ),
    max_leaves=4,
)
LIMITED = st.one_of(
    st.tuples(INNER, LIMITS).map(lambda of: both(*of)),
    st.tuples(INNER, LIMITS, LIMITS, INNER).map(lambda of: both(*of)),
    st.tuples(INNER, LIMITS).map(lambda of: both(of[0], Not("not", "not", of[1]))),
    st.builds(
        lambda shares: Composite("composite", "composite", 8, tuple(shares)),
        st.lists(st.builds(Share, INNER, st.integers(0, 8)), min_size=1, max_size=3),
    ),
    st.floats(1, 5).map(lambda goal: Dynamic("rates", "dynamic", 0, goal, interval_seconds=1)),
)
DROP = st.lists(INNER, min_size=1, max_size=2).map(lambda of: Drop("drop", "drop", tuple(of)))


def redrawn(count: int, windows: int, seed_of: int) -> Any:
    """The same few traces in many windows of a second, each time with other ids."""
    rng = np.random.default_rng(seed_of)
    ids = rng.integers(0, 256, (count * windows, 16), dtype=np.uint8)
    same: dict[str, Any] = {
        name: np.tile(rng.integers(low, high, count), windows)
        for name, low, high in [("span_count", 1, 9), ("bytes", 1, 9), ("duration_ms", 0, 100)]
    }
    facts = np.tile(rng.random((count, 3)) < 0.4, (windows, 1))
    head = np.tile(rng.choice([0, HALF // 2, HALF], count, p=[0.7, 0.15, 0.15]), windows).astype(np.uint64)
    drawn = derive_randomness(ids)
    # what the sender did not sample is not there: it is drawn again above its T
    drawn = head + (drawn.astype(np.float64) / MAX_THRESHOLD * (MAX_THRESHOLD - head)).astype(np.uint64)
    ready = NOON_US + np.repeat(np.arange(windows), count) * SECOND
    keys = (np.tile(rng.choice(["a", "b", "b"], count), windows).tolist(),)
    return traces(ids=ids, facts=facts, ready_us=ready, head_threshold=head, randomness=drawn, keys=keys, **same)


@pytest.mark.slow
@seed(1)
@settings(max_examples=40)
@given(
    policies=st.lists(st.one_of(INNER, LIMITED, LIMITED), min_size=1, max_size=3),
    drops=st.one_of(st.just(()), st.tuples(DROP)),
    draw=st.integers(0, 2**32),
)
def test_as_many_are_sampled_as_their_chances_say(policies: list[Node], drops: tuple[Node, ...], draw: int) -> None:
    """Over many draws of all ids, and by its weight a trace is counted once for each time that it had a chance."""
    count, windows = 8, 1500
    of = redrawn(count, windows, draw)
    verdicts = judged(PolicySet((*drops, *policies), facts=FACTS), of, window=1)
    arrived = 1 - of.head_threshold / float(MAX_THRESHOLD)
    chance = (verdicts.probability / arrived).reshape(windows, count)
    sampled = (verdicts.decision == SAMPLED).reshape(windows, count)
    spread = np.sqrt((chance * (1 - np.minimum(chance, 1))).sum(axis=0))
    assert (np.abs((sampled - chance).sum(axis=0)) <= 5 * spread + 5).all()
    often = chance >= 0.02  # smaller ones need more draws
    weighted = np.where(sampled & often, 1 / np.where(often, chance, 1), 0)
    spread = np.sqrt(np.where(often, 1 / np.where(often, chance, 1) - 1, 0).sum(axis=0).clip(0))
    assert (np.abs((weighted - often).sum(axis=0)) <= 5 * spread + 1e-6 + 50 * (spread > 0)).all()
