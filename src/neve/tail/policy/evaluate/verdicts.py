"""Verdicts on a batch of traces: decision, deciding policy, probability, and the reason as a sentence.

Sentences are built in Arrow for whole groups of traces at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from neve.tail.policy.evaluate.thresholds import to_probabilities
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import All, Composite, Dynamic, Not, RateLimit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from neve.tail.policy.evaluate.limits import LimitResult
    from neve.tail.policy.evaluate.plan import Part, Plan
    from neve.tail.policy.evaluate.traces import Doubles, Integers, Traces, Unsigned, Windows
    from neve.tail.policy.tree import Sentence


_STEPS = 10_000  # resolution of a random number in text
_STEP_TEXTS = pa.array([f"{step / _STEPS:.4f}" for step in range(_STEPS + 1)])


def repeat_text(text: str, count: int) -> pa.Array:
    """Repeat a text."""
    return pa.repeat(pa.scalar(text, pa.string()), count)


def join_texts(count: int, *pieces: str | pa.Array) -> pa.Array:
    """Join pieces row by row, where a plain text is the same for each row."""
    if not count:
        return pa.array([], pa.string())
    return pc.binary_join_element_wise(*(pa.scalar(p) if isinstance(p, str) else p for p in pieces), "")


def scatter_texts(groups: Sequence[tuple[Integers, pa.Array]], count: int) -> pa.Array:
    """Place the texts of groups at the places of their group."""
    if not groups:
        return pa.array([], pa.string())
    order = np.empty(count, dtype=np.int64)
    order[np.concatenate([places for places, _texts in groups])] = np.arange(count)
    return pa.concat_arrays([texts for _places, texts in groups]).take(pa.array(order))


def format_numbers(values: Integers) -> pa.Array:
    """Format integers with thousands separators."""
    distinct, which = np.unique(values, return_inverse=True)
    return pa.array([f"{value:,}" for value in distinct.tolist()], pa.string()).take(pa.array(which))


def render_sentence(sentence: Sentence, places: Integers) -> pa.Array:
    """Render a sentence for some traces."""
    pieces = [piece if isinstance(piece, str) else format_numbers(piece[places]) for piece in sentence]
    if all(isinstance(piece, str) for piece in pieces):
        return repeat_text("".join(pieces), len(places))
    return join_texts(len(places), *pieces)


def format_one_in(chances: Doubles) -> pa.Array:
    """Format the number of traces for each kept one."""
    distinct, which = np.unique(chances, return_inverse=True)
    return pa.array([f"{1 / chance:,.1f}" for chance in distinct.tolist()], pa.string()).take(pa.array(which))


def format_randomness(values: Unsigned) -> pa.Array:
    """Format 56-bit numbers as fractions of one, truncated to four digits."""
    steps = (values >> np.uint64(16)) * np.uint64(_STEPS) >> np.uint64(40)  # 40 bits are enough, and do not overflow
    return _STEP_TEXTS.take(pa.array(steps))


def format_clock(seconds: int) -> str:
    """Format the time of day in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")


@dataclass(frozen=True)
class BatchRecord:
    """Data of a batch for the reasons of its decisions."""

    plan: Plan
    semantics: Semantics
    traces: Traces
    windows: Windows
    limit_results: Mapping[int, LimitResult]
    thresholds: Mapping[int, Unsigned]
    refused_by: npt.NDArray[np.int32]  # number of the limit that an unsampled trace failed, or -1

    def reasons(self, decision: npt.NDArray[np.int8], policy: npt.NDArray[np.int32], places: Integers) -> pa.Array:
        """Return the reasons of some traces in order, built together for traces with the same kind of reason."""
        kinds = (decision[places].astype(np.int64) + 1) * (len(self.plan.policies) + 1) + policy[places] + 1
        kinds = kinds * (len(self.plan.leaves) + 1) + self.refused_by[places] + 1
        groups = []
        for kind in np.unique(kinds):
            of_kind = np.flatnonzero(kinds == kind)
            groups.append((of_kind, self._reasons(int(decision[places[of_kind[0]]]), policy, places[of_kind])))
        return scatter_texts(groups, len(places))

    def _reasons(self, decision: int, policy: npt.NDArray[np.int32], places: Integers) -> pa.Array:
        """Return the reasons of traces with the same decision, policy and limit."""
        if decision == 0:
            refused = int(self.refused_by[places[0]])
            if refused < 0:
                return repeat_text("not sampled: no policy voted for it", len(places))
            leaf = self.plan.leaves[refused]
            return join_texts(len(places), f"not sampled by {leaf.node.name}: ", self._limit(leaf, places))
        deciding = self.plan.policies[int(policy[places[0]])]
        if deciding.drops:
            return repeat_text(f"dropped by {deciding.node.name}", len(places))
        explanation = self._explain_yes(deciding, places)
        return join_texts(len(places), f"sampled by {deciding.node.name}: ", explanation)

    def _explain_yes(self, part: Part, places: Integers) -> pa.Array:
        """Explain why a part said yes."""
        match part.node:
            case All():
                if not part.parts:
                    return repeat_text("it has no conditions", len(places))
                texts = [piece for each in part.parts for piece in (" and ", self._explain_yes(each, places))]
                return join_texts(len(places), *texts[1:])
            case Not():
                return repeat_text(part.title, len(places))
            case Composite():
                return self._share(part, places)
        return self._leaf(part, places)

    def _leaf(self, part: Part, places: Integers) -> pa.Array:
        match part.node:
            case RateLimit():
                return self._limit(part, places)
            case Dynamic(key=key):
                keys = self.traces.texts(key).take(pa.array(places))
                chances = to_probabilities(self.thresholds[part.number][places])
                return join_texts(len(places), "of key ", keys, " one in ", format_one_in(chances), " is kept")
        return render_sentence(part.node.explain(self.traces, sampled=True), places)

    def _share(self, composite: Part, places: Integers) -> pa.Array:
        """Explain why a part of a composite policy said yes, with its budget."""
        groups = []
        for part, budget in zip(composite.parts, composite.budgets, strict=True):
            here = np.flatnonzero(self.limit_results[budget.number].candidates[places])
            explanation, within = self._explain_yes(part, places[here]), self._limit(budget, places[here])
            groups.append((here, join_texts(len(here), f"{part.title}, ", explanation, "; ", within)))
        return scatter_texts(groups, len(places))

    def _limit(self, leaf: Part, places: Integers) -> pa.Array:
        """Explain the use of a window's budget, and its effect on a trace."""
        limit, limit_results = leaf.node, self.limit_results[leaf.number]
        assert isinstance(limit, RateLimit)  # noqa: S101, only limits have a result
        large = limit_results.too_large[places]
        groups = [
            (np.flatnonzero(large), self._explain_size(limit, places[large])),
            (np.flatnonzero(~large), self._in_window(limit, limit_results, places[~large])),
        ]
        return scatter_texts(groups, len(places))

    def _explain_size(self, limit: RateLimit, places: Integers) -> pa.Array:
        most, what = limit.burst, "its burst"
        if self.semantics is Semantics.DOCUMENTED:
            most, what = limit.per_second * self.windows.seconds, f"the budget of a {self.windows.words}"
        text = f" {limit.unit} are more than {what}, {most:,}"
        return render_sentence(("its ", self.traces.sizes(limit.unit), text), places)

    def _in_window(self, limit: RateLimit, limit_results: LimitResult, places: Integers) -> pa.Array:
        numbers, which = np.unique(self.windows.of[places], return_inverse=True)
        windows = pa.array(
            [
                f"of {reached:,} {limit.unit} ready in the {self.windows.words} from {format_clock(start)}, "
                f"{fitted:,} fit"
                for reached, fitted, start in zip(
                    limit_results.reached[numbers].tolist(),
                    limit_results.fitted[numbers].tolist(),
                    self.windows.starts[numbers].tolist(),
                    strict=True,
                )
            ],
            pa.string(),
        ).take(pa.array(which))
        if self.semantics is Semantics.OTELCOL:
            return windows
        needed, drawn = (
            format_randomness(limit_results.thresholds[places]),
            format_randomness(self.traces.randomness[places]),
        )
        return join_texts(len(places), windows, "; this trace drew ", drawn, ", needed ", needed)


SAMPLED = 1
NOT_SAMPLED = 0
DROPPED = -1
NOT_EVALUATED = -2  # a vote that was no longer needed

_CHUNK = 1 << 15  # reasons built at a time, as the pieces of sentences need more memory than the sentences


@dataclass(frozen=True)
class Verdicts:
    """Verdicts as arrays with one place for each trace."""

    decision: npt.NDArray[np.int8]
    policy: npt.NDArray[np.int32]  # the first that voted for the decision, -1 if none sampled
    votes: npt.NDArray[np.int8]  # n x number of policies
    probability: Doubles  # probability that a trace with these facts is sampled, including the sender's sampling
    threshold: Unsigned  # T for `ot=th`; 2^56 for traces that can't be sampled
    record: BatchRecord

    def __len__(self) -> int:
        return len(self.decision)

    @cached_property
    def adjusted_count(self) -> Doubles:
        """Number of traces that each sampled one represents, or 0 for the others."""
        kept = self.decision == SAMPLED
        return np.divide(1.0, self.probability, out=np.zeros(len(self)), where=kept)

    @property
    def refused_by(self) -> npt.NDArray[np.int32]:
        """Policy whose limit an unsampled trace exceeded, or -1 if there is none, for each trace."""
        policies = np.array([*(leaf.policy for leaf in self.record.plan.leaves), -1], dtype=np.int32)
        return policies[self.record.refused_by]

    def reason(self, place: int) -> str:
        """Return the reason for one trace as a sentence."""
        return str(self.record.reasons(self.decision, self.policy, np.array([place]))[0].as_py())

    def reasons(self) -> pa.Array:
        """Return the reason for every trace."""
        parts = [
            self.record.reasons(self.decision, self.policy, np.arange(start, min(start + _CHUNK, len(self))))
            for start in range(0, len(self), _CHUNK)
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.string())
