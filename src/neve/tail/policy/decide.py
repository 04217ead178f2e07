"""Policies decide about traces: batch after batch, with the same outcome for the same input, always."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from neve.errors import ConfigError
from neve.tail.policy.chance import Answers, chances
from neve.tail.policy.plan import plan
from neve.tail.policy.sitting import Sitting
from neve.tail.policy.sources import sources_of
from neve.tail.policy.tree import Dynamic
from neve.tail.policy.verdicts import DROPPED, NOT_SAMPLED, SAMPLED, UNASKED, Verdicts

if TYPE_CHECKING:
    from neve.tail.policy.state import LimitState
    from neve.tail.policy.traces import Traces
    from neve.tail.policy.tree import PolicySet

WINDOW_SECONDS_DEFAULT = 60  # over which documented limits share out their budget


class Judge:
    """Asks all policies of each trace in a batch.

    Batches come in the order of time, and no window of `window_seconds` (by `Traces.ready_us`, counted from 1970) may
    be split over two of them. Then it does not matter how traces are cut into batches.
    """

    def __init__(self, policies: PolicySet, window_seconds: int = WINDOW_SECONDS_DEFAULT) -> None:
        self.plan = plan(policies)
        self.semantics = policies.semantics
        self.window_seconds = window_seconds
        self._sources = sources_of(self.plan, policies.semantics)
        for question in self.plan.questions:
            if isinstance(question.asks, Dynamic) and window_seconds % question.asks.interval_seconds:
                raise ConfigError(
                    f"policy {question.path!r}: interval_seconds is {question.asks.interval_seconds}",
                    hint=f"expected a whole part of the window that is decided at once, {window_seconds} seconds",
                )

    def judge(self, traces: Traces, state: LimitState) -> tuple[Verdicts, LimitState]:
        """The verdicts on a batch, and the state that the next batch goes on with."""
        sitting = Sitting(self.plan, self.semantics, traces, self.window_seconds, state)
        votes = np.full((len(traces), len(self.plan.policies)), UNASKED, dtype=np.int8)
        undecided = np.ones(len(traces), dtype=np.bool_)
        decision = np.full(len(traces), NOT_SAMPLED, dtype=np.int8)
        deciding = np.full(len(traces), -1, dtype=np.int32)
        for place, policy in enumerate(self.plan.policies):
            yes = sitting.ask(policy.tree, undecided)
            outcome = DROPPED if policy.drops else SAMPLED
            votes[:, place] = np.where(undecided, np.where(yes, outcome, NOT_SAMPLED), UNASKED)
            first = yes if policy.drops else yes & (decision == NOT_SAMPLED)
            decision[first], deciding[first] = outcome, place
            if policy.drops or self.plan.first_match:
                undecided = undecided & ~yes  # a new array: answers keep the old one
        answers = Answers(sitting.fixed, sitting.thresholds)
        probability, threshold = chances(self.plan, self._sources, answers, traces)
        verdicts = Verdicts(decision, deciding, votes, probability, threshold, sitting.record(decision))
        return verdicts, sitting.after()
