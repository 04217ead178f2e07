"""Format values of a result for people: times in a zone, ids as hex, nested values shortened."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    import pyarrow as pa


AS_IS = ""  # the zone that the result has: UTC, unless the session set another
LOCAL = "local"
UNSHORTENED = 0


@dataclass(frozen=True)
class CellFormat:
    """Format of values: the time zone, and the number of characters that a nested value may take."""

    zone: str = AS_IS
    nested: int = UNSHORTENED

    def format_column(self, column: pa.Array) -> list[str]:
        """Format each value of a column."""
        from neve.query.output import has_unnamed, to_json_values

        if has_unnamed(column.type):
            return [self.format_cell(value) for value in to_json_values(column)]
        return [self.format_cell(value, column.type) for value in column.to_pylist()]

    def format_cell(self, value: object, kind: pa.DataType | None = None) -> str:
        """Format one value."""
        from datetime import datetime

        from neve.query.output import to_json_value

        if isinstance(value, datetime):
            return format_time(value, self.zone)
        found = to_json_value(value, kind)
        if found is None:
            return ""
        return found if isinstance(found, str) else shorten_json(found, self.nested)


def find_zone(name: str) -> tzinfo | None:
    """Return a time zone by its name; None is the zone of this machine. Raises `QueryError` for an unknown name."""
    from datetime import UTC
    from zoneinfo import ZoneInfo

    from neve.errors import QueryError

    if name.upper() in ("UTC", "Z"):
        return UTC
    if name == LOCAL:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # an unknown name; one that is no name; a folder of zones
        raise QueryError(
            f"the time zone is {name!r}, expected a name such as Europe/Berlin, UTC or local",
            hint="`timedatectl list-timezones` lists names; without a database of zones, install the package tzdata",
        ) from error


def format_time(moment: datetime, zone: str) -> str:
    """Format a time in a zone: to the microsecond, and with its offset outside of UTC. A time without a zone stays.

    >>> from datetime import UTC, datetime
    >>> format_time(datetime(2026, 7, 1, 8, 30, 0, 500_000, UTC), "Europe/Berlin")
    '2026-07-01 10:30:00.5+02:00'
    >>> format_time(datetime(2026, 7, 1, 8, 30, tzinfo=UTC), AS_IS), format_time(datetime(2026, 7, 1), "Asia/Tokyo")
    ('2026-07-01 08:30:00', '2026-07-01 00:00:00')
    """
    if moment.tzinfo is None:
        return _format_clock(moment)
    if zone:
        with suppress(OverflowError):  # of the years 1 and 9999, which stay as they are
            moment = moment.astimezone(find_zone(zone))
    offset = moment.strftime("%z")
    is_utc = moment.tzname() == "UTC"
    return _format_clock(moment) + ("" if is_utc else f"{offset[:3]}:{offset[3:5]}")


def _format_clock(moment: datetime) -> str:
    text = f"{moment.year:04}{moment.strftime('-%m-%d %H:%M:%S.%f')}"
    return text.rstrip("0").rstrip(".")


def shorten_json(value: Any, limit: int) -> str:
    """Format a value as JSON. A list or an object that is longer than the limit ends with the number of other items.

    >>> shorten_json({"method": "GET", "route": "/cart", "code": 200}, 32)
    '{"method": "GET", … 2 more}'
    >>> shorten_json([1, 2, 3], 0), shorten_json({"text": "a very long text indeed"}, 20)
    ('[1, 2, 3]', '{"text": "a very lo…')
    """
    text = json.dumps(value, ensure_ascii=False)
    if limit == UNSHORTENED or len(text) <= limit:
        return text
    if not isinstance(value, dict | list):
        return f"{text[: limit - 1]}…"
    items = [text[1:-1] for text in (_format_item(item) for item in _items(value))]
    taken, room = 0, limit - len("{… 999 more}")
    for item in items:
        room -= len(item) + len(", ")
        if room < 0:
            break
        taken += 1
    if not taken:
        return f"{text[: limit - 1]}…"
    rest = f"… {len(items) - taken:,} more"
    return f"{text[0]}{', '.join([*items[:taken], rest])}{text[-1]}"


def _items(value: dict[str, Any] | list[Any]) -> list[Any]:
    return [{key: item} for key, item in value.items()] if isinstance(value, dict) else [[item] for item in value]


def _format_item(item: Any) -> str:
    return json.dumps(item, ensure_ascii=False)
