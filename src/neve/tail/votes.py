"""How each policy votes on one trace, and why, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.tail.policy.plan import Ask, Every, FirstShare, Limit, Opposite
from neve.tail.policy.sitting import Sitting
from neve.tail.policy.state import LimitState
from neve.tail.policy.tree import Dynamic, Holds, Latency, Probabilistic, SpanCount
from neve.tail.policy.verdicts import DROPPED, NOT_SAMPLED, SAMPLED, UNASKED

if TYPE_CHECKING:
    from neve.tail.policy.decide import Judge
    from neve.tail.policy.plan import Question, Tree
    from neve.tail.policy.traces import Traces
    from neve.tail.policy.verdicts import Verdicts

WORDS = {SAMPLED: "sampled", NOT_SAMPLED: "not_sampled", DROPPED: "dropped", UNASKED: "not_asked"}
FIRST = np.array([0])


@dataclass(frozen=True)
class Vote:
    """What a policy says: sampled, not_sampled, dropped, or not_asked where the decision was made before."""

    policy: str
    kind: str
    vote: str
    reason: str


def votes_of(judge: Judge, traces: Traces, verdicts: Verdicts) -> tuple[Vote, ...]:
    """The votes of all policies on the only trace of a batch, in the order in which they are asked."""
    asked = _Asked(judge, traces, verdicts)
    return tuple(
        Vote(policy.node.name, policy.node.kind, WORDS[vote], asked.reason(place, vote))
        for place, (policy, vote) in enumerate(zip(judge.plan.policies, verdicts.votes[0].tolist(), strict=True))
    )


@dataclass(frozen=True)
class _Asked:
    judge: Judge
    traces: Traces
    verdicts: Verdicts

    def reason(self, place: int, vote: int) -> str:
        policy = self.judge.plan.policies[place]
        if vote == UNASKED:
            return "a policy before it has decided"
        if vote == NOT_SAMPLED:
            return self._why_not(policy.tree)
        if vote == DROPPED:
            return "all that it asks for holds"
        told = self.verdicts.record.reasons(np.array([vote], np.int8), np.array([place], np.int32), FIRST)
        return str(told[0].as_py()).removeprefix(f"sampled by {policy.node.name}: ")

    def _says_yes(self, tree: Tree) -> bool:
        """Whether a part says yes when it is asked by itself: budgets are as if nothing was spent."""
        judge = self.judge
        sitting = Sitting(judge.plan, judge.semantics, self.traces, judge.window_seconds, LimitState())
        return bool(sitting.ask(tree, np.ones(1, dtype=np.bool_))[0])

    def _why_not(self, tree: Tree) -> str:
        match tree:
            case Ask(question=question):
                return self._answer(question)
            case Opposite():
                return "what it negates holds"
            case Every(parts=parts):
                refused = next((part for part in parts if not self._says_yes(part)), None)
                return "its parts do not agree" if refused is None else self._why_not(refused)
            case FirstShare(parts=parts, budgets=budgets):
                share = next((place for place, part in enumerate(parts) if self._says_yes(part)), None)
                return "none of its parts samples it" if share is None else self._answer(budgets[share])

    def _answer(self, question: Question) -> str:
        """Why a question is answered with no."""
        match question.asks:
            case Limit() as limit:
                size = int((self.traces.bytes if limit.unit == "bytes" else self.traces.span_count)[0])
                why = f"its {size:,} {limit.unit} do not fit {limit.name}, {limit.per_second:,} {limit.unit} a second"
            case Latency(running=True) as latency:
                why = f"after none of its spans it was {_band(latency)}"
            case Latency() as latency:
                why = f"{int(self.traces.duration_ms[0]):,} ms is not {_band(latency)}"
            case SpanCount(least=least, most=most):
                bound = f"at least {least:,}" + ("" if most is None else f" and at most {most:,}")
                why = f"{int(self.traces.span_count[0]):,} spans, not {bound}"
            case Holds(kind=kind, inverted=inverted):
                why = f"{'a' if inverted else 'no'} span matches its {kind}"
            case Probabilistic(percentage=percentage):
                why = f"its hash is not within {percentage:g} %"
            case Dynamic():
                why = "its key is seen too often"
            case other:
                why = f"its {other.kind} does not hold"
        return why


def _band(latency: Latency) -> str:
    most = "" if latency.upper_ms is None else f" and at most {latency.upper_ms:,} ms"
    return f"over {latency.threshold_ms:,} ms{most}"
