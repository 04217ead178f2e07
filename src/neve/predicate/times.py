"""Times and units of time: parse them, truncate them and move them, exactly and in UTC."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

Moment = date | datetime

FIXED_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
MONTH_UNITS = {"month": 1, "quarter": 3, "year": 12}
# The maximum length of each unit.
UNIT_WIDTHS = {
    **FIXED_UNITS,
    "month": timedelta(days=31),
    "quarter": timedelta(days=92),
    "year": timedelta(days=366),
}
UNIT_ALIASES = {"yyyy": "year", "yy": "year", "mm": "month", "mon": "month", "dd": "day", "d": "day", "h": "hour"}
ZONED = re.compile(r"^(?P<moment>.*\d) ?(?P<zone>[A-Za-z][A-Za-z_]*(/[A-Za-z_+\-0-9]+)*)$")
FRACTION = re.compile(r"(\.\d{6})\d+")
TIME_OF_DAY_UNITS = ("hour", "minute", "second", "millisecond", "microsecond")


def parse_unit(word: str) -> str | None:
    """Return the unit of time for a word of a query, in the singular.

    >>> parse_unit("DAYS"), parse_unit("MM"), parse_unit("fortnight")
    ('day', 'month', None)
    """
    name = word.lower()
    name = UNIT_ALIASES.get(name, name if name in {*FIXED_UNITS, *MONTH_UNITS} else name.rstrip("s"))
    return name if name in {*FIXED_UNITS, *MONTH_UNITS} else None


def parse_time(text: str) -> datetime | None:
    """Parse a time; one without a zone is in UTC.

    >>> parse_time("2026-01-02 03:04:05.5 UTC")
    datetime.datetime(2026, 1, 2, 3, 4, 5, 500000, tzinfo=datetime.timezone.utc)
    """
    moment, zone = text.strip(), None
    named = ZONED.match(moment)
    if named and named["zone"].upper() != "Z":
        moment, zone = named["moment"], named["zone"]
    try:
        found = datetime.fromisoformat(FRACTION.sub(r"\1", moment))
        if found.tzinfo is None:
            found = found.replace(tzinfo=ZoneInfo(zone) if zone else UTC)
        return found.astimezone(UTC)
    except (ValueError, OSError, OverflowError):
        return None


def parse_day(text: str) -> date | None:
    """Parse a day."""
    found = parse_time(text)
    return found.date() if found else None


def start_of_day(day: date) -> datetime:
    """Return the start of a day."""
    return datetime.combine(day, time(), UTC)


def shift_time(moment: Moment, count: int, unit: str) -> Moment | None:
    """Add some units to a time, or subtract them; `None` beyond the end of the calendar."""
    try:
        if unit in MONTH_UNITS:
            return _add_months(moment, count * MONTH_UNITS[unit])
        if type(moment) is date and unit in TIME_OF_DAY_UNITS:
            moment = start_of_day(moment)
        return moment + count * FIXED_UNITS[unit]
    except (OverflowError, ValueError):
        return None


def floor_time(moment: datetime, unit: str) -> datetime:
    """Return the start of the unit that contains a time; weeks begin on Monday."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit in TIME_OF_DAY_UNITS:
        return day + (moment - day) // FIXED_UNITS[unit] * FIXED_UNITS[unit]
    if unit == "week":
        return day - timedelta(days=day.weekday())
    if unit in MONTH_UNITS:
        return day.replace(month=(day.month - 1) // MONTH_UNITS[unit] * MONTH_UNITS[unit] + 1, day=1)
    return day


def _add_months(moment: Moment, months: int) -> Moment:
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))
