"""A half-open stretch of time in Unix nanoseconds."""

from __future__ import annotations

from typing import NamedTuple

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Interval(NamedTuple):
    """The instants from `start` up to, but without, `end`."""

    start: int
    end: int

    def contains(self, at: int) -> bool:
        """Tell whether the instant lies in the interval."""
        return self.start <= at < self.end
