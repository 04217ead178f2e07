"""Evaluate policies on batches of traces, deterministically, and explain the vote of each policy on one trace.

Limits are independent of each other, and a limit that is not reached spends nothing. So answering one leaf for all
traces, then the next, equals answering all leaves for one trace, then for the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError
from neve.tail.policy.evaluate.limits import (
    CompositeCounters,
    KeyAverages,
    LimitResult,
    LimitState,
    apply_dynamic_rates,
    apply_window_budget,
    build_limit_result,
    drain_bucket,
)
from neve.tail.policy.evaluate.plan import PolicyWalk, build_plan
from neve.tail.policy.evaluate.probability import compute_chances, find_largest_sampled, find_sources, hash_traces
from neve.tail.policy.evaluate.traces import Windows
from neve.tail.policy.evaluate.verdicts import (
    DROPPED,
    NOT_EVALUATED,
    NOT_SAMPLED,
    SAMPLED,
    BatchRecord,
    Verdicts,
    render_sentence,
)
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import Composite, Dynamic, FactNode, Not, Probabilistic, RateLimit

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.evaluate.plan import Part, Plan
    from neve.tail.policy.evaluate.traces import Bools, Traces, Unsigned
    from neve.tail.policy.tree import PolicySet


class BatchEvaluator(PolicyWalk["Bools"]):
    """Walk that answers for the traces of one batch, and spends budgets."""

    def __init__(
        self, plan: Plan, semantics: Semantics, traces: Traces, window_seconds: int, state: LimitState
    ) -> None:
        self._plan, self._semantics, self._traces = plan, semantics, traces
        self._windows = Windows.over(traces.ready_us, window_seconds)
        self._hashes: dict[str, Unsigned] = {}
        self._buckets, self._counters = dict(state.buckets), dict(state.counters)
        self._averages = dict(state.averages)
        self._seconds: dict[str, CompositeCounters] = {}
        self._limit_results: dict[int, LimitResult] = {}
        self.fixed: dict[int, Bools] = {}  # answers from facts, for every trace
        self.thresholds: dict[int, Unsigned] = {}  # T of answers by R or the order of traces, for every trace

    @property
    def everyone(self) -> Bools:
        """True for each trace of the batch."""
        return self._traces.everywhere

    def answer(self, leaf: Part, candidates: Bools) -> Bools:
        """Bools from the facts, the hash, the rate of the key, or a budget."""
        match leaf.node:
            case FactNode() as node:
                self.fixed[leaf.number] = node.test(self._traces, leaf.place)
                return candidates & self.fixed[leaf.number]
            case Probabilistic(percentage=percentage, salt=salt):
                if salt not in self._hashes:
                    self._hashes[salt] = hash_traces(self._traces.ids, salt)
                return candidates & (self._hashes[salt] <= np.uint64(find_largest_sampled(percentage)))
            case Dynamic() as node:
                return candidates & self._sample_by_key(leaf, node, candidates)
            case RateLimit() as node:
                result = self._spend(leaf, node, candidates)
                self._limit_results[leaf.number], self.thresholds[leaf.number] = result, result.thresholds
                return result.passed
        raise TypeError(f"a {type(leaf.node).__name__} has no answer of its own")

    def enter(self, composite: Part, candidates: Bools) -> None:
        """Count by seconds, as the collector does."""
        if self._semantics is Semantics.OTELCOL:
            before, count = self._counters.get(composite.path), len(composite.parts)
            self._seconds[composite.path] = CompositeCounters(candidates, self._traces.ready_us, count, before)

    def record(self, decision: npt.NDArray[np.int8]) -> BatchRecord:
        """Return the data for the reasons of decisions."""
        refused_by = np.full(len(decision), -1, dtype=np.int32)
        for leaf in reversed(self._plan.limits):
            limit_results = self._limit_results[leaf.number]
            if not leaf.negated:
                refused_by[limit_results.candidates & ~limit_results.passed] = leaf.number
        refused_by[decision != NOT_SAMPLED] = -1
        return BatchRecord(
            self._plan, self._semantics, self._traces, self._windows, self._limit_results, self.thresholds, refused_by
        )

    def after(self) -> LimitState:
        """Return the state for the next batch."""
        counters = {path: after for path, seconds in self._seconds.items() if (after := seconds.after()) is not None}
        return LimitState(self._buckets, self._counters | counters, self._averages)

    def _sample_by_key(self, leaf: Part, node: Dynamic, candidates: Bools) -> Bools:
        intervals = Windows.over(self._traces.ready_us, node.interval_seconds)
        before = self._averages.get(leaf.path, KeyAverages())
        thresholds, after = apply_dynamic_rates(node, self._traces.texts(node.key), candidates, intervals, before)
        self.thresholds[leaf.number], self._averages[leaf.path] = thresholds, after
        return self._traces.randomness >= thresholds

    def _spend(self, leaf: Part, limit: RateLimit, candidates: Bools) -> LimitResult:
        sizes = self._traces.sizes(limit.unit)
        if self._semantics is Semantics.DOCUMENTED:
            budget = limit.per_second * self._windows.seconds
            return apply_window_budget(budget, candidates, sizes, self._traces.randomness, self._windows)
        if leaf.composite:
            passed = self._seconds[leaf.composite].fit_into_share(leaf.place, limit.per_second, candidates, sizes)
        else:
            passed, bucket = drain_bucket(limit, candidates, sizes, self._traces.ready_us, self._buckets.get(leaf.path))
            if bucket is not None:
                self._buckets[leaf.path] = bucket
        return build_limit_result(limit.burst, candidates, passed, sizes, self._windows)


WINDOW_SECONDS_DEFAULT = 60  # window over which documented limits share out their budget


class PolicyEvaluator:
    """Evaluator of all policies on batches of traces.

    Batches are ordered by time, and a window of `window_seconds` (by `Traces.ready_us`, counted from 1970) must not be
    split over two batches. Then the result does not depend on the division of traces into batches.
    """

    def __init__(self, policies: PolicySet, window_seconds: int = WINDOW_SECONDS_DEFAULT) -> None:
        self.plan = build_plan(policies)
        self.semantics = policies.semantics
        self.window_seconds = window_seconds
        self._sources = find_sources(self.plan, policies.semantics)
        for leaf in self.plan.leaves:
            if isinstance(leaf.node, Dynamic) and window_seconds % leaf.node.interval_seconds:
                raise ConfigError(
                    f"policy {leaf.path!r}: interval_seconds is {leaf.node.interval_seconds}",
                    hint=f"expected a divisor of tail.window_seconds, {window_seconds}",
                )

    def begin(self, traces: Traces, state: LimitState) -> BatchEvaluator:
        """Return the walk over a batch."""
        return BatchEvaluator(self.plan, self.semantics, traces, self.window_seconds, state)

    def judge(self, traces: Traces, state: LimitState) -> tuple[Verdicts, LimitState]:
        """Return the verdicts on a batch, and the state for the next batch."""
        batch = self.begin(traces, state)
        votes = np.full((len(traces), len(self.plan.policies)), NOT_EVALUATED, dtype=np.int8)
        decision = np.full(len(traces), NOT_SAMPLED, dtype=np.int8)
        deciding = np.full(len(traces), -1, dtype=np.int32)
        for policy, candidates, yes in batch.votes(self.plan):
            outcome = DROPPED if policy.drops else SAMPLED
            votes[:, policy.policy] = np.where(candidates, np.where(yes, outcome, NOT_SAMPLED), NOT_EVALUATED)
            first = yes if policy.drops else yes & (decision == NOT_SAMPLED)
            decision[first], deciding[first] = outcome, policy.policy
        probability, threshold = compute_chances(self.plan, self._sources, batch.fixed, batch.thresholds, traces)
        verdicts = Verdicts(decision, deciding, votes, probability, threshold, batch.record(decision))
        return verdicts, batch.after()


VOTE_WORDS = {SAMPLED: "sampled", NOT_SAMPLED: "not_sampled", DROPPED: "dropped", NOT_EVALUATED: "not_asked"}
FIRST_TRACE = np.array([0])


@dataclass(frozen=True)
class Vote:
    """Vote of a policy: sampled, not_sampled, dropped, or not_asked if the decision was already made."""

    policy: str
    kind: str
    vote: str
    reason: str


def explain_votes(judge: PolicyEvaluator, traces: Traces, verdicts: Verdicts) -> tuple[Vote, ...]:
    """Return the votes of all policies on the only trace of a batch, in the order of evaluation."""
    explainer = _VoteExplainer(judge, traces, verdicts)
    return tuple(
        Vote(policy.node.name, policy.node.kind, VOTE_WORDS[vote], explainer.reason(policy, vote))
        for policy, vote in zip(judge.plan.policies, verdicts.votes[0].tolist(), strict=True)
    )


@dataclass(frozen=True)
class _VoteExplainer:
    judge: PolicyEvaluator
    traces: Traces
    verdicts: Verdicts

    def reason(self, policy: Part, vote: int) -> str:
        if vote == NOT_EVALUATED:
            return "an earlier policy has decided"
        if vote == NOT_SAMPLED:
            return self._explain_no(policy)
        if vote == DROPPED:
            return "all its conditions hold"
        deciding = np.array([policy.policy], np.int32)
        reasons = self.verdicts.record.reasons(np.array([vote], np.int8), deciding, FIRST_TRACE)
        return str(reasons[0].as_py()).removeprefix(f"sampled by {policy.node.name}: ")

    def _explain_no(self, part: Part) -> str:
        match part.node:
            case Not():
                return "the negated policy matches"
            case Composite():
                share = next((place for place, each in enumerate(part.parts) if self._votes_yes(each)), None)
                return "no part samples it" if share is None else self._explain_no(part.budgets[share])
        if part.number < 0:
            refused = next((each for each in part.parts if not self._votes_yes(each)), None)
            return "its parts do not agree" if refused is None else self._explain_no(refused)
        sentence = part.node.explain(self.traces, sampled=False)
        return str(render_sentence(sentence, FIRST_TRACE)[0].as_py())

    def _votes_yes(self, part: Part) -> bool:
        """Return whether a part says yes by itself, with unspent budgets."""
        batch = self.judge.begin(self.traces, LimitState())
        return bool(batch.evaluate(part, batch.everyone)[0])
