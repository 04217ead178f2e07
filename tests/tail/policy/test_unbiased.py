"""Adjusted counts are unbiased: what is kept tells how many there were, with limits on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD, derive_randomness
from neve.tail.policy.evaluate.verdicts import SAMPLED
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Always, Composite, Drop, Dynamic, Latency, Probabilistic, RateLimit, Share
from tests.tail.policy.made import NOON_US, SECOND, holds, policy_set, traces

if TYPE_CHECKING:
    from neve.tail.policy.evaluate.traces import Traces
    from neve.tail.policy.tree import Node, PolicySet

SERVICES = ["cart", "checkout", "search", "web"]
SEEDS = 120
COUNT = 2400
CRITICAL = 3.29  # standard errors: 99.9 % of means are within

ALWAYS = Always("rest", "always_sample")
ERRORS, HEALTH = holds("a", called="errors"), holds("b", called="health")
SLOW = Latency("slow", "latency", 900)
TENTH = Probabilistic("tenth", "probabilistic", 10.0, "")
LIMIT = RateLimit("limit", "rate_limiting", 4, 8)
BYTES = RateLimit("bytes", "bytes_limiting", 4000, 8000, "bytes")
COMPOSITE = Composite(
    "composite", "composite", 6, (Share(ERRORS, 1), Share(holds("c", called="vip"), 3), Share(ALWAYS, 2))
)
DYNAMIC = Dynamic("rates", "dynamic", 0, 20.0)
SETS: dict[str, PolicySet] = {
    "a limit": policy_set(LIMIT),
    "bytes": policy_set(BYTES),
    "shares": policy_set(COMPOSITE),
    "percentage and limit": policy_set(TENTH, LIMIT),
    "limit behind a percentage": policy_set(
        All("and", "and", (Probabilistic("half", "probabilistic", 50.0, "other"), LIMIT))
    ),
    "two limits in a row": policy_set(All("and", "and", (LIMIT, BYTES))),
    "everything": policy_set(Drop("drop", "drop", (HEALTH,)), ERRORS, SLOW, TENTH, LIMIT, COMPOSITE, DYNAMIC),
    "everything, first match": policy_set(ERRORS, SLOW, TENTH, COMPOSITE, first_match=True),
}


def population(head_sampled: bool) -> tuple[Traces, np.ndarray[Any, Any]]:
    """Traces of four services over four minutes, whose ids will be drawn; and the service of each."""
    rng = np.random.default_rng(42)
    service = rng.choice(4, COUNT, p=[0.02, 0.08, 0.3, 0.6])
    of = traces(
        COUNT,
        span_count=rng.geometric(0.2, COUNT) + service * 2,  # large ones are of some services more than of others
        bytes=rng.integers(200, 4000, COUNT),
        duration_ms=rng.exponential(200 + 100 * service).astype(np.int64),
        facts=rng.random((COUNT, 3)) < np.array([0.02, 0.1, 0.3]),
        ready_us=np.sort(NOON_US + rng.integers(0, 240 * SECOND, COUNT)),
        keys=([SERVICES[place] for place in service],),
        head_threshold=np.where(rng.random(COUNT) < 0.5, MAX_THRESHOLD // 4, 0) if head_sampled else 0,
    )
    return of, service


def estimates(policies: PolicySet, *, head_sampled: bool = False) -> tuple[Any, Any, Any]:
    """By seed and service: the estimated number of traces, that of kept ones, and the truth."""
    judge = PolicyEvaluator(policies)
    of, service = population(head_sampled)
    truth = np.bincount(service, minlength=4).astype(np.float64)
    if any(isinstance(policy, Drop) for policy in policies.policies):
        dropped = of.facts[:, policies.facts.index(HEALTH.fact)]
        truth -= np.bincount(service[dropped], minlength=4)
    weighted, naive = np.zeros((SEEDS, 4)), np.zeros((SEEDS, 4))
    for seed in range(SEEDS):
        ids = np.random.default_rng(seed).integers(0, 256, (COUNT, 16), dtype=np.uint8)
        drawn = derive_randomness(ids)
        arrived = drawn >= of.head_threshold
        drawn_traces = replace(of, ids=ids, randomness=drawn).take(np.flatnonzero(arrived))
        verdicts, _state = judge.judge(drawn_traces, LimitState())
        weighted[seed] = np.bincount(service[arrived], verdicts.adjusted_count, minlength=4)
        naive[seed] = np.bincount(service[arrived], verdicts.decision == SAMPLED, minlength=4)
    return weighted, naive, truth


def errors_of(counts: Any, truth: Any) -> Any:
    """How many standard errors the mean over all seeds is off the truth, for each service."""
    return np.abs(counts.mean(axis=0) - truth) / (counts.std(axis=0, ddof=1) / np.sqrt(SEEDS))


@pytest.mark.slow
@pytest.mark.parametrize("named", SETS)
def test_estimates_by_service_are_unbiased(named: str) -> None:
    """The mean over many seeds is within its interval for each service; that of kept traces is far out of it."""
    weighted, naive, truth = estimates(SETS[named])
    assert (errors_of(weighted, truth) < CRITICAL).all()
    assert (errors_of(naive, truth) > 10 * CRITICAL).all()


@pytest.mark.slow
def test_what_senders_sampled_is_counted_too() -> None:
    """Half of the traces were sampled at three quarters before they came."""
    weighted, naive, truth = estimates(SETS["everything"], head_sampled=True)
    assert (errors_of(weighted, truth) < CRITICAL).all()
    assert (errors_of(naive, truth) > 10 * CRITICAL).all()


def test_the_volume_is_held() -> None:
    """No minute keeps more spans than its budget, and little is left over."""
    of, _service = population(head_sampled=False)
    verdicts, _state = PolicyEvaluator(SETS["a limit"]).judge(of, LimitState())
    kept = np.bincount((of.ready_us - NOON_US) // (60 * SECOND), of.span_count * (verdicts.decision == SAMPLED))
    assert (kept <= 240).all()
    assert (kept > 200).all()


@pytest.mark.slow
def test_a_limit_after_another_one_is_nearly_unbiased() -> None:
    """Where a limit only sees what another limit refused, a weight is off by about one trace of the window."""
    policies: tuple[Node, ...] = (LIMIT, RateLimit("second", "rate_limiting", 2, 4))
    weighted, _naive, truth = estimates(policy_set(*policies, first_match=True))
    assert (np.abs(weighted.mean(axis=0) / truth - 1) < 0.1).all()


def test_the_collectors_limits_count_spans() -> None:
    """Its buckets prefer small traces, so that only the number of spans comes out about right."""
    of, _service = population(head_sampled=False)
    policies = policy_set(replace(LIMIT, burst=100), semantics=Semantics.OTELCOL)
    verdicts, _state = PolicyEvaluator(policies).judge(of, LimitState())
    spans = (verdicts.adjusted_count * of.span_count).sum()
    assert spans == pytest.approx(of.span_count.sum(), rel=0.02)
