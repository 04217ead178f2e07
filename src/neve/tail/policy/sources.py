"""Sources of chance: which questions go by which, and the cells that they cut each source into."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING

from neve.errors import ConfigError
from neve.tail.policy.hashing import DEFAULT_SALT, LARGEST_HASH, largest_sampled, share
from neve.tail.policy.plan import Limit
from neve.tail.policy.tree import Dynamic, Probabilistic, Semantics

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from neve.tail.policy.formula import Truth
    from neve.tail.policy.plan import Plan

MOST_CELLS = 4096  # cases that a probability is added up from


@dataclass(frozen=True)
class Sources:
    """What policies leave to chance."""

    hashes: tuple[tuple[float, Truth], ...]  # cells of all hashes together: the measure, and what is answered
    drawn: tuple[int, ...]  # questions that go by R
    pools: tuple[tuple[int, ...], ...]  # questions that go by the order of traces, as the collector has it


def sources_of(plan: Plan, semantics: Semantics) -> Sources:
    """The sources of policies; refused where they cut each other into too many cells."""
    found = _Found()
    for question in plan.questions:
        found.add(question.number, question.asks, semantics)
    if found.cells > MOST_CELLS:
        raise _too_many(plan, found.cells)
    cells = (
        (float(prod(measure for measure, _truth in cell)), {k: v for _measure, truth in cell for k, v in truth.items()})
        for cell in product(*(_cells(of_salt) for of_salt in found.by_salt.values()))
    )
    return Sources(tuple(cells), tuple(found.drawn), tuple(tuple(pool) for pool in found.pools.values()))


@dataclass
class _Found:
    by_salt: dict[str, dict[int, int]] = field(default_factory=dict)  # the largest hash that each question samples
    drawn: list[int] = field(default_factory=list)
    pools: dict[str, list[int]] = field(default_factory=dict)

    def add(self, number: int, asks: object, semantics: Semantics) -> None:
        if isinstance(asks, Probabilistic):
            self.by_salt.setdefault(asks.salt or DEFAULT_SALT, {})[number] = largest_sampled(asks.percentage)
        elif isinstance(asks, Limit) and semantics is Semantics.OTELCOL:
            # a trace asks at most one share of a composite policy, so that its shares may go by one source
            self.pools.setdefault(asks.pool, []).append(number)
        elif isinstance(asks, Limit | Dynamic):
            self.drawn.append(number)

    @property
    def cells(self) -> int:
        of_hashes = prod(len(set(of_salt.values())) + 1 for of_salt in self.by_salt.values())
        return of_hashes * (len(self.drawn) + 1) * prod(len(pool) + 1 for pool in self.pools.values())


def _cells(of_salt: Mapping[int, int]) -> Iterator[tuple[Fraction, Truth]]:
    """The cells of one hash: their exact measure, and which percentages sample there."""
    bounds = sorted({*of_salt.values(), LARGEST_HASH})
    for low, high in pairwise([-1, *bounds]):
        yield share(high) - share(low), {number: high <= largest for number, largest in of_salt.items()}


def _too_many(plan: Plan, cells: int) -> ConfigError:
    random = [
        question.path for question in plan.questions if isinstance(question.asks, Probabilistic | Limit | Dynamic)
    ]
    return ConfigError(
        f"the policies {', '.join(random)} leave too much to chance to count traces rightly: {cells:,} cases, "
        f"at most {MOST_CELLS:,}",
        hint="give percentages the same hash_salt, or use fewer limits and percentages",
    )
