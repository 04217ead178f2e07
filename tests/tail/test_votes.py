"""What each policy says to a trace, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator, explain_votes
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Always, Composite, Drop, Latency, Not, Probabilistic, RateLimit, Share, SpanCount
from tests.tail.policy.made import fact, holds, policy_set, traces

if TYPE_CHECKING:
    from neve.tail.policy.evaluate.batch_evaluator import Vote
    from neve.tail.policy.tree import Node, PolicySet

ALWAYS = Always("all", "always_sample")
NEVER = Not("none", "not", ALWAYS)


def votes(stated: PolicySet) -> tuple[Vote, ...]:
    """The votes on a trace of 3 spans and 120 ms, of which `a` holds and `b` does not."""
    judge = PolicyEvaluator(stated)
    names = [one.columns for one in stated.facts]
    facts = [[columns == fact("a").columns for columns in names]]
    one = traces(ids=np.zeros((1, 16), np.uint8), span_count=3, bytes=900, duration_ms=120, facts=facts)
    verdicts, _state = judge.judge(one, LimitState())
    return explain_votes(judge, one, verdicts)


@pytest.mark.parametrize(
    ("policy", "vote", "reason"),
    [
        (ALWAYS, "sampled", "it samples every trace"),
        (NEVER, "not_sampled", "the negated policy matches"),
        (holds("a"), "sampled", "a span matches its string_attribute"),
        (holds("b"), "not_sampled", "no span matches its string_attribute"),
        (holds("a", inverted=True), "not_sampled", "a span matches its string_attribute"),
        (Latency("slow", "latency", 100), "sampled", "120 ms is over 100 ms"),
        (Latency("slow", "latency", 5000), "not_sampled", "120 ms is not over 5,000 ms"),
        (Latency("band", "latency", 10, 100), "not_sampled", "120 ms is not over 10 ms and at most 100 ms"),
        (SpanCount("many", "span_count", 10), "not_sampled", "3 spans, not at least 10"),
        (SpanCount("few", "span_count", 1, 2), "not_sampled", "3 spans, not at least 1 and at most 2"),
        (Probabilistic("rest", "probabilistic", 0.0, "x"), "not_sampled", "its hash is not within 0 %"),
        (Probabilistic("rest", "probabilistic", 100.0, "x"), "sampled", "its hash is within 100 %"),
        (
            RateLimit("limit", "bytes_limiting", 1, 2, "bytes"),
            "not_sampled",
            "its 900 bytes do not fit limit, 1 bytes a second",
        ),
        (All("both", "and", (ALWAYS, holds("b"), NEVER)), "not_sampled", "no span matches its string_attribute"),
        (Drop("away", "drop", (holds("a"),)), "dropped", "all its conditions hold"),
        (Drop("away", "drop", (holds("b"),)), "not_sampled", "no span matches its string_attribute"),
        (
            Composite("shares", "composite", 5, (Share(holds("b"), 5),)),
            "not_sampled",
            "no part samples it",
        ),
        (
            Composite("shares", "composite", 0, (Share(holds("b"), 5), Share(ALWAYS, 5))),
            "not_sampled",
            "its 3 spans do not fit shares, part all, 0 spans a second",
        ),
    ],
)
@pytest.mark.parametrize("semantics", Semantics)
def test_a_vote_has_its_reason(policy: Node, vote: str, reason: str, semantics: Semantics) -> None:
    """Yes or no, under both readings."""
    (told,) = votes(policy_set(policy, semantics=semantics))
    assert (told.policy, told.kind, told.vote, told.reason) == (policy.name, policy.kind, vote, reason)


def test_policies_after_the_decision_are_not_asked() -> None:
    """After a drop, and after the first match where that decides."""
    dropped = votes(policy_set(Drop("away", "drop", (ALWAYS,)), ALWAYS))
    first = votes(policy_set(ALWAYS, Latency("slow", "latency", 1), first_match=True))
    assert [one.vote for one in dropped] == ["dropped", "not_asked"]
    assert [one.vote for one in first] == ["sampled", "not_asked"]
    assert dropped[1].reason == first[1].reason == "an earlier policy has decided"


def test_every_policy_that_votes_has_its_own_reason() -> None:
    """Not only the one that decided."""
    told = votes(policy_set(holds("a"), Latency("slow", "latency", 1), ALWAYS))
    assert [(one.vote, one.reason) for one in told] == [
        ("sampled", "a span matches its string_attribute"),
        ("sampled", "120 ms is over 1 ms"),
        ("sampled", "it samples every trace"),
    ]


def test_a_running_latency() -> None:
    """Says that it goes span by span."""
    running = Latency("band", "latency", 10, 100, running=True)
    judge = PolicyEvaluator(policy_set(running))
    one = traces(1, running=[[False]])
    verdicts, _state = judge.judge(one, LimitState())
    (told,) = explain_votes(judge, one, verdicts)
    assert told.reason == "after none of its spans it was over 10 ms and at most 100 ms"
