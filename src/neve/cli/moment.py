"""Times as options of commands take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from datetime import datetime


class Moment(click.ParamType["datetime"]):
    """A time as ISO 8601 writes it; without a zone it is UTC."""

    name = "time"

    def __init__(self, *, past: bool = False) -> None:
        self._past = past

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment that is meant."""
        from datetime import UTC, datetime

        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time, expected one like 2026-01-31 or 2026-01-31T08:30:00Z", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if self._past and moment > datetime.now(UTC):
            self.fail(f"{value!r} lies in the future", param, ctx)
        return moment.astimezone(UTC)
