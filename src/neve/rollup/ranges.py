"""Spans of time as values: sorted, disjoint, half-open ranges of microseconds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from neve.lake.calendar import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    import numpy.typing as npt

Range = tuple[int, int]

BEGINNING, END = -(2**62), 2**62


@dataclass(frozen=True)
class Ranges:
    """Some time. Made by `Ranges.of`, which puts ranges in order and joins those that touch."""

    parts: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> Ranges:
        """Ranges in any order; empty ones are dropped.

        >>> Ranges.of([(5, 7), (1, 3), (3, 4), (9, 9)]).parts
        ((1, 4), (5, 7))
        """
        joined: list[Range] = []
        for start, end in sorted(ranges):
            if start >= end:
                continue
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return cls(tuple(joined))

    def __iter__(self) -> Iterator[Range]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges.of((*self.parts, *other.parts))

    def within(self, start: int = BEGINNING, end: int = END) -> Ranges:
        """What lies between two moments."""
        return Ranges.of((max(start, first), min(end, last)) for first, last in self.parts)

    def widened(self, before: int = 0, after: int = 0) -> Ranges:
        """Each range, with so much more before and after it."""
        return Ranges.of((start - before, end + after) for start, end in self.parts)

    def aligned(self, micros: int) -> Ranges:
        """Whole windows that hold every moment of it."""
        return Ranges.of((floor(start, micros), ceiling(end, micros)) for start, end in self.parts)

    def closed_gaps(self, most: int) -> Ranges:
        """The same with gaps of at most so much filled: fewer ranges, where the exact ones do not matter."""
        joined: list[Range] = []
        for start, end in self.parts:
            if joined and start - joined[-1][1] <= most:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return Ranges(tuple(joined))

    @property
    def length(self) -> int:
        """All of it, in microseconds."""
        return sum(end - start for start, end in self.parts)

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any moment of it lies in [start, end)."""
        return any(first < end and start < last for first, last in self.parts)

    def holds(self, moments: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the moments lie in it."""
        if not self.parts:
            return np.zeros(len(moments), dtype=bool)
        starts, ends = (np.array(side, dtype=np.int64) for side in zip(*self.parts, strict=True))
        place = np.searchsorted(starts, moments, side="right") - 1
        found: npt.NDArray[np.bool_] = (place >= 0) & (moments < ends[np.maximum(place, 0)])
        return found


NO_TIME = Ranges()
EVERYTHING = Ranges(((BEGINNING, END),))


def micros_of(moment: datetime) -> int:
    """A moment in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def floor(moment: int, micros: int) -> int:
    """The start of the window that a moment lies in."""
    return moment // micros * micros


def ceiling(moment: int, micros: int) -> int:
    """The end of the window before which a moment lies, or the moment itself where a window begins."""
    return -(-moment // micros) * micros


def windows_in(moments: npt.NDArray[np.int64], micros: int) -> Ranges:
    """The windows that some moments lie in."""
    windows = np.unique(moments // micros)
    if not len(windows):
        return Ranges()
    breaks = np.flatnonzero(np.diff(windows) > 1)
    starts = windows[np.concatenate(([0], breaks + 1))] * micros
    ends = (windows[np.concatenate((breaks, [len(windows) - 1]))] + 1) * micros
    return Ranges.of(zip(starts.tolist(), ends.tolist(), strict=True))
