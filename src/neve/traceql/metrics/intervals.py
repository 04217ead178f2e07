"""Intervals of metrics: open on the left, aligned to multiples of the step, named by their right ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from neve.traceql.storage.span_reader import Window

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MAX_INTERVALS", "Intervals", "choose_step"]

SECOND_NS = 10**9
MAX_INTERVALS = 11_000
_STEPS = tuple(one * SECOND_NS for one in (3600, 300, 60, 15, 5, 1))
_DEFAULT_COUNT = 240


def choose_step(start_ns: int, end_ns: int) -> int:
    """Return a step that gives about 240 intervals, at least 1 second.

    >>> choose_step(0, 3600 * 10**9) // 10**9
    15
    """
    wanted = (end_ns - start_ns) // _DEFAULT_COUNT
    size = next((one for one in _STEPS if wanted >= one), SECOND_NS)
    return max(wanted // size * size, SECOND_NS)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals (start + i·step, start + (i+1)·step] in nanoseconds."""

    start_ns: int
    step_ns: int
    count: int

    @classmethod
    def align(cls, start_ns: int, end_ns: int, step_ns: int) -> Intervals:
        """Return the intervals of a range query: whole steps around the range, and one more before it."""
        first, last = start_ns // step_ns, -(-end_ns // step_ns)
        return cls((first - 1) * step_ns, step_ns, last - first + 1)

    @classmethod
    def whole(cls, start_ns: int, end_ns: int) -> Intervals:
        """Return the one interval of an instant query."""
        return cls(start_ns - 1, end_ns - start_ns + 1, 1)

    @property
    def window(self) -> Window:
        """Return the half-open range of times that are in an interval."""
        return Window(self.start_ns + 1, self.start_ns + self.count * self.step_ns + 1)

    def find(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the interval of each time, or -1."""
        found = (times - self.start_ns - 1) // self.step_ns
        return np.where((found >= 0) & (found < self.count), found, -1)

    def stamp_ms(self, interval: int) -> int:
        """Return the right end of an interval in milliseconds."""
        return (self.start_ns + (interval + 1) * self.step_ns) // 1_000_000
