"""Decisions about random traces by random policies: as a plain interpreter makes them, however they are batched."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st

from neve.tail.policy.evaluate.batch_evaluator import PolicyEvaluator
from neve.tail.policy.evaluate.limits import LimitState
from neve.tail.policy.evaluate.probability import AnswerWalk, find_largest_sampled, hash_traces
from neve.tail.policy.evaluate.verdicts import DROPPED, NOT_SAMPLED, SAMPLED
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Dynamic, FactNode, Node, PolicySet, Probabilistic
from tests.tail.policy.interpreter import Interpreter
from tests.tail.policy.made import FACTS, NOON_US, SECOND, judged
from tests.tail.policy.trees import POLICIES, cases, one_by_one, random_traces

if TYPE_CHECKING:
    from neve.tail.policy.evaluate.plan import Part
    from neve.tail.policy.evaluate.traces import Bools, Traces
    from neve.tail.policy.evaluate.verdicts import Verdicts


@pytest.mark.slow
@seed(1)
@settings(max_examples=100)
@given(
    policies=POLICIES,
    semantics=st.sampled_from(Semantics),
    first_match=st.booleans(),
    batch=st.integers(0, 2**32),
    coarse=st.booleans(),
)
def test_decisions_are_those_of_a_plain_interpreter(
    policies: list[Node], semantics: Semantics, first_match: bool, batch: int, coarse: bool
) -> None:
    """For random policies and traces, limits and all; and every sampled trace had a chance."""
    asked = PolicySet(tuple(policies), semantics, first_match, facts=FACTS)
    assume(cases(asked) <= 512)  # more only take longer
    of = random_traces(60, batch, coarse=coarse)
    verdicts = judged(asked, of, window=5)
    assert verdicts.decision.tolist() == Interpreter(asked, 5 * SECOND).decide(one_by_one(of, "abc"))
    sampled = verdicts.decision == SAMPLED
    assert (verdicts.probability[sampled] > 0).all()
    assert ((verdicts.policy >= 0) == (verdicts.decision != NOT_SAMPLED)).all()
    reasons = verdicts.reasons().to_pylist()
    assert [verdicts.reason(place) for place in (0, 30, 59)] == [reasons[place] for place in (0, 30, 59)]
    words = {SAMPLED: "sampled by ", NOT_SAMPLED: "not sampled", DROPPED: "dropped by "}
    assert all(text.startswith(words[each]) for text, each in zip(reasons, verdicts.decision.tolist(), strict=True))


@pytest.mark.slow
@seed(2)
@settings(max_examples=60)
@given(
    policies=POLICIES,
    semantics=st.sampled_from(Semantics),
    batch=st.integers(0, 2**32),
    cuts=st.sets(st.integers(1, 5), max_size=5),
)
def test_batches_do_not_matter(policies: list[Node], semantics: Semantics, batch: int, cuts: set[int]) -> None:
    """However whole windows are put into batches, and with the state through JSON, the outcome is the same."""
    dynamic = Dynamic("rates", "dynamic", 0, 4.0, interval_seconds=5)
    asked = PolicySet((*policies, dynamic), semantics, facts=FACTS)
    assume(cases(asked) <= 512)  # more only take longer
    judge = PolicyEvaluator(asked, window_seconds=5)
    of = random_traces(60, batch)
    of = replace(of, keys=([("a", "b", "b", "c", "c", "c")[place % 6] for place in range(60)],))
    whole, end = judge.judge(of, LimitState())
    windows = (of.ready_us - NOON_US) // (5 * SECOND)
    edges = [0, *(int(np.searchsorted(windows, cut)) for cut in sorted(cuts)), len(of)]
    state, decisions, chances = LimitState(), [], []
    for start, stop in pairwise(edges):
        part, state = judge.judge(of.take(slice(start, stop)), LimitState.from_document(state.as_document()))
        decisions += part.decision.tolist()
        chances += part.probability.tolist()
    assert decisions == whole.decision.tolist()
    assert chances == whole.probability.tolist()
    assert state == end


def answer_alone(leaf: Part, of: Traces, verdicts: Verdicts, semantics: Semantics) -> Bools:
    """The answer of one leaf to every trace, apart from the rest of its tree."""
    if isinstance(leaf.node, FactNode):
        return leaf.node.test(of, leaf.place)
    if isinstance(leaf.node, Probabilistic):
        return hash_traces(of.ids, leaf.node.salt) <= np.uint64(find_largest_sampled(leaf.node.percentage))
    result = verdicts.record.limit_results[leaf.number]
    if semantics is Semantics.OTELCOL:
        return result.passed  # by the order of traces: there is no threshold that tells it
    return of.randomness >= result.thresholds


@pytest.mark.slow
@seed(3)
@settings(max_examples=100)
@given(policies=POLICIES, semantics=st.sampled_from(Semantics), first_match=st.booleans(), batch=st.integers(0, 2**32))
def test_the_formula_of_probabilities_gives_the_decisions(
    policies: list[Node], semantics: Semantics, first_match: bool, batch: int
) -> None:
    """The walk with given answers samples what the walk that spends budgets samples, and one trace as all of them."""
    asked = PolicySet(tuple(policies), semantics, first_match, facts=FACTS)
    assume(cases(asked) <= 512)  # more only take longer
    of, evaluator = random_traces(40, batch), PolicyEvaluator(asked, 5)
    verdicts, _state = evaluator.judge(of, LimitState())
    truth = {leaf.number: answer_alone(leaf, of, verdicts, semantics) for leaf in evaluator.plan.leaves}
    expected = (verdicts.decision == SAMPLED).tolist()
    assert np.broadcast_to(AnswerWalk(truth).is_sampled(evaluator.plan), len(of)).tolist() == expected
    alone = [AnswerWalk({number: yes[place] for number, yes in truth.items()}) for place in range(len(of))]
    assert [bool(walk.is_sampled(evaluator.plan)) for walk in alone] == expected
