"""Reasons in plain words: why a trace was sampled, not sampled or dropped; made for whole groups of traces at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.tail.policy.plan import Ask, Every, FirstShare, Limit, Opposite
from neve.tail.policy.thresholds import probabilities_of
from neve.tail.policy.tree import Always, Dynamic, Holds, Latency, Probabilistic, Semantics, SpanCount
from neve.tail.policy.words import clock, drawn, joined, numbers, one_in, repeated, scattered

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from neve.tail.policy.limits import Settled
    from neve.tail.policy.plan import Plan, Question, Tree
    from neve.tail.policy.traces import Integers, Traces, Unsigned
    from neve.tail.policy.tree import Node
    from neve.tail.policy.windows import Windows


@dataclass(frozen=True)
class Record:
    """What a batch leaves behind for its reasons."""

    plan: Plan
    semantics: Semantics
    traces: Traces
    windows: Windows
    settled: Mapping[int, Settled]
    thresholds: Mapping[int, Unsigned]
    refused_by: npt.NDArray[np.int32]  # the question about a budget that a trace which is not sampled failed, or -1

    def reasons(self, decision: npt.NDArray[np.int8], policy: npt.NDArray[np.int32], places: Integers) -> pa.Array:
        """The reasons of some traces, in their order; traces with the same kind of reason are worked on together."""
        kinds = (decision[places].astype(np.int64) + 1) * (len(self.plan.policies) + 1) + policy[places] + 1
        kinds = kinds * (len(self.plan.questions) + 1) + self.refused_by[places] + 1
        groups = []
        for kind in np.unique(kinds):
            of_kind = np.flatnonzero(kinds == kind)
            groups.append((of_kind, self._reasons(int(decision[places[of_kind[0]]]), policy, places[of_kind])))
        return scattered(groups, len(places))

    def _reasons(self, decision: int, policy: npt.NDArray[np.int32], places: Integers) -> pa.Array:
        """The reasons of traces that have the same decision, policy and limit."""
        if decision == 0:
            refused = int(self.refused_by[places[0]])
            if refused < 0:
                return repeated("not sampled: no policy voted for it", len(places))
            question = self.plan.questions[refused]
            return joined(len(places), f"not sampled by {_name(question)}: ", self._limit(question, places))
        deciding = self.plan.policies[int(policy[places[0]])]
        if deciding.drops:
            return repeated(f"dropped by {deciding.node.name}", len(places))
        because = self._because(deciding.tree, places)
        return joined(len(places), f"sampled by {deciding.node.name}: ", because)

    def _because(self, tree: Tree, places: Integers) -> pa.Array:
        """Why a tree said yes."""
        match tree:
            case Ask(question=question):
                return self._answer(question, places)
            case Opposite(part=part):
                return repeated(f"not {_names(part)}", len(places))
            case Every(parts=parts):
                if not parts:
                    return repeated("it asks nothing", len(places))
                texts = [piece for part in parts for piece in (" and ", self._because(part, places))]
                return joined(len(places), *texts[1:])
            case FirstShare():
                return self._share(tree, places)

    def _share(self, tree: FirstShare, places: Integers) -> pa.Array:
        """Why a part of a composite policy said yes, and its budget."""
        groups = []
        for part, budget in zip(tree.parts, tree.budgets, strict=True):
            here = np.flatnonzero(self.settled[budget.number].asked[places])
            because, within = self._because(part, places[here]), self._limit(budget, places[here])
            groups.append((here, joined(len(here), f"{_names(part)}, ", because, "; ", within)))
        return scattered(groups, len(places))

    def _answer(self, question: Question, places: Integers) -> pa.Array:
        if isinstance(question.asks, Limit):
            return self._limit(question, places)
        if isinstance(question.asks, Dynamic):
            keys = self.traces.texts(question.asks.key).take(pa.array(places))
            chances = probabilities_of(self.thresholds[question.number][places])
            return joined(len(places), "of its key ", keys, " one in ", one_in(chances), " is kept")
        return self._fact(question.asks, places)

    def _fact(self, node: Node, places: Integers) -> pa.Array:
        match node:
            case Always():
                text = "it samples every trace"
            case Holds(kind=kind, inverted=inverted):
                text = f"{'no' if inverted else 'a'} span matches its {kind}"
            case Probabilistic(percentage=percentage):
                text = f"its hash is within {percentage:g} %"
            case Latency(threshold_ms=least, upper_ms=upper, running=True):
                most = "" if upper is None else f" and at most {upper:,} ms"
                text = f"after one of its spans it was over {least:,} ms{most}"
            case Latency(threshold_ms=least, upper_ms=upper):
                most = "" if upper is None else f" and at most {upper:,} ms"
                return joined(len(places), numbers(self.traces.duration_ms[places]), f" ms is over {least:,} ms{most}")
            case SpanCount(least=least, most=most_spans):
                most = "" if most_spans is None else f" and at most {most_spans:,}"
                return joined(len(places), numbers(self.traces.span_count[places]), f" spans, at least {least:,}{most}")
            case _:
                text = f"its {node.kind} holds"
        return repeated(text, len(places))

    def _limit(self, question: Question, places: Integers) -> pa.Array:
        """How a window's budget went, and what that meant for a trace."""
        large = self.settled[question.number].too_large[places]
        groups = [
            (np.flatnonzero(large), self._too_large(question, places[large])),
            (np.flatnonzero(~large), self._in_window(question, places[~large])),
        ]
        return scattered(groups, len(places))

    def _too_large(self, question: Question, places: Integers) -> pa.Array:
        limit = question.asks
        assert isinstance(limit, Limit)  # noqa: S101, only budgets are asked this
        sizes = (self.traces.bytes if limit.unit == "bytes" else self.traces.span_count)[places]
        most, what = limit.burst, "what it lets through at once"
        if self.semantics is Semantics.DOCUMENTED:
            most, what = limit.per_second * self.windows.seconds, f"all of a {self.windows.words}"
        text = f" {limit.unit} are more than {what}, {most:,}"
        return joined(len(places), "its ", numbers(sizes), text)

    def _in_window(self, question: Question, places: Integers) -> pa.Array:
        limit, settled = question.asks, self.settled[question.number]
        assert isinstance(limit, Limit)  # noqa: S101, only budgets are asked this
        shown, which = np.unique(self.windows.of[places], return_inverse=True)
        windows = pa.array(
            [
                f"of {reached:,} {limit.unit} ready in the {self.windows.words} from {clock(start)}, {fitted:,} fit"
                for reached, fitted, start in zip(
                    settled.reached[shown].tolist(),
                    settled.fitted[shown].tolist(),
                    self.windows.starts[shown].tolist(),
                    strict=True,
                )
            ],
            pa.string(),
        ).take(pa.array(which))
        if self.semantics is Semantics.OTELCOL:
            return windows
        needed, has = drawn(settled.thresholds[places]), drawn(self.traces.randomness[places])
        return joined(len(places), windows, "; this trace drew ", has, ", needed ", needed)


def _name(question: Question) -> str:
    return question.asks.name


def _names(tree: Tree) -> str:
    """What a part is called by what it asks."""
    match tree:
        case Ask(question=question):
            return _name(question)
        case Opposite(part=part):
            return f"not {_names(part)}"
        case Every(parts=parts) | FirstShare(parts=parts):
            return " and ".join(_names(part) for part in parts)
