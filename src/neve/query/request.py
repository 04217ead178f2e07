"""What is asked: a statement, of whom, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

Parameter = str | int | float | bool | bytes | None


@dataclass(frozen=True)
class TimeRange:
    """From a moment, up to but not including another; `None` is open."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Request:
    """One statement of one organization.

    `time` bounds every table that has a `timestamp`, whatever the statement says. `limit` cuts the result off.
    `partial` asks for what can be read when some files can't. `fresh` takes nothing from the cache.
    """

    sql: str
    organization: str
    parameters: Sequence[Parameter] | Mapping[str, Parameter] = ()
    time: TimeRange = field(default_factory=TimeRange)
    limit: int | None = None
    timeout_seconds: float | None = None
    partial: bool = False
    fresh: bool = False
    key_id: str = ""
    id: str = field(default_factory=lambda: uuid4().hex)

    def asking(self, sql: str) -> Request:
        """Another statement within the same bounds: a question of its own."""
        return replace(self, sql=sql, id=uuid4().hex)
