"""Time as rollups see it: ranges of microseconds since 1970, half open, and whole windows in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Range = tuple[int, int]

FOREVER = 2**62
ALWAYS: Range = (-FOREVER, FOREVER)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_RANGES = 32  # that one table is asked for; what is left of more is read from finer tables


def micros_of(moment: datetime | None, otherwise: int) -> int:
    """A moment in microseconds since 1970; one without a zone is in UTC."""
    if moment is None:
        return otherwise
    known = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (known - EPOCH) // timedelta(microseconds=1)


def both(one: Range, other: Range) -> Range:
    """What lies in both; it may be empty."""
    return max(one[0], other[0]), min(one[1], other[1])


def whole_windows(free: Iterable[Range], covered: Iterable[Range], micros: int) -> list[Range]:
    """The whole windows that lie in a covered range and in a free one; of many ranges the longest.

    >>> whole_windows([(5, 95)], [(0, 50), (60, 100)], 10)
    [(10, 50), (60, 90)]
    """
    covers = list(covered)
    found = [_aligned(both(one, other), micros) for one in free for other in covers]
    longest = sorted((part for part in found if part[0] < part[1]), key=lambda part: part[0] - part[1])
    return sorted(longest[:MOST_RANGES])


def without(ranges: Iterable[Range], taken: Sequence[Range]) -> list[Range]:
    """Ranges less others.

    >>> without([(0, 100)], [(10, 20), (90, 100)])
    [(0, 10), (20, 90)]
    """
    left = list(ranges)
    for start, end in taken:
        parts = [part for first, last in left for part in ((first, min(last, start)), (max(first, end), last))]
        left = [part for part in parts if part[0] < part[1]]
    return left


def lies_in(ranges: Sequence[Range], column: exp.Expr) -> exp.Expr | None:
    """The condition that a column of times lies in one of some ranges; `None` where that is always so."""
    parts = [_between(part, column) for part in ranges]
    known = [part for part in parts if part is not None]
    return exp.or_(*known) if len(known) == len(parts) else None


def _aligned(part: Range, micros: int) -> Range:
    start, end = part
    return (
        start if start <= -FOREVER else -(-start // micros) * micros,
        end if end >= FOREVER else end // micros * micros,
    )


def _between(part: Range, column: exp.Expr) -> exp.Expr | None:
    start, end = part
    sides: list[exp.Expr] = []
    if start > -FOREVER:
        sides.append(exp.GTE(this=column.copy(), expression=_moment(start)))
    if end < FOREVER:
        sides.append(exp.LT(this=column.copy(), expression=_moment(end)))
    return exp.and_(*sides) if sides else None


def _moment(micros: int) -> exp.Expr:
    text = (EPOCH + timedelta(microseconds=micros)).isoformat(sep=" ")
    return exp.cast(exp.Literal.string(text), exp.DataType.Type.TIMESTAMPTZ)
