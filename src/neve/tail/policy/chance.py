"""The chance of a trace to be sampled, with its facts as they are: exact for any nesting of policies.

What is left to chance comes from sources that do not depend on each other: one hash for each salt, and the random
number R, by which limits and dynamic rates go. A question about chance splits its source in two. So all questions
together cut the space of outcomes into cells, in each of which the policies give one answer; the chance is the measure
of the cells in which they sample. A sender that sampled before (`ot=th`) took away all R under its threshold.

A limit's threshold depends on what others drew, never on the trace's own draw. So the chance is exact, given what the
others drew, and its inverse is an unbiased weight. There is one exception: a limit that only sees what another limit
refused (a later policy under first match, a later part of a composite policy). There the own draw matters to who else
comes, and a weight is off by about one trace in as many as a window keeps.

The collector's own limits are not random. Each counts as a source with the chance that a window showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from neve.tail.policy.formula import sampled
from neve.tail.policy.thresholds import probabilities_of, thresholds_of
from neve.tail.policy.traces import MAX_THRESHOLD

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neve.tail.policy.formula import Truth
    from neve.tail.policy.plan import Plan
    from neve.tail.policy.sources import Sources
    from neve.tail.policy.traces import Bools, Doubles, Traces, Unsigned

Cell: TypeAlias = "tuple[float | Doubles, Truth]"  # the measure, and what is answered

_CHUNK = 1 << 14  # traces at a time: their answers stay in the processor's cache
_ALL = np.uint64(MAX_THRESHOLD)  # values of R


@dataclass(frozen=True)
class Answers:
    """What is known about each trace before chance: by the number of the question."""

    fixed: Mapping[int, Bools]  # what facts answer
    thresholds: Mapping[int, Unsigned]  # T of what is left to R, or to the order of traces


def chances(plan: Plan, sources: Sources, answers: Answers, traces: Traces) -> tuple[Doubles, Unsigned]:
    """For each trace the chance to be sampled, and T such that it is 1 - T / 2^56: exact where R alone decides."""
    probabilities, thresholds = np.empty(len(traces)), np.empty(len(traces), dtype=np.uint64)
    for start in range(0, len(traces), _CHUNK):
        part = slice(start, start + _CHUNK)
        fixed = {number: truth[part] for number, truth in answers.fixed.items()}
        cuts = {number: values[part] for number, values in answers.thresholds.items()}
        chunk = _Chunk(plan, sources, fixed, cuts, traces.head_threshold[part])
        probabilities[part], thresholds[part] = chunk.chances(traces.randomness[part])
    return probabilities, thresholds


@dataclass(frozen=True)
class _Chunk:
    plan: Plan
    sources: Sources
    fixed: Mapping[int, Bools]
    thresholds: Mapping[int, Unsigned]
    head: Unsigned

    def chances(self, randomness: Unsigned) -> tuple[Doubles, Unsigned]:
        # a sender whose T is over R did not sample by this R: its sampling is a source of its own
        apart = randomness < self.head
        kept, lost = np.zeros(len(self.head)), np.zeros(len(self.head))
        least, most = np.full(len(self.head), _ALL), np.zeros(len(self.head), dtype=np.uint64)
        drawn = list(self._drawn(np.where(apart, np.uint64(0), self.head)))
        for weight, truth in self._outer():
            measure = np.zeros(len(self.head), dtype=np.uint64)
            for width, answers in drawn:
                measure += width * sampled(self.plan, {**self.fixed, **truth, **answers})
            kept += weight * measure
            lost += weight * (_ALL - measure)
            np.minimum(least, measure, out=least)
            np.maximum(most, measure, out=most)
        # of two sums that make one whole the smaller one is the more exact
        chance = np.where(kept < lost, kept, float(MAX_THRESHOLD) - lost) / float(MAX_THRESHOLD)
        by_r_alone = least == most
        chance[by_r_alone] = probabilities_of(_ALL - least[by_r_alone])
        chance[apart] *= probabilities_of(self.head[apart])
        return chance, np.where(by_r_alone & ~apart, _ALL - least, thresholds_of(chance))

    def _outer(self) -> Iterator[Cell]:
        """The cells of all sources but R: their measure, and what is answered."""
        parts: list[Sequence[Cell]] = [self.sources.hashes]
        for pool in self.sources.pools:
            parts.append([((high - low) / float(MAX_THRESHOLD), truth) for low, high, truth in self._cut(pool)])
        for cell in product(*parts):
            measure: float | Doubles = 1.0
            answers: Truth = {}
            for width, truth in cell:
                measure = measure * width
                answers |= truth
            yield measure, answers

    def _drawn(self, head: Unsigned) -> Iterator[tuple[Unsigned, Truth]]:
        """The cells of R: how many values it has there that the sender left, and what is answered."""
        for low, high, truth in self._cut(self.sources.drawn):
            yield np.maximum(high, head) - np.maximum(low, head), truth

    def _cut(self, numbers: tuple[int, ...]) -> Iterator[tuple[Unsigned, Unsigned, Truth]]:
        """A source of 56 bits, cut at the thresholds that each trace has for some questions."""
        none, whole = np.zeros(len(self.head), dtype=np.uint64), np.full(len(self.head), _ALL)
        bounds = np.sort(np.stack([none, *(self.thresholds[number] for number in numbers), whole]), axis=0)
        for low, high in pairwise(bounds):
            yield low, high, {number: low >= self.thresholds[number] for number in numbers}
