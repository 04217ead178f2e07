"""Times that options name: a moment, or how long ago or ahead it is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from neve.cli.moment import Moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType["datetime"]):
    """`7d`, `12h` or `30m` ago, or a time as ISO 8601 writes it."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment that is meant."""
        from datetime import UTC, datetime

        if isinstance(value, datetime):
            return value
        try:
            if (ago := _duration(value)) is not None:
                return datetime.now(UTC) - ago
            datetime.fromisoformat(str(value))
        except OverflowError:
            self.fail(f"{value!r} is longer ago than times go", param, ctx)
        except ValueError:
            self.fail(
                f"{value!r} is no time, expected one like 7d, 12h, 30m, 2026-01-31 or 2026-01-31T08:30Z", param, ctx
            )
        return Moment(past=True).convert(value, param, ctx)


class Until(click.ParamType["datetime"]):
    """In `90d`, `12h` or `30m`, or a time to come as ISO 8601 writes it."""

    name = "until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment that is meant."""
        from datetime import UTC, datetime

        if isinstance(value, datetime):
            return value
        now = datetime.now(UTC)
        try:
            ahead = _duration(value)
            moment = now + ahead if ahead is not None else Moment().convert(value, param, ctx)
        except OverflowError:
            self.fail(f"{value!r} is further ahead than times go", param, ctx)
        if moment <= now:
            self.fail(f"{value!r} is over, expected a time to come like 90d, 12h or 2031-01-31", param, ctx)
        return moment


def _duration(value: Any) -> timedelta | None:
    """A number and a unit; none where a value is something else."""
    from datetime import timedelta

    found = re.fullmatch(r"(\d+)\s*([smhdw])", str(value).strip())
    return timedelta(**{UNITS[found[2]]: int(found[1])}) if found else None
