"""How far back a command looks: a time, or how long ago."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from neve.cli.moment import Moment

if TYPE_CHECKING:
    from datetime import datetime

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Since(click.ParamType["datetime"]):
    """`7d`, `12h` or `30m` ago, or a time as ISO 8601 writes it."""

    name = "since"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment that is meant."""
        from datetime import UTC, datetime, timedelta

        if isinstance(value, datetime):
            return value
        ago = re.fullmatch(r"(\d+)\s*([smhdw])", str(value).strip())
        try:
            if ago:
                return datetime.now(UTC) - timedelta(**{UNITS[ago[2]]: int(ago[1])})
            datetime.fromisoformat(str(value))
        except OverflowError:
            self.fail(f"{value!r} is longer ago than times go", param, ctx)
        except ValueError:
            self.fail(
                f"{value!r} is no time, expected one like 7d, 12h, 30m, 2026-01-31 or 2026-01-31T08:30Z", param, ctx
            )
        return Moment(past=True).convert(value, param, ctx)
