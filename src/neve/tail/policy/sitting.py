"""One batch before the policies: questions are answered in order, for all traces at once.

A part is asked only of the traces that come to it, as in the collector: what follows a no is not asked, and a limit
that is not asked spends nothing. Limits know nothing of each other, so to ask one question of all traces, then the
next, is the same as to ask all questions of one trace, then of the next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.tail.policy.buckets import Seconds, drain, outcome
from neve.tail.policy.dynamic import settle_dynamic
from neve.tail.policy.hashing import hashes, largest_sampled
from neve.tail.policy.limits import Settled, settle
from neve.tail.policy.plan import Ask, Every, FirstShare, Limit, Opposite
from neve.tail.policy.reasons import Record
from neve.tail.policy.state import Averages, LimitState
from neve.tail.policy.tree import Always, Dynamic, Holds, Latency, Probabilistic, Semantics, SpanCount
from neve.tail.policy.verdicts import NOT_SAMPLED
from neve.tail.policy.windows import Windows

if TYPE_CHECKING:
    import numpy.typing as npt

    from neve.tail.policy.plan import Plan, Question, Tree
    from neve.tail.policy.traces import Bools, Integers, Traces, Unsigned
    from neve.tail.policy.tree import Node


class Sitting:
    """The answers for one batch, as far as they have been asked for."""

    def __init__(
        self, plan: Plan, semantics: Semantics, traces: Traces, window_seconds: int, state: LimitState
    ) -> None:
        self._plan, self._semantics, self._traces = plan, semantics, traces
        self._windows = Windows.over(traces.ready_us, window_seconds)
        self._hashes: dict[str, Unsigned] = {}
        self._buckets, self._counters = dict(state.buckets), dict(state.counters)
        self._averages = dict(state.averages)
        self._settled: dict[int, Settled] = {}
        self.fixed: dict[int, Bools] = {}  # answers that facts give, for every trace
        self.thresholds: dict[int, Unsigned] = {}  # T of answers that R or the order of traces gives, for every trace

    def ask(self, tree: Tree, asked: Bools) -> Bools:
        """Which of the traces that are asked get a yes."""
        match tree:
            case Ask(question=question):
                return self._answer(question, asked)
            case Opposite(part=part):
                return asked & ~self.ask(part, asked)
            case Every(parts=parts):
                for part in parts:
                    asked = self.ask(part, asked)
                return asked
            case FirstShare():
                return self._first_share(tree, asked)

    def record(self, decision: npt.NDArray[np.int8]) -> Record:
        """What reasons are made from."""
        refused_by = np.full(len(decision), -1, dtype=np.int32)
        for question in reversed(self._plan.limits):
            settled = self._settled[question.number]
            if not question.negated:
                refused_by[settled.asked & ~settled.passed] = question.number
        refused_by[decision != NOT_SAMPLED] = -1
        return Record(
            self._plan, self._semantics, self._traces, self._windows, self._settled, self.thresholds, refused_by
        )

    def after(self) -> LimitState:
        """The state for the next batch."""
        return LimitState(self._buckets, self._counters, self._averages)

    def _answer(self, question: Question, asked: Bools) -> Bools:
        asks = question.asks
        if isinstance(asks, Limit):
            return self._limited(question, asks, asked)
        if isinstance(asks, Dynamic):
            intervals = Windows.over(self._traces.ready_us, asks.interval_seconds)
            before = self._averages.get(question.path, Averages())
            thresholds, after = settle_dynamic(asks, self._traces.texts(asks.key), asked, intervals, before)
            self.thresholds[question.number], self._averages[question.path] = thresholds, after
            return asked & (self._traces.randomness >= thresholds)
        if isinstance(asks, Probabilistic):
            if asks.salt not in self._hashes:
                self._hashes[asks.salt] = hashes(self._traces.ids, asks.salt)
            return asked & (self._hashes[asks.salt] <= np.uint64(largest_sampled(asks.percentage)))
        self.fixed[question.number] = fixed(asks, question.place, self._traces)
        return asked & self.fixed[question.number]

    def _limited(self, question: Question, limit: Limit, asked: Bools) -> Bools:
        sizes = self._sizes(limit)
        if self._semantics is Semantics.DOCUMENTED:
            budget = limit.per_second * self._windows.seconds
            return self._note(question, settle(budget, asked, sizes, self._traces.randomness, self._windows))
        passed, bucket = drain(limit, asked, sizes, self._traces.ready_us, self._buckets.get(limit.pool))
        if bucket is not None:
            self._buckets[limit.pool] = bucket
        return self._note(question, outcome(limit.burst, asked, passed, sizes, self._windows))

    def _first_share(self, tree: FirstShare, asked: Bools) -> Bools:
        seconds = None
        if self._semantics is Semantics.OTELCOL:
            counter = self._counters.get(tree.path)
            seconds = Seconds(asked, self._traces.ready_us, len(tree.parts), counter)
        kept, left = np.zeros_like(asked), asked
        for part, budget in zip(tree.parts, tree.budgets, strict=True):
            reached = self.ask(part, left)
            left = left & ~reached
            kept |= self._answer(budget, reached) if seconds is None else self._allotted(budget, reached, seconds)
        after = seconds.after() if seconds else None
        if after is not None:
            self._counters[tree.path] = after
        return kept

    def _allotted(self, question: Question, reached: Bools, seconds: Seconds) -> Bools:
        limit = question.asks
        assert isinstance(limit, Limit)  # noqa: S101, budgets of shares are
        sizes = self._traces.span_count
        passed = seconds.allot(limit.share or 0, limit.per_second, reached, sizes)
        return self._note(question, outcome(limit.per_second, reached, passed, sizes, self._windows))

    def _note(self, question: Question, settled: Settled) -> Bools:
        self._settled[question.number] = settled
        self.thresholds[question.number] = settled.thresholds
        return settled.passed

    def _sizes(self, limit: Limit) -> Integers:
        return self._traces.bytes if limit.unit == "bytes" else self._traces.span_count


def fixed(node: Node, place: int, traces: Traces) -> Bools:
    """What the facts of each trace say to a question that nothing else decides."""
    match node:
        case Always():
            return np.ones(len(traces), dtype=np.bool_)
        case Holds(inverted=inverted):
            return ~traces.facts[:, place] if inverted else traces.facts[:, place]
        case Latency(running=True):
            return traces.running_latency[:, place]
        case Latency(threshold_ms=threshold, upper_ms=upper):
            return _within(traces.duration_ms, threshold + 1, upper)
        case SpanCount(least=least, most=most):
            return _within(traces.span_count, least, most)
    raise TypeError(f"a {type(node).__name__} is not decided by facts")


def _within(values: Integers, least: int, most: int | None) -> Bools:
    enough: Bools = values >= least
    return enough if most is None else enough & (values <= most)
