"""Decisions: every kind of policy, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from neve.errors import ConfigError
from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.verdicts import DROPPED, NOT_EVALUATED, NOT_SAMPLED, SAMPLED
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import (
    All,
    Always,
    Composite,
    Drop,
    Dynamic,
    Latency,
    Node,
    Not,
    Probabilistic,
    RateLimit,
    Share,
    SpanCount,
)
from tests.tail.policy.made import NOON_US, OTELCOL, SECOND, decide, holds, judged, policy_set, traces

ALWAYS = Always("all", "always_sample")
NEVER = Not("never", "not", ALWAYS)


def test_without_policies_nothing_is_sampled() -> None:
    """No policy votes, so there is no deciding one."""
    verdicts = judged(policy_set(), traces(2))
    assert verdicts.decision.tolist() == [NOT_SAMPLED] * 2
    assert verdicts.policy.tolist() == [-1] * 2
    assert verdicts.votes.shape == (2, 0)
    assert verdicts.probability.tolist() == [0, 0]
    assert verdicts.adjusted_count.tolist() == [0, 0]


def test_an_empty_batch_is_judged() -> None:
    """No trace, no verdict, the same state."""
    policies = policy_set(ALWAYS, RateLimit("limit", "rate_limiting", 1, 2), Dynamic("dynamic", "dynamic", 0, 10))
    for semantics in Semantics:
        judge = PolicyEvaluator(replace(policies, semantics=semantics))
        verdicts, state = judge.judge(traces(0, keys=((),)), LimitState())
        assert len(verdicts) == 0
        assert len(verdicts.reasons()) == 0
        assert judge.judge(traces(1, keys=(("k",),)), state)[0].decision.tolist() == [SAMPLED]


def test_facts_decide() -> None:
    """A fact that holds samples; an inverted one samples where it does not."""
    of = traces(2, facts=[[1], [0]])
    assert decide(of, holds("a")) == [SAMPLED, NOT_SAMPLED]
    assert decide(of, holds("a", inverted=True)) == [NOT_SAMPLED, SAMPLED]


@pytest.mark.parametrize(
    ("node", "sampled"),
    [
        (Latency("slow", "latency", 50), [False, False, True, True]),
        (Latency("slow", "latency", 50, 60), [False, False, True, False]),
        (SpanCount("many", "span_count", 50), [False, True, True, True]),
        (SpanCount("some", "span_count", 50, 60), [False, True, True, False]),
    ],
)
def test_bounds(node: Node, sampled: list[bool]) -> None:
    """Latency is over its threshold and at most its upper bound; numbers of spans are within both bounds."""
    values = np.array([49, 50, 60, 61])
    assert decide(traces(4, duration_ms=values, span_count=values), node) == [int(each) for each in sampled]


def test_running_latency_is_looked_up() -> None:
    """The collector's reading of an upper bound is known from the spans, in the order of the tree."""
    first, second = (Latency(name, "latency", 1, 2, running=True) for name in ("one", "two"))
    verdicts = judged(policy_set(Not("not", "not", first), second), traces(2, running=[[1, 0], [0, 1]]))
    assert verdicts.votes.tolist() == [[0, 0], [1, 1]]


def test_dropped_beats_sampled() -> None:
    """A policy that drops wins wherever it stands, and nothing is asked after it."""
    drop = Drop("health-checks", "drop", (holds("a"), holds("b")))
    of = traces(3, facts=[[1, 1], [1, 0], [0, 0]])
    verdicts = judged(policy_set(ALWAYS, drop, ALWAYS), of)
    assert verdicts.decision.tolist() == [DROPPED, SAMPLED, SAMPLED]
    assert verdicts.policy.tolist() == [1, 0, 0]
    assert verdicts.votes.tolist() == [[1, DROPPED, NOT_EVALUATED], [1, 0, 1], [1, 0, 1]]
    assert verdicts.reason(0) == "dropped by health-checks"
    assert verdicts.probability.tolist() == [0, 1, 1]


def test_first_match_asks_no_further() -> None:
    """The first policy that samples or drops decides: a limit behind it spends nothing, a drop comes too late."""
    policies = (
        holds("a"),
        Drop("drop", "drop", (holds("b"),)),
        RateLimit("limit", "rate_limiting", 1, 1),
    )
    of = traces(4, facts=[[1, 1], [0, 1], [0, 0], [0, 0]])
    verdicts = judged(policy_set(*policies, first_match=True, **OTELCOL), of)
    assert verdicts.decision.tolist() == [SAMPLED, DROPPED, SAMPLED, NOT_SAMPLED]
    assert verdicts.votes[:, 2].tolist() == [NOT_EVALUATED, NOT_EVALUATED, SAMPLED, NOT_SAMPLED]
    assert verdicts.refused_by.tolist() == [-1, -1, -1, 2]
    assert decide(of, *policies, **OTELCOL)[0] == DROPPED  # and without it dropped wins


def test_and_asks_in_order_until_a_no() -> None:
    """A limit after a no spends nothing; a limit before it spends although the trace is not kept."""
    limit = RateLimit("limit", "rate_limiting", 1, 1)
    of = traces(3, facts=[[0], [1], [1]])
    assert decide(of, All("and", "and", (holds("a"), limit)), **OTELCOL) == [NOT_SAMPLED, SAMPLED, NOT_SAMPLED]
    assert decide(of, All("and", "and", (limit, holds("a"))), **OTELCOL) == [NOT_SAMPLED] * 3
    assert decide(of, All("and", "and", ())) == [SAMPLED] * 3


def test_not_flips() -> None:
    """Also what is inside another one."""
    of = traces(2, facts=[[1], [0]])
    assert decide(of, Not("not", "not", holds("a"))) == [NOT_SAMPLED, SAMPLED]
    assert decide(of, All("and", "and", (Not("not", "not", NEVER), holds("a")))) == [SAMPLED, NOT_SAMPLED]


@pytest.mark.parametrize("semantics", Semantics)
def test_composite_has_no_fall_through(semantics: Semantics) -> None:
    """The first part that samples decides: over its share the trace is not sampled, though a later part would."""
    composite = Composite("both", "composite", 10, (Share(holds("a"), 1), Share(ALWAYS, 5)))
    of = traces(3, facts=[[1], [1], [0]], ready_us=NOON_US, randomness=[9, 1, 5])
    verdicts = judged(policy_set(composite, semantics=semantics), of, window=1)
    assert verdicts.decision.tolist() == [SAMPLED, NOT_SAMPLED, SAMPLED]
    assert verdicts.reason(1).startswith(
        "not sampled by both, part holds-a: of 2 spans ready in the 1 seconds from 12:00:00"
    )


def test_composite_counts_each_second() -> None:
    """Counters start anew with a second; a trace that does not fit leaves its room to a smaller one."""
    composite = Composite("composite", "composite", 10, (Share(ALWAYS, 20),))  # the total is less than the share
    of = traces(5, span_count=[7, 4, 3, 1, 10], ready_us=NOON_US + np.array([0, 1, 2, 3, SECOND]))
    assert decide(of, composite, **OTELCOL) == [1, 0, 1, 0, 1]


def test_a_drop_inside_another_policy_is_refused() -> None:
    """The collector has no such thing, and what it would mean is not clear."""
    with pytest.raises(ConfigError, match="'and/drop' of type 'drop' is not allowed here"):
        PolicyEvaluator(policy_set(All("and", "and", (Drop("drop", "drop", (ALWAYS,)),))))


def test_too_much_chance_is_refused() -> None:
    """A probability is added up from cases; policies with too many are named."""
    percentages = [Probabilistic(f"p{place}", "probabilistic", 5.0, f"salt {place}") for place in range(13)]
    assert PolicyEvaluator(policy_set(*percentages[:12]))
    with pytest.raises(ConfigError, match=r"the policies p0, .*, p12 have too many random combinations .*: 8,192"):
        PolicyEvaluator(policy_set(*percentages))


def test_an_interval_must_be_part_of_the_window() -> None:
    """Otherwise it would be split over two batches."""
    policies = policy_set(Dynamic("rates", "dynamic", 0, 10, interval_seconds=45))
    with pytest.raises(ConfigError, match="'rates': interval_seconds is 45"):
        PolicyEvaluator(policies)
    assert PolicyEvaluator(policies, window_seconds=90)


@pytest.mark.parametrize(
    ("node", "columns", "reason"),
    [
        (Latency("slow", "latency", 5000), {"duration_ms": 5120}, "sampled by slow: 5,120 ms is over 5,000 ms"),
        (holds("a", called="errors"), {"facts": [[1]]}, "sampled by errors: a span matches its string_attribute"),
        (NEVER, {}, "not sampled: no policy voted for it"),
        (
            All("both", "and", (SpanCount("many", "span_count", 2), Not("no", "not", holds("a")))),
            {"span_count": 3, "facts": [[0]]},
            "sampled by both: 3 spans, at least 2 and not holds-a",
        ),
        (Probabilistic("half", "probabilistic", 100, ""), {}, "sampled by half: its hash is within 100 %"),
        (
            RateLimit("limit", "rate_limiting", 5, 10),
            {"span_count": 301},
            "not sampled by limit: its 301 spans are more than the budget of a minute, 300",
        ),
        (
            RateLimit("limit", "rate_limiting", 5, 10),
            {"span_count": 3, "randomness": 1 << 55},
            "sampled by limit: of 3 spans ready in the minute from 12:00:00, 3 fit; "
            "this trace drew 0.5000, needed 0.0000",
        ),
        (
            Composite("parts", "composite", 5, (Share(ALWAYS, 5),)),
            {"randomness": 0},
            "sampled by parts: all, it samples every trace; of 1 spans ready in the minute from 12:00:00, 1 fit; "
            "this trace drew 0.0000, needed 0.0000",
        ),
        (
            Dynamic("rates", "dynamic", 0, 10),
            {"keys": (("checkout",),), "randomness": (1 << 56) - 1},
            "sampled by rates: of key checkout one in 10.0 is kept",
        ),
    ],
)
def test_reasons(node: Node, columns: dict[str, Any], reason: str) -> None:
    """A decision says why."""
    verdicts = judged(policy_set(node), traces(1, **columns))
    assert verdicts.reason(0) == reason
    assert verdicts.reasons().to_pylist() == [reason]


def test_reasons_of_the_collectors_limits() -> None:
    """Order decides, so nothing was drawn."""
    limit = RateLimit("limit", "rate_limiting", 3, 6)
    verdicts = judged(policy_set(limit, **OTELCOL), traces(3, span_count=[4, 3, 7]))
    assert verdicts.reasons().to_pylist() == [
        "sampled by limit: of 7 spans ready in the minute from 12:00:00, 4 fit",
        "not sampled by limit: of 7 spans ready in the minute from 12:00:00, 4 fit",
        "not sampled by limit: its 7 spans are more than its burst, 6",
    ]
