"""Windows of time by organization, told by the microsecond that each begins with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

from neve.lake.calendar import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

Range = tuple[int, int]
Windows = Mapping[str, Collection[int]]  # by organization

BEGINNING, END = -(2**62), 2**62
# What a calendar has, with a day to spare.
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


def micros_of(moment: datetime) -> int:
    """A moment in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment_of(micros: int) -> datetime:
    """The moment, or the nearest that a calendar has."""
    return EPOCH + timedelta(microseconds=min(max(micros, micros_of(EARLIEST)), micros_of(LATEST)))


def floor(moment: int, micros: int) -> int:
    """The start of the window that a moment lies in.

    >>> floor(-1, 60), floor(60, 60)
    (-60, 60)
    """
    return moment // micros * micros


def window_sql(time: str, micros: int) -> str:
    """The same as Spark SQL, of a timestamp."""
    return f"(unix_micros({time}) - pmod(unix_micros({time}), {micros}L))"


def ranges_of(starts: Iterable[int], micros: int, most: int) -> tuple[Range, ...]:
    """Time that holds all windows in at most so many ranges: the smallest gaps between them are closed.

    >>> ranges_of([0, 10, 40, 100], 10, most=2)
    ((0, 50), (100, 110))
    """
    joined: list[list[int]] = []
    for start in sorted(set(starts)):
        if joined and start <= joined[-1][1]:
            joined[-1][1] = start + micros
        else:
            joined.append([start, start + micros])
    gaps = sorted(range(1, len(joined)), key=lambda place: joined[place][0] - joined[place - 1][1], reverse=True)
    cuts = [0, *sorted(gaps[: most - 1]), len(joined)]
    return tuple((joined[first][0], joined[last - 1][1]) for first, last in pairwise(cuts) if first < last)


def by_owner(pairs: Iterable[tuple[str, int]]) -> dict[str, set[int]]:
    """Windows of each organization."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for owner, start in pairs:
        found[owner].add(start)
    return dict(found)
