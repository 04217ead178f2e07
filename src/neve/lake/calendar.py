"""Hours, days, months and years as numbers since 1970, as in Iceberg's time partitions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

Unit = Literal["hour", "day", "month", "year"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now_utc() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def micros_of(moment: datetime) -> int:
    """Return a time in microseconds since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


def to_ordinal(unit: Unit, moment: datetime) -> int:
    """Return the number of the unit that contains a moment.

    >>> to_ordinal("month", datetime(1971, 2, 3, tzinfo=UTC)), to_ordinal("day", datetime(1969, 12, 31, tzinfo=UTC))
    (13, -1)
    """
    moment = moment.astimezone(UTC)
    if unit == "year":
        return moment.year - 1970
    if unit == "month":
        return (moment.year - 1970) * 12 + moment.month - 1
    return (moment - EPOCH) // _unit_length(unit)


def from_ordinal(unit: Unit, number: int) -> datetime:
    """Return the first moment of a unit.

    >>> from_ordinal("month", 13).isoformat(), from_ordinal("hour", 25).isoformat()
    ('1971-02-01T00:00:00+00:00', '1970-01-02T01:00:00+00:00')
    """
    if unit == "year":
        return datetime(1970 + number, 1, 1, tzinfo=UTC)
    if unit == "month":
        return datetime(1970 + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return EPOCH + number * _unit_length(unit)


def _unit_length(unit: Unit) -> timedelta:
    return timedelta(hours=1) if unit == "hour" else timedelta(days=1)
