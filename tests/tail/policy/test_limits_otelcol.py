"""The collector's limits: token buckets and counters of a second, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st

from neve.errors import LakeError
from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import BucketState, CounterState, KeyAverages, LimitState, drain_bucket
from neve.tail.policy.tree import Always, Composite, RateLimit, Share
from tests.tail.policy.interpreter import TokenBucket
from tests.tail.policy.made import NOON_US, OTELCOL, SECOND, holds, judged, policy_set, traces

ALWAYS = Always("all", "always_sample")


def drained(rate: int, burst: int, sizes: list[int], times: list[int]) -> list[bool]:
    """Who passes a bucket."""
    limit = RateLimit("limit", "rate_limiting", rate, burst)
    asked = np.ones(len(sizes), dtype=np.bool_)
    passed: list[bool] = drain_bucket(limit, asked, np.array(sizes), np.array(times, dtype=np.int64), None)[0].tolist()
    return passed


def test_a_bucket_starts_full_and_refills() -> None:
    """Ten a second, at most twenty at once; what was refused took nothing."""
    times = [NOON_US, NOON_US, NOON_US, NOON_US + 500_000, NOON_US + 500_001, NOON_US + 100 * SECOND]
    assert drained(10, 20, [15, 6, 5, 5, 1, 20], times) == [True, False, True, True, False, True]


def test_more_than_the_burst_never_passes() -> None:
    """However long it waits."""
    assert drained(10, 20, [21, 20], [NOON_US, NOON_US + 1000 * SECOND]) == [False, True]


def test_a_lack_of_less_than_a_nanosecond_is_none() -> None:
    """At three thousand million a second one token is there before the clock can tell."""
    assert drained(3_000_000_000, 1, [1, 1, 1], [NOON_US] * 3) == [True, True, True]
    assert drained(1_000_000_000, 1, [1, 1], [NOON_US] * 2) == [True, False]


def test_a_rate_of_nothing_spends_its_burst_once() -> None:
    """There is no refill, and no waiting for one."""
    assert drained(0, 2, [1, 1, 1, 0], [NOON_US, NOON_US, NOON_US + SECOND, NOON_US]) == [True, True, False, True]


@seed(1)
@given(
    rate=st.integers(0, 40),
    burst=st.integers(0, 60),
    events=st.lists(st.tuples(st.integers(-200_000, 900_000), st.integers(0, 30)), max_size=60),
)
def test_buckets_agree_with_a_plain_one(rate: int, burst: int, events: list[tuple[int, int]]) -> None:
    """Also where time goes back a little."""
    times = (NOON_US + np.cumsum([step for step, _size in events])).astype(np.int64).tolist()
    plain = TokenBucket(rate, burst)
    expected = [plain.allows(size, now) for (_step, size), now in zip(events, times, strict=True)]
    assert drained(rate, burst, [size for _step, size in events], times) == expected


def test_what_passed_stands_for_what_did_not() -> None:
    """Order is not chance: the weight is how many spans there were for one that passed, in the window."""
    limit = RateLimit("limit", "rate_limiting", 1, 6)
    of = traces(4, span_count=[4, 2, 3, 7], facts=[[0], [1], [0], [0]])
    verdicts = judged(policy_set(limit, holds("a"), **OTELCOL), of)
    assert verdicts.decision.tolist() == [1, 1, 0, 0]
    assert verdicts.adjusted_count.tolist() == [pytest.approx(9 / 6), 1, 0, 0]  # the seven can't ever pass
    assert verdicts.probability[3] == 0


def test_the_weight_of_two_limits_is_a_product() -> None:
    """The second one sees only what passed the first one."""
    policies = policy_set(
        Composite("shares", "composite", 9, (Share(RateLimit("limit", "rate_limiting", 4, 4), 2),)), **OTELCOL
    )
    verdicts = judged(policies, traces(8))
    assert verdicts.decision.tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    assert verdicts.adjusted_count[0] == pytest.approx(8 / 4 * 4 / 2)


def test_state_goes_on_in_the_middle_of_a_second() -> None:
    """Buckets and counters as they were; a counter of another second is forgotten."""
    policies = policy_set(
        RateLimit("limit", "rate_limiting", 1, 5), Composite("shares", "composite", 9, (Share(ALWAYS, 3),)), **OTELCOL
    )
    _verdicts, state = PolicyEvaluator(policies).judge(traces(1, span_count=2), LimitState())
    assert state == LimitState({"limit": BucketState(3.0, NOON_US)}, {"shares": CounterState(NOON_US // SECOND, (2,))})
    votes = [judged(policies, traces(1, span_count=2, ready_us=NOON_US + later), state).votes for later in (0, SECOND)]
    assert [vote.tolist() for vote in votes] == [[[1, 0]], [[1, 1]]]


def test_state_survives_json() -> None:
    """Numbers come back as they were."""
    state = LimitState(
        {"a/b": BucketState(0.1 + 0.2, 5)},
        {"c": CounterState(7, (1, 2))},
        {"d": KeyAverages((("", 1 / 3), ("k", 2.0)), 0.7)},
    )
    assert LimitState.from_document(state.as_document()) == state


@pytest.mark.parametrize("document", [{}, {"buckets": 1}, {"buckets": {"a": [1]}, "counters": {}, "averages": {}}])
def test_a_state_that_can_not_be_read_is_refused(document: dict[str, object]) -> None:
    """With what was expected."""
    with pytest.raises(LakeError, match="can't read the state of limits"):
        LimitState.from_document(document)
