"""Sets of time ranges: sorted, disjoint, half open, in microseconds since 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH, micros_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy as np
    import numpy.typing as npt

Range = tuple[int, int]

BEGINNING, END = -(2**62), 2**62


@dataclass(frozen=True)
class Ranges:
    """A set of time ranges. Create it with `Ranges.of`, which sorts ranges and joins adjacent ones."""

    parts: tuple[Range, ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[Range]) -> Ranges:
        """Create a set from ranges in any order. Empty ones are dropped.

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

    @classmethod
    def of_windows(cls, starts: Iterable[int], micros: int) -> Ranges:
        """Create the set of all times of some windows."""
        return cls.of((start, start + micros) for start in starts)

    def __iter__(self) -> Iterator[Range]:
        return iter(self.parts)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __or__(self, other: Ranges) -> Ranges:
        return Ranges.of((*self.parts, *other.parts))

    def within(self, start: int = BEGINNING, end: int = END) -> Ranges:
        """Return the part between two times."""
        return Ranges.of((max(start, first), min(end, last)) for first, last in self.parts)

    def widen(self, before: int = 0, after: int = 0) -> Ranges:
        """Extend each range by so much before and after it."""
        return Ranges.of((start - before, end + after) for start, end in self.parts)

    def align(self, micros: int) -> Ranges:
        """Return the whole windows that contain every time of it."""
        return Ranges.of((floor(start, micros), ceiling(end, micros)) for start, end in self.parts)

    def close_gaps(self, most: int) -> Ranges:
        """Fill gaps of at most so much: fewer ranges, for uses that need no exact ones."""
        joined: list[Range] = []
        for start, end in self.parts:
            if joined and start - joined[-1][1] <= most:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return Ranges(tuple(joined))

    def join_to(self, most: int) -> Ranges:
        """Return at most so many ranges that contain all times of it: the smallest gaps are filled.

        >>> Ranges.of([(0, 20), (40, 50), (100, 110)]).join_to(2).parts
        ((0, 50), (100, 110))
        """
        gaps = sorted(
            range(1, len(self.parts)), key=lambda place: self.parts[place - 1][1] - self.parts[place][0]
        )  # the places of the largest gaps first
        cuts = [0, *sorted(gaps[: most - 1]), len(self.parts)]
        return Ranges(
            tuple((self.parts[first][0], self.parts[end - 1][1]) for first, end in pairwise(cuts) if first < end)
        )

    @property
    def is_bounded(self) -> bool:
        """Return whether it has a beginning and an end."""
        return not self.parts or (self.parts[0][0] > BEGINNING and self.parts[-1][1] < END)

    def starts(self, micros: int) -> set[int]:
        """Return the starts of the windows that contain every time of it.

        >>> sorted(Ranges.of([(-1, 1), (20, 21)]).starts(10))
        [-10, 0, 20]
        """
        return {start for first, end in self.align(micros) for start in range(first, end, micros)}

    @property
    def length(self) -> int:
        """Return the total length in microseconds."""
        return sum(end - start for start, end in self.parts)

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether any time of it is in [start, end)."""
        return any(first < end and start < last for first, last in self.parts)

    def holds(self, moments: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return a mask of the times that are in it."""
        import numpy as np  # noqa: PLC0415 - most users of ranges have no columns

        if not self.parts:
            return np.zeros(len(moments), dtype=bool)
        starts, ends = (np.array(side, dtype=np.int64) for side in zip(*self.parts, strict=True))
        place = np.searchsorted(starts, moments, side="right") - 1
        found: npt.NDArray[np.bool_] = (place >= 0) & (moments < ends[np.maximum(place, 0)])
        return found


NO_TIME = Ranges()
EVERYTHING = Ranges(((BEGINNING, END),))


# The range of the calendar, less a day.
EARLIEST, LATEST = (micros_of(day) for day in (datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)))


def moment_of(micros: int) -> datetime:
    """Return the time as a `datetime`, or the nearest one of the calendar."""
    return EPOCH + timedelta(microseconds=min(max(micros, EARLIEST), LATEST))


def floor(moment: int, micros: int) -> int:
    """Return the start of the window that contains a time."""
    return moment // micros * micros


def ceiling(moment: int, micros: int) -> int:
    """Return the end of the window that contains a time, or the time itself if a window begins there."""
    return -(-moment // micros) * micros
