"""What a partition's value says of the column that it was made from: the range of values that end up in it."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from math import inf, nextafter
from typing import TYPE_CHECKING

from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DateType, StringType

from neve.autopilot.estimate.plain import FIRST_DAY, MICROS, NANOS, TEXT, Plain, plain, successor

if TYPE_CHECKING:
    from pyiceberg.transforms import Transform
    from pyiceberg.types import IcebergType

    from neve.autopilot.estimate.cuts import Cuts

Span = tuple[int, int]  # the places of the first and the last value
HOUR = 3_600_000_000  # microseconds


def span_of(transform: Transform[object, object], kind: IcebergType, value: object, cuts: Cuts) -> Span:
    """The places of all values that the transform makes `value` of; all places where that can't be told.

    A value is as Iceberg's metadata has it: days and hours are counted since 1970.
    """
    ends = _ends(transform, kind, value)
    if ends is None:
        return cuts.lowest, cuts.highest
    first, after = ends
    if after is None:
        return cuts.place(first), cuts.highest
    return cuts.place(first), max(cuts.place(first), cuts.below(after))


def _ends(transform: Transform[object, object], kind: IcebergType, value: object) -> tuple[Plain, Plain | None] | None:
    """The first value, and the first that comes after all."""
    if isinstance(transform, IdentityTransform):
        return _only(plain(kind, value))
    if isinstance(transform, TruncateTransform):
        return _truncated(transform.width, kind, plain(kind, value))
    if not isinstance(value, (int, date)):
        return None
    number = (value - FIRST_DAY).days if isinstance(value, date) else int(value)
    if isinstance(transform, HourTransform):
        return _moments(kind, number * HOUR, (number + 1) * HOUR)
    days = _days(transform, number)
    if days is None:
        return None
    first, after = days
    return (first, after) if isinstance(kind, DateType) else _moments(kind, first * 24 * HOUR, after * 24 * HOUR)


def _days(transform: Transform[object, object], number: int) -> tuple[int, int] | None:
    if isinstance(transform, DayTransform):
        return number, number + 1
    if isinstance(transform, MonthTransform):
        year, month = 1970 + number // 12, number % 12 + 1
        first = (date(year, month, 1) - FIRST_DAY).days
        return first, first + monthrange(year, month)[1]
    if isinstance(transform, YearTransform):
        return (date(1970 + number, 1, 1) - FIRST_DAY).days, (date(1971 + number, 1, 1) - FIRST_DAY).days
    return None


def _moments(kind: IcebergType, first: int, after: int) -> tuple[int, int] | None:
    if isinstance(kind, NANOS):
        return first * 1000, after * 1000
    return (first, after) if isinstance(kind, MICROS) else None


def _only(value: Plain | None) -> tuple[Plain, Plain | None] | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value, value + b"\0"
    return (value, value + 1) if isinstance(value, int) else (value, nextafter(value, inf))


def _truncated(width: int, kind: IcebergType, value: Plain | None) -> tuple[Plain, Plain | None] | None:
    if isinstance(value, bytes) and isinstance(kind, TEXT):
        length = len(value.decode(errors="replace")) if isinstance(kind, StringType) else len(value)
        # What is shorter than the width was not cut: it is the value itself.
        return (value, successor(value)) if length >= width else _only(value)
    if isinstance(value, int) and not isinstance(kind, (DateType, *MICROS, *NANOS)):
        return value, value + width
    return None
