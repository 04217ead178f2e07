"""The pace: how far apart records are, and how many of them go into one message."""

from __future__ import annotations

from dataclasses import dataclass

from neve.demo.interval import SECOND
from neve.errors import ConfigError

GRAIN = 1 << 20  # nanoseconds, about a millisecond: what is finer holds the number of the record
MESSAGES_PER_SECOND = 4
SMALLEST, LARGEST = 50, 500  # records in a message


@dataclass(frozen=True)
class Pace:
    """So many records of each signal a second."""

    rate: float

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ConfigError(f"the rate is {self.rate:g} records a second, expected more than 0")

    @property
    def size(self) -> int:
        """Records in a message: a few messages a second, none of them large."""
        return min(LARGEST, max(SMALLEST, round(self.rate / MESSAGES_PER_SECOND)))

    def at(self, number: int) -> int:
        """When a record's turn is, in nanoseconds from the first one's."""
        return int(number * SECOND / self.rate)

    def whole(self, count: int) -> int:
        """How long so many records take, as a number of grains."""
        return -(-self.at(count) // GRAIN) * GRAIN


def numbered(nanos: int, number: int) -> int:
    """A time that no other record of a lap has: its grain is kept, and below that stands the record's number."""
    return nanos // GRAIN * GRAIN + number
