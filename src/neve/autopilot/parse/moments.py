"""Times of queries: read from text, moved by intervals, cut to units; all in UTC."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

Moment = date | datetime

FIXED = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
SHORT = {"yyyy": "year", "yy": "year", "mm": "month", "mon": "month", "dd": "day", "d": "day", "h": "hour"}
ZONED = re.compile(r"^(?P<moment>.*\d) ?(?P<zone>[A-Za-z][A-Za-z_]*(/[A-Za-z_+\-0-9]+)*)$")
FRACTION = re.compile(r"(\.\d{6})\d+")
EVEN = ("hour", "minute", "second", "millisecond", "microsecond")


def unit_of(word: str) -> str | None:
    """The unit that a word of a query means, in the singular.

    >>> unit_of("DAYS"), unit_of("MM"), unit_of("fortnight")
    ('day', 'month', None)
    """
    said = word.lower()
    said = SHORT.get(said, said if said in {*FIXED, *MONTHS} else said.rstrip("s"))
    return said if said in {*FIXED, *MONTHS} else None


def moment_of(text: str) -> datetime | None:
    """A time that is written out; one without a zone is taken as UTC.

    >>> moment_of("2026-01-02 03:04:05.5 UTC")
    datetime.datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=datetime.timezone.utc)
    """
    said, zone = text.strip(), None
    named = ZONED.match(said)
    if named and named["zone"].upper() != "Z":
        said, zone = named["moment"], named["zone"]
    try:
        found = datetime.fromisoformat(FRACTION.sub(r"\1", said))
        if found.tzinfo is None:
            found = found.replace(tzinfo=ZoneInfo(zone) if zone else UTC)
        return found.astimezone(UTC)
    except (ValueError, OSError, OverflowError):
        return None


def day_of(text: str) -> date | None:
    """A day that is written out."""
    found = moment_of(text)
    return found.date() if found else None


def midnight(day: date) -> datetime:
    """The start of a day."""
    return datetime.combine(day, time(), UTC)


def shifted(moment: Moment, count: int, unit: str) -> Moment | None:
    """A moment some units later, or earlier; `None` where the calendar ends."""
    try:
        if unit in MONTHS:
            return _months_later(moment, count * MONTHS[unit])
        if type(moment) is date and unit in EVEN:
            moment = midnight(moment)
        return moment + count * FIXED[unit]
    except (OverflowError, ValueError):
        return None


def floor(moment: datetime, unit: str) -> datetime:
    """The start of the unit that a moment is in; weeks begin on Monday."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in EVEN:
        return day + (moment - day) // FIXED[unit] * FIXED[unit]
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit in MONTHS:
        return day.replace(month=(day.month - 1) // MONTHS[unit] * MONTHS[unit] + 1, day=1)
    return day


def _months_later(moment: Moment, months: int) -> Moment:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))
