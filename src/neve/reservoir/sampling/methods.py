"""Sampling methods: the definition of a draw, its repeatable randomness, and a reference in plain Python.

The random number of an item, in (0, 1], is a hash of its key and the salt of the stage, so that every run and every
engine draws the same sample. The Spark implementations must agree with the reference item by item.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import xxhash

from neve.errors import ConfigError, InvalidWeight

if TYPE_CHECKING:
    from collections.abc import Iterable


# Spark's `xxhash64` hashes its arguments one after the other, each seeded with the hash before it. The functions here
# do the same, so that a sample can be computed without Spark too.

SEED = 42  # of Spark's xxhash64
HALF = 1 << 32
WHOLE = 1 << 64

Key = int | str | bytes | tuple["Key", ...]


def make_salt(*words: object) -> int:
    """Return the salt of a stage, 64 bits, signed, from words that distinguish it from every other stage.

    Two stages with one salt keep the same items, and the counts of the second are biased.
    """
    text = "\x1f".join(str(word) for word in words)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)


def hash_key(salt: int, key: Key) -> int:
    """Return the 64-bit unsigned hash of a key under a salt; whole numbers are hashed as `bigint`."""
    return _chain_hash(key, xxhash.xxh64_intdigest(struct.pack("<q", salt), SEED))


def uniform(salt: int, key: Key) -> float:
    """Return a random number in (0, 1].

    It is never 0, because weights are divided by it.
    """
    bits = hash_key(salt, key)
    return (float(bits >> 32) * HALF + float(bits & (HALF - 1)) + 1.0) / WHOLE


def hash_sql(salt: int, *keys: str) -> str:
    """Return the hash as Spark SQL."""
    return f"xxhash64({salt}L, {', '.join(keys)})"


def uniform_sql(bits: str) -> str:
    """Return the random number as Spark SQL, from the hash.

    Both halves fit a double, so that every engine rounds alike.
    """
    return f"((shiftrightunsigned({bits}, 32) * {HALF}D + ({bits} & {HALF - 1}L) + 1D) / {WHOLE}D)"


def _chain_hash(key: Key, seed: int) -> int:
    if isinstance(key, tuple):
        for part in key:
            seed = _chain_hash(part, seed)
        return seed
    return xxhash.xxh64_intdigest(_to_bytes(key), seed)


def _to_bytes(key: int | str | bytes) -> bytes:
    if isinstance(key, int):
        return struct.pack("<q", key)
    return key.encode() if isinstance(key, str) else key


LARGEST_WEIGHT = 1e288  # still finite when it is divided by the smallest random number, 2 ** -64
POINT = 1 << 48  # unit of probabilities as whole numbers, whose sums do not depend on the order


@dataclass(frozen=True)
class KeptItem:
    """An item of a sample: its weight and its adjusted weight."""

    key: Key
    weight: float
    adjusted: float


def check_weight(key: Key, weight: float | None) -> float:
    """Return a valid weight; a missing one counts as 1."""
    if weight is None:
        return 1.0
    if not 0.0 < weight < LARGEST_WEIGHT:
        raise InvalidWeight(f"item {key!r} has the weight {weight}, expected a number above 0, below {LARGEST_WEIGHT}")
    return float(weight)


@dataclass
class Reservoir:
    """Priority sampling: the k items with the largest weight / random number, and the first item that was dropped.

    The reservoir of a union is that of the two reservoirs' items, so neither order nor partitions matter.
    """

    k: int
    salt: int
    _heap: list[tuple[float, Key, float]] = field(default_factory=list)

    def add(self, key: Key, weight: float | None = None) -> None:
        """Add an item, which is kept if its priority is among the largest."""
        weight = check_weight(key, weight)
        self._offer((weight / uniform(self.salt, key), key, weight))

    def merge(self, other: Reservoir) -> None:
        """Merge another reservoir of the same sample into this one."""
        for entry in other._heap:
            self._offer(entry)

    def _offer(self, entry: tuple[float, Key, float]) -> None:
        if len(self._heap) <= self.k:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    def sample(self) -> list[KeptItem]:
        """Return the kept items, each with its adjusted weight."""
        entries = sorted(self._heap, reverse=True)
        threshold = entries[self.k][0] if len(entries) > self.k else 0.0
        return [KeptItem(key, weight, max(weight, threshold)) for _, key, weight in entries[: self.k]]


def sample_priority(items: Iterable[tuple[Key, float | None]], k: int, salt: int) -> list[KeptItem]:
    """Sample items by priority."""
    reservoir = Reservoir(k, salt)
    for key, weight in items:
        reservoir.add(key, weight)
    return reservoir.sample()


def sample_exact_total(items: Iterable[tuple[Key, float | None]], k: int, salt: int, group: Key = ()) -> list[KeptItem]:
    """Sample systematically at VarOpt's threshold: exactly k items, whose adjusted weights add up to the total."""
    weighed = [(key, check_weight(key, weight)) for key, weight in items]
    if len(weighed) <= k:
        return [KeptItem(key, weight, weight) for key, weight in weighed]
    threshold = exact_threshold([weight for _, weight in weighed], k)
    kept = [KeptItem(key, weight, weight) for key, weight in weighed if weight >= threshold]
    light = sorted((*place_of(salt, key), key, weight) for key, weight in weighed if weight < threshold)
    chances = [math.floor(weight / threshold * POINT + 0.5) for *_, weight in light]
    total, wanted, reached = sum(chances), k - len(kept), 0
    start = min(total - 1, int(uniform(salt, (group, "start")) * float(total)))
    for (*_, key, weight), chance in zip(light, chances, strict=True):
        before, reached = reached, reached + chance
        if count_points_below(reached, wanted, start, total) > count_points_below(before, wanted, start, total):
            kept.append(KeptItem(key, weight, threshold))
    return kept


def exact_threshold(weights: list[float], k: int) -> float:
    """Return the adjusted weight of light items.

    Heavy items, which weigh more than that, are removed one after the other.
    """
    ordered = sorted(weights, reverse=True)
    for apart in range(k - 1):
        rest = math.fsum(ordered[apart:])  # not the total minus the heavy items, whose rounding would hide light ones
        if ordered[apart] * (k - apart) <= rest:
            return rest / (k - apart)
    return math.fsum(ordered[k - 1 :])


def count_points_below(reached: int, wanted: int, start: int, total: int) -> int:
    """Return how many of the evenly spaced points are before a place on the line of probabilities."""
    return (reached * wanted - start + total - 1) // total


def place_of(salt: int, key: Key) -> tuple[int, int]:
    """Return the place of an item on the line: its slice, and its hash, signed as Spark orders it."""
    bits = hash_key(salt, key)
    return bits & 255, bits - (1 << 64) if bits >> 63 else bits


Method = Literal["priority", "exact_total"]
LARGEST_EXACT = (1 << 63) // POINT - 1  # the largest k whose probabilities can be added up in 64 bits
# Columns of Neve, in a sample and on the way to it: a group of the same name would be ambiguous.
SAMPLE = ("key", "weight", "adjusted_weight")
PRIORITY = ("priority", "rank", "top", "light", "one")
EXACT = ("hash", "slice", "whole", "threshold", "chance", "length", "begin", "total", "reached", "start", "wanted")
RESERVED_COLUMNS = frozenset(SAMPLE + PRIORITY + EXACT)


@dataclass(frozen=True)
class Draw:
    """Sampling of k items of each group `by`, with one salt.

    `key` and `weight` are SQL expressions.

    A key identifies an item uniquely, in any partitioning, order and retry. Only the salt and the key decide by chance
    whether an item is kept.
    """

    by: tuple[str, ...]
    key: str
    k: int
    salt: int
    weight: str = "1D"
    method: Method = "priority"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"k = {self.k}: at least 1 item of a group is kept")
        taken = [name for name in self.by if name.lower() in RESERVED_COLUMNS]
        if taken:
            raise ConfigError(
                f"by = {', '.join(taken)}: the sample has columns of that name", hint="rename the columns"
            )
        if self.method == "exact_total" and self.k > LARGEST_EXACT:
            raise ConfigError(f"k = {self.k}: at most {LARGEST_EXACT:,} with exact_total", hint="use priority sampling")
