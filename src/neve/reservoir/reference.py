"""The sample in plain Python: what the native forms must give, item by item."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neve.errors import InvalidWeight
from neve.reservoir.chance import hashed, uniform

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.reservoir.chance import Key

LARGEST_WEIGHT = 1e288  # that is still finite when it is divided by the smallest chance, 2 ** -64
POINT = 1 << 48  # of a chance, as whole numbers: their sums do not depend on an order


@dataclass(frozen=True)
class Kept:
    """An item of a sample: what it weighed, and what it stands for."""

    key: Key
    weight: float
    adjusted: float


def check_weight(key: Key, weight: float | None) -> float:
    """A weight that can be sampled by; none at all counts as 1."""
    if weight is None:
        return 1.0
    if not 0.0 < weight < LARGEST_WEIGHT:
        raise InvalidWeight(f"item {key!r} has the weight {weight}, expected a number above 0, below {LARGEST_WEIGHT}")
    return float(weight)


@dataclass
class Reservoir:
    """Priority sampling: the k items with the largest weight / chance, and the first that had to go.

    The reservoir of a union is that of the two reservoirs' items, so neither order nor partitions matter.
    """

    k: int
    salt: int
    _heap: list[tuple[float, Key, float]] = field(default_factory=list)

    def add(self, key: Key, weight: float | None = None) -> None:
        """Offer an item."""
        weight = check_weight(key, weight)
        self._offer((weight / uniform(self.salt, key), key, weight))

    def merge(self, other: Reservoir) -> None:
        """Take in what another reservoir of the same sample holds."""
        for entry in other._heap:
            self._offer(entry)

    def _offer(self, entry: tuple[float, Key, float]) -> None:
        if len(self._heap) <= self.k:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def sample(self) -> list[Kept]:
        """The items that are kept, each with the count that it stands for."""
        entries = sorted(self._heap, reverse=True)
        threshold = entries[self.k][0] if len(entries) > self.k else 0.0
        return [Kept(key, weight, max(weight, threshold)) for _, key, weight in entries[: self.k]]


def priority(items: Iterable[tuple[Key, float | None]], k: int, salt: int) -> list[Kept]:
    """Priority sampling of items."""
    reservoir = Reservoir(k, salt)
    for key, weight in items:
        reservoir.add(key, weight)
    return reservoir.sample()


def exact_total(items: Iterable[tuple[Key, float | None]], k: int, salt: int, group: Key = ()) -> list[Kept]:
    """Systematic sampling at VarOpt's threshold: exactly k items, whose adjusted weights add up to the total."""
    weighed = [(key, check_weight(key, weight)) for key, weight in items]
    if len(weighed) <= k:
        return [Kept(key, weight, weight) for key, weight in weighed]
    threshold = exact_threshold([weight for _, weight in weighed], k)
    kept = [Kept(key, weight, weight) for key, weight in weighed if weight >= threshold]
    light = sorted((*place_of(salt, key), key, weight) for key, weight in weighed if weight < threshold)
    chances = [math.floor(weight / threshold * POINT + 0.5) for *_, weight in light]
    total, wanted, reached = sum(chances), k - len(kept), 0
    start = min(total - 1, int(uniform(salt, (group, "start")) * float(total)))
    for (*_, key, weight), chance in zip(light, chances, strict=True):
        before, reached = reached, reached + chance
        if points_below(reached, wanted, start, total) > points_below(before, wanted, start, total):
            kept.append(Kept(key, weight, threshold))
    return kept


def exact_threshold(weights: list[float], k: int) -> float:
    """What a light item stands for: heavy ones, which weigh more than that, are set apart one after the other."""
    ordered = sorted(weights, reverse=True)
    for apart in range(k - 1):
        rest = math.fsum(ordered[apart:])  # and not the total less the heavy: light items would drown in its rounding
        if ordered[apart] * (k - apart) <= rest:
            return rest / (k - apart)
    return math.fsum(ordered[k - 1 :])


def points_below(reached: int, wanted: int, start: int, total: int) -> int:
    """How many of the evenly spaced points lie before a place on the line of chances."""
    return (reached * wanted - start + total - 1) // total


def place_of(salt: int, key: Key) -> tuple[int, int]:
    """Where an item lies on the line: its slice, and its hash, signed as Spark orders it."""
    bits = hashed(salt, key)
    return bits & 255, bits - (1 << 64) if bits >> 63 else bits
