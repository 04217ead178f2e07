"""What a reader on Kafka has taken of its partitions, and what it must not say that it has dealt with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Place = tuple[str, int]  # a topic, as Kafka calls it, and one of its partitions


@dataclass
class Offsets:
    """The offsets of one reader; `lost` are topics of which something was taken that others get again."""

    lost: set[str] = field(default_factory=set)
    _expected: dict[Place, int] = field(default_factory=dict)
    _taken: dict[Place, tuple[int, int]] = field(default_factory=dict)

    def begin(self, committed: Mapping[Place, int]) -> None:
        """Partitions that were assigned, where the group has an offset in them."""
        self._expected |= committed

    def take(self, place: Place, offset: int) -> int:
        """One message is taken; how many before it are gone that the group never read."""
        gone = offset - self._expected.get(place, offset)
        self._expected[place] = offset + 1
        first, _after = self._taken.get(place, (offset, offset))
        self._taken[place] = (first, offset + 1)
        return max(0, gone)

    def revoke(self, places: Iterable[Place]) -> None:
        """Partitions that others read from now on, from what was committed."""
        for place in places:
            self._expected.pop(place, None)
            if self._taken.pop(place, None):
                self.lost.add(place[0])

    @property
    def taken(self) -> dict[Place, int]:
        """The offsets after what was taken and not dealt with."""
        return {place: after for place, (_first, after) in sorted(self._taken.items())}

    def deal(self) -> None:
        """All that was taken is dealt with."""
        self._taken.clear()

    def rewind(self) -> dict[Place, int]:
        """Nothing of what was taken is dealt with; the offsets to read from again."""
        firsts = {place: first for place, (first, _after) in sorted(self._taken.items())}
        self._expected |= firsts
        self._taken.clear()
        self.lost.clear()
        return firsts
