"""What limits and dynamic rates carry from one batch to the next; enough to go on as if there had been one batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neve.errors import LakeError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Bucket:
    """A token bucket after its last trace that passed."""

    tokens: float
    last_us: int


@dataclass(frozen=True)
class Counter:
    """The spans that each share of a composite policy kept within a second."""

    second: int
    used: tuple[int, ...]


@dataclass(frozen=True)
class Averages:
    """How many traces of each key an interval had, as a moving average; `rest` is of all keys that have no place."""

    by_key: tuple[tuple[str, float], ...] = ()  # sorted by key
    rest: float = 0.0


@dataclass(frozen=True)
class LimitState:
    """Buckets, counters and averages, each under the names that lead to its policy."""

    buckets: Mapping[str, Bucket] = field(default_factory=dict)
    counters: Mapping[str, Counter] = field(default_factory=dict)
    averages: Mapping[str, Averages] = field(default_factory=dict)

    def as_document(self) -> dict[str, Any]:
        """As JSON has it; numbers come back exactly as they were."""
        return {
            "buckets": {path: [bucket.tokens, bucket.last_us] for path, bucket in sorted(self.buckets.items())},
            "counters": {path: [count.second, list(count.used)] for path, count in sorted(self.counters.items())},
            "averages": {path: [dict(of.by_key), of.rest] for path, of in sorted(self.averages.items())},
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LimitState:
        """What `as_document` gave, before or after JSON."""
        try:
            return cls(
                {path: Bucket(float(tokens), int(last)) for path, (tokens, last) in document["buckets"].items()},
                {path: Counter(int(at), tuple(map(int, used))) for path, (at, used) in document["counters"].items()},
                {path: _averages(by_key, rest) for path, (by_key, rest) in document["averages"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LakeError(
                f"the state of limits can't be read: {error!r}",
                hint="expected what an earlier run wrote: buckets, counters and averages by policy",
            ) from error


def _averages(by_key: Mapping[str, float], rest: float) -> Averages:
    return Averages(tuple(sorted((key, float(average)) for key, average in by_key.items())), float(rest))
