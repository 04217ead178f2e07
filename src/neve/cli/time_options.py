"""Click parameter types for times: ISO 8601, or a duration before or after now."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class TimeParam(click.ParamType["datetime"]):
    """A time in ISO 8601; without a zone it is UTC. With `ago`, a duration such as `1h` is that long before now."""

    name = "time"

    def __init__(self, *, past: bool = False, ago: bool = False) -> None:
        self._past = past
        self._ago = ago

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the parsed time."""
        from datetime import UTC, datetime

        try:
            if self._ago and (ago := parse_duration(value)) is not None:
                return datetime.now(UTC) - ago
            moment = datetime.fromisoformat(str(value))
        except OverflowError:
            self.fail(f"{value!r} is too far in the past", param, ctx)
        except ValueError:
            known = "1h, 7d, 2026-01-31" if self._ago else "2026-01-31"
            self.fail(f"{value!r} is not a time, expected one like {known} or 2026-01-31T08:30:00Z", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if self._past and moment > datetime.now(UTC):
            self.fail(f"{value!r} is in the future", param, ctx)
        return moment.astimezone(UTC)


UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class SinceParam(click.ParamType["datetime"]):
    """A time in the past: `7d`, `12h` or `30m` ago, or ISO 8601."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the parsed time."""
        from datetime import UTC, datetime

        if isinstance(value, datetime):
            return value
        try:
            if (ago := parse_duration(value)) is not None:
                return datetime.now(UTC) - ago
            datetime.fromisoformat(str(value))
        except OverflowError:
            self.fail(f"{value!r} is too far in the past", param, ctx)
        except ValueError:
            self.fail(
                f"{value!r} is not a time, expected one like 7d, 12h, 30m, 2026-01-31 or 2026-01-31T08:30Z", param, ctx
            )
        return TimeParam(past=True).convert(value, param, ctx)


class UntilParam(click.ParamType["datetime"]):
    """A time in the future: in `90d`, `12h` or `30m`, or ISO 8601."""

    name = "until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the parsed time."""
        from datetime import UTC, datetime

        if isinstance(value, datetime):
            return value
        now = datetime.now(UTC)
        try:
            ahead = parse_duration(value)
            moment = now + ahead if ahead is not None else TimeParam().convert(value, param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is too far in the future", param, ctx)
        if moment <= now:
            self.fail(f"{value!r} is over, expected a time in the future like 90d, 12h or 2031-01-31", param, ctx)
        return moment


def parse_duration(value: Any) -> timedelta | None:
    """Parse a number and a unit; return None for any other text."""
    from datetime import timedelta

    found = re.fullmatch(r"(\d+)\s*([smhdw])", str(value).strip())
    return timedelta(**{UNITS[found[2]]: int(found[1])}) if found else None
