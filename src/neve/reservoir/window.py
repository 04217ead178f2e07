"""Windows of time, counted from 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

NANOS = 1_000_000_000


@dataclass(frozen=True, order=True)
class Window:
    """A stretch of time: from its start to just before its end."""

    start_ns: int
    seconds: int

    @classmethod
    def at(cls, time_ns: int, seconds: int) -> Window:
        """The window that a moment is in.

        >>> str(Window.at(1_700_000_123 * NANOS, 300))
        '20231114T221500Z'
        """
        length = seconds * NANOS
        return cls(time_ns // length * length, seconds)

    @property
    def end_ns(self) -> int:
        """The first moment that is not in it."""
        return self.start_ns + self.seconds * NANOS

    @property
    def start(self) -> datetime:
        """When it begins."""
        return datetime.fromtimestamp(self.start_ns / NANOS, UTC)

    @property
    def end(self) -> datetime:
        """When it ends."""
        return datetime.fromtimestamp(self.end_ns / NANOS, UTC)

    def __str__(self) -> str:
        return self.start.strftime("%Y%m%dT%H%M%SZ")
