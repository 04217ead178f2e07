"""Times in nanoseconds with Go's layouts, such as `2006-01-02T15:04:05Z07:00`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

__all__ = ["GoTime", "parse_layout"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_PART = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|Z07:00|Z0700|-07:00|-0700|-07|[.,]0+|[.,]9+|_2|01|02|03|04|05|06|15|PM|pm|1|2|3|4|5"
)
_NANOS = 1_000_000_000
_READERS = {
    "2006": r"(?P<year>\d{4})", "06": r"(?P<short_year>\d{2})", "01": r"(?P<month>\d{2})", "1": r"(?P<month>\d{1,2})",
    "02": r"(?P<day>\d{2})", "_2": r"\s?(?P<day>\d{1,2})", "2": r"(?P<day>\d{1,2})", "15": r"(?P<hour>\d{2})",
    "03": r"(?P<hour12>\d{2})", "3": r"(?P<hour12>\d{1,2})", "04": r"(?P<minute>\d{2})", "4": r"(?P<minute>\d{1,2})",
    "05": r"(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?", "5": r"(?P<second>\d{1,2})", "PM": r"(?P<half>[AP]M)",
    "pm": r"(?P<half>[ap]m)", "January": r"(?P<month_name>[A-Z][a-z]+)", "Jan": r"(?P<month_name>[A-Z][a-z]{2})",
    "Monday": r"[A-Z][a-z]+", "Mon": r"[A-Z][a-z]{2}", "MST": r"(?P<zone_name>[A-Z]{3,4})",
    "Z07:00": r"(?P<zone>Z|[+-]\d{2}:\d{2})", "-07:00": r"(?P<zone>[+-]\d{2}:\d{2})", "Z0700": r"(?P<zone>Z|[+-]\d{4})",
    "-0700": r"(?P<zone>[+-]\d{4})", "-07": r"(?P<zone>[+-]\d{2})",
}  # fmt: skip


def _offset(moment: datetime, separator: str) -> str:
    minutes = int((moment.utcoffset() or timedelta()).total_seconds() // 60)
    sign, minutes = ("-", -minutes) if minutes < 0 else ("+", minutes)
    return f"{sign}{minutes // 60:02d}{separator}{minutes % 60:02d}"


@dataclass(frozen=True, slots=True)
class GoTime:
    """Time in nanoseconds since 1970."""

    nanoseconds: int
    zone: tzinfo = UTC

    def format(self, layout: str) -> str:
        """Return the time in a layout.

        >>> GoTime(1_500_000_000).format("2006-01-02 15:04:05.000")
        '1970-01-01 00:00:01.500'
        """
        moment = (_EPOCH + timedelta(seconds=self.nanoseconds // _NANOS)).astimezone(self.zone)
        return _PART.sub(lambda found: self._format_part(moment, found[0]), layout)

    def _format_part(self, moment: datetime, part: str) -> str:
        if part[0] in ".,":
            digits = f"{self.nanoseconds % _NANOS:09d}"[: len(part) - 1]
            digits = digits.rstrip("0") if part[1] == "9" else digits
            return part[0] + digits if digits else ""
        hour = moment.hour % 12 or 12
        texts = {
            "January": _MONTHS[moment.month - 1], "Jan": _MONTHS[moment.month - 1][:3],
            "Monday": _DAYS[moment.weekday()], "Mon": _DAYS[moment.weekday()][:3], "MST": moment.tzname() or "UTC",
            "2006": f"{moment.year:04d}", "06": f"{moment.year % 100:02d}", "01": f"{moment.month:02d}",
            "1": str(moment.month), "02": f"{moment.day:02d}", "_2": f"{moment.day:2d}", "2": str(moment.day),
            "15": f"{moment.hour:02d}", "03": f"{hour:02d}", "3": str(hour), "04": f"{moment.minute:02d}",
            "4": str(moment.minute), "05": f"{moment.second:02d}", "5": str(moment.second),
            "PM": "PM" if moment.hour >= 12 else "AM", "pm": "pm" if moment.hour >= 12 else "am",
            "-07:00": _offset(moment, ":"), "-0700": _offset(moment, ""), "-07": _offset(moment, "")[:3],
        }  # fmt: skip
        if part[0] == "Z":
            separator = ":" if ":" in part else ""
            return "Z" if not moment.utcoffset() else _offset(moment, separator)
        return texts[part]

    def __str__(self) -> str:
        return self.format("2006-01-02 15:04:05.999999999 -0700 MST")


def find_zone(name: str) -> tzinfo:
    """Return a time zone, or UTC if there is none of this name."""
    try:
        return ZoneInfo(name) if name not in {"", "UTC", "Local"} else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def parse_layout(layout: str, text: str, zone: tzinfo = UTC) -> GoTime | None:
    """Return the time of a text in a layout, or `None` if it has another form.

    >>> parse_layout("2006-01-02", "1970-01-02").nanoseconds
    86400000000000
    """
    pattern, at = "", 0
    for found in _PART.finditer(layout):
        if found[0][0] in ".,":
            piece = r"(?:[.,](?P<fraction>\d{1,9}))?"
            pattern = pattern.replace(r"(?:\.(?P<fraction>\d{1,9}))?", "")
        else:
            piece = _READERS[found[0]]
        pattern += re.escape(layout[at : found.start()]) + piece
        at = found.end()
    try:
        matched = re.fullmatch(pattern + re.escape(layout[at:]), text)
        return None if matched is None else _build(matched.groupdict(), zone)
    except (re.error, ValueError, OverflowError):
        return None


def _build(parts: dict[str, str | None], zone: tzinfo) -> GoTime:
    year = int(parts.get("year") or 0)
    if short := parts.get("short_year"):
        year = int(short) + (1900 if int(short) >= 69 else 2000)
    month = int(parts.get("month") or 1)
    if name := parts.get("month_name"):
        month = next(place for place, one in enumerate(_MONTHS, 1) if one[:3] == name[:3])
    hour = int(parts.get("hour") or parts.get("hour12") or 0)
    if half := parts.get("half"):
        hour = hour % 12 + (12 if half.lower() == "pm" else 0)
    if offset := parts.get("zone"):
        zone = (
            datetime.strptime("+0000" if offset == "Z" else offset.replace(":", "").ljust(5, "0"), "%z").tzinfo or UTC
        )
    moment = datetime(
        max(year, 1), month, int(parts.get("day") or 1), hour, int(parts.get("minute") or 0),
        int(parts.get("second") or 0), tzinfo=zone,
    )  # fmt: skip
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    return GoTime(seconds * _NANOS + int((parts.get("fraction") or "0").ljust(9, "0")), zone)
