"""Sampling probability of a trace, given its facts: exact for any nesting of policies.

Chance comes from independent sources: one hash for each salt (the collector's FNV-1a of 64 bits over the salt and
the trace id), and the random number R, which limits and dynamic rates use. A leaf about chance splits its source
in two. So all leaves together cut the space of outcomes into cells, in each of which the policies give one
answer. The probability is the measure of the cells in which they sample. A sender that sampled before (`ot=th`) took
away all R under its threshold.

A limit's threshold depends on what others drew, never on the trace's own draw. So the probability is exact, given
what the others drew, and its inverse is an unbiased weight. There is one exception: a limit that only sees what
another limit refused (a later policy under first match, a later part of a composite policy). There the own draw
affects which other traces arrive, and a weight is off by about one trace in as many as a window keeps.

The collector's own limits are not random. Each counts as a source with the chance that a window showed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from neve.errors import ConfigError
from neve.tail.policy.evaluate.plan import PolicyWalk
from neve.tail.policy.evaluate.thresholds import to_probabilities, to_thresholds
from neve.tail.policy.evaluate.traces import MAX_THRESHOLD
from neve.tail.policy.semantics import Semantics
from neve.tail.policy.tree import DEFAULT_SALT, Dynamic, Probabilistic, RateLimit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy.typing as npt

    from neve.tail.policy.evaluate.plan import Part, Plan
    from neve.tail.policy.evaluate.traces import Bools, Doubles, Traces, Unsigned


MAX_HASH = (1 << 64) - 1
PRECISION_BITS = 64  # of the product that the collector truncates to a threshold

_BASIS = 0xCBF29CE484222325
_PRIME = 0x100000001B3
_HASH_CHUNK = 1 << 14  # traces at a time: their hashes stay in the CPU cache


def start_hash(salt: str) -> int:
    """Return the hash after the salt, to be continued with the bytes of an id."""
    state = _BASIS
    for byte in (salt or DEFAULT_SALT).encode():
        state = ((state ^ byte) * _PRIME) & MAX_HASH
    return state


def hash_traces(ids: npt.NDArray[np.uint8], salt: str) -> Unsigned:
    """Return the hash of each trace (n x 16 bytes)."""
    result = np.full(len(ids), start_hash(salt), dtype=np.uint64)
    prime = np.uint64(_PRIME)
    for start in range(0, len(ids), _HASH_CHUNK):
        part = result[start : start + _HASH_CHUNK]
        columns = ids[start : start + _HASH_CHUNK].T.astype(np.uint64)
        for column in columns:
            part ^= column
            part *= prime  # overflow is intended
    return result


def find_largest_sampled(percentage: float) -> int:
    """Return the largest hash that a percentage samples: (2^64 - 1) * percentage / 100, rounded to 64 bits, truncated.

    The ratio is a double, with its error: 10 % is not exactly a tenth of all hashes.
    """
    ratio = Fraction(percentage / 100)
    if ratio <= 0:
        return 0
    return min(int(_round_product(MAX_HASH * ratio)), MAX_HASH)


def compute_hash_share(largest: int) -> Fraction:
    """Return the share of all hashes up to the largest one."""
    return Fraction(largest + 1, MAX_HASH + 1)


def _round_product(value: Fraction) -> Fraction:
    """Round to the precision of the product, with half to even."""
    magnitude = value.numerator.bit_length() - value.denominator.bit_length()
    magnitude += 1 if value >= Fraction(2) ** magnitude else 0  # now 2^(magnitude - 1) <= value < 2^magnitude
    unit = Fraction(2) ** (magnitude - PRECISION_BITS)
    return round(value / unit) * unit


Answer: TypeAlias = "Bools | np.bool_"  # of each trace, or the same for all
Truth: TypeAlias = "dict[int, Answer]"  # by the number of the leaf


@dataclass(frozen=True)
class AnswerWalk(PolicyWalk["Answer"]):
    """Walk with given answers: the policies as a formula, which spends nothing."""

    truth: Mapping[int, Answer]

    @property
    def everyone(self) -> Answer:
        """True, whatever the trace."""
        return np.True_

    def answer(self, leaf: Part, candidates: Answer) -> Answer:
        """Look up the answer."""
        return candidates & self.truth[leaf.number]

    def is_sampled(self, plan: Plan) -> Answer:
        """Return whether the policies sample: dropped beats sampled, or the first vote wins under first match."""
        kept: Answer = np.False_
        for policy, _asked, yes in self.votes(plan):
            kept = kept & ~yes if policy.drops else kept | yes
        return kept


MAX_CELLS = 4096  # cases over which a probability is summed


@dataclass(frozen=True)
class ChanceSources:
    """Random sources of policies."""

    hashes: tuple[tuple[float, Truth], ...]  # cells of all hashes together: the measure, and the answers
    drawn: tuple[int, ...]  # leaves that depend on R
    pools: tuple[tuple[int, ...], ...]  # leaves that depend on the order of traces, as in the collector


def find_sources(plan: Plan, semantics: Semantics) -> ChanceSources:
    """Find the sources of policies.

    Raises `ConfigError` if they divide each other into too many cells.
    """
    found = _SourceCollector()
    for leaf in plan.leaves:
        found.add(leaf, semantics)
    if found.cells > MAX_CELLS:
        raise _make_too_many_error(plan, found.cells)
    cells = (
        (float(prod(measure for measure, _truth in cell)), {k: v for _measure, truth in cell for k, v in truth.items()})
        for cell in product(*(_split_hash_range(of_salt) for of_salt in found.by_salt.values()))
    )
    return ChanceSources(tuple(cells), tuple(found.drawn), tuple(tuple(pool) for pool in found.pools.values()))


@dataclass
class _SourceCollector:
    by_salt: dict[str, dict[int, int]] = field(default_factory=dict)  # largest hash that each leaf samples
    drawn: list[int] = field(default_factory=list)
    pools: dict[str, list[int]] = field(default_factory=dict)

    def add(self, leaf: Part, semantics: Semantics) -> None:
        match leaf.node:
            case Probabilistic(percentage=percentage, salt=salt):
                self.by_salt.setdefault(salt or DEFAULT_SALT, {})[leaf.number] = find_largest_sampled(percentage)
            case RateLimit() if semantics is Semantics.OTELCOL:
                # A trace reaches at most one share of a composite policy, so that its shares may use one source.
                self.pools.setdefault(leaf.pool, []).append(leaf.number)
            case RateLimit() | Dynamic():
                self.drawn.append(leaf.number)

    @property
    def cells(self) -> int:
        of_hashes = prod(len(set(of_salt.values())) + 1 for of_salt in self.by_salt.values())
        return of_hashes * (len(self.drawn) + 1) * prod(len(pool) + 1 for pool in self.pools.values())


def _split_hash_range(of_salt: Mapping[int, int]) -> Iterator[tuple[Fraction, Truth]]:
    """Yield the cells of one hash: their exact measure, and which percentages sample there."""
    bounds = sorted({*of_salt.values(), MAX_HASH})
    for low, high in pairwise([-1, *bounds]):
        yield (
            compute_hash_share(high) - compute_hash_share(low),
            {number: np.bool_(high <= largest) for number, largest in of_salt.items()},
        )


def _make_too_many_error(plan: Plan, cells: int) -> ConfigError:
    random = [leaf.path for leaf in plan.leaves if isinstance(leaf.node, Probabilistic | RateLimit | Dynamic)]
    return ConfigError(
        f"the policies {', '.join(random)} have too many random combinations for exact counts: {cells:,}, "
        f"at most {MAX_CELLS:,}",
        hint="give percentages the same hash_salt, or use fewer limits and percentages",
    )


Cell: TypeAlias = "tuple[float | Doubles, Truth]"  # the measure, and the answers

_CHUNK = 1 << 14  # traces at a time: their answers stay in the CPU cache
_ALL = np.uint64(MAX_THRESHOLD)  # number of values of R


def compute_chances(
    plan: Plan, sources: ChanceSources, fixed: Mapping[int, Bools], cuts: Mapping[int, Unsigned], traces: Traces
) -> tuple[Doubles, Unsigned]:
    """Return the probability of each trace, and T such that it is 1 - T / 2^56, which is exact if only R decides.

    `fixed` are the answers from facts, and `cuts` T of the answers that depend on R or on the order of traces.
    """
    probabilities, thresholds = np.empty(len(traces)), np.empty(len(traces), dtype=np.uint64)
    for start in range(0, len(traces), _CHUNK):
        part = slice(start, start + _CHUNK)
        known = {number: truth[part] for number, truth in fixed.items()}
        drawn = {number: values[part] for number, values in cuts.items()}
        chunk = _Chunk(plan, sources, known, drawn, traces.head_threshold[part])
        probabilities[part], thresholds[part] = chunk.chances(traces.randomness[part])
    return probabilities, thresholds


@dataclass(frozen=True)
class _Chunk:
    plan: Plan
    sources: ChanceSources
    fixed: Mapping[int, Bools]
    thresholds: Mapping[int, Unsigned]
    head: Unsigned

    def chances(self, randomness: Unsigned) -> tuple[Doubles, Unsigned]:
        # A sender whose T is over R did not sample by this R: its sampling is a separate source.
        apart = randomness < self.head
        kept, lost = np.zeros(len(self.head)), np.zeros(len(self.head))
        least, most = np.full(len(self.head), _ALL), np.zeros(len(self.head), dtype=np.uint64)
        drawn = list(self._randomness_cells(np.where(apart, np.uint64(0), self.head)))
        for weight, truth in self._outer():
            measure = np.zeros(len(self.head), dtype=np.uint64)
            for width, answers in drawn:
                measure += width * AnswerWalk({**self.fixed, **truth, **answers}).is_sampled(self.plan)
            kept += weight * measure
            lost += weight * (_ALL - measure)
            np.minimum(least, measure, out=least)
            np.maximum(most, measure, out=most)
        # Of two sums that add up to the whole, the smaller one is more exact.
        chance = np.where(kept < lost, kept, float(MAX_THRESHOLD) - lost) / float(MAX_THRESHOLD)
        by_r_alone = least == most
        chance[by_r_alone] = to_probabilities(_ALL - least[by_r_alone])
        chance[apart] *= to_probabilities(self.head[apart])
        return chance, np.where(by_r_alone & ~apart, _ALL - least, to_thresholds(chance))

    def _outer(self) -> Iterator[Cell]:
        """Yield the cells of all sources except R: their measure, and the answers."""
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

    def _randomness_cells(self, head: Unsigned) -> Iterator[tuple[Unsigned, Truth]]:
        """Yield the cells of R: the number of its values there that the sender kept, and the answers."""
        for low, high, truth in self._cut(self.sources.drawn):
            yield np.maximum(high, head) - np.maximum(low, head), truth

    def _cut(self, numbers: tuple[int, ...]) -> Iterator[tuple[Unsigned, Unsigned, Truth]]:
        """Divide a source of 56 bits at the thresholds of each trace for some leaves."""
        none, whole = np.zeros(len(self.head), dtype=np.uint64), np.full(len(self.head), _ALL)
        bounds = np.sort(np.stack([none, *(self.thresholds[number] for number in numbers), whole]), axis=0)
        for low, high in pairwise(bounds):
            yield low, high, {number: low >= self.thresholds[number] for number in numbers}
