"""Windows of time, counted from 1970."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

NANOS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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

    def within(self, since: datetime | None, until: datetime | None) -> bool:
        """Whether it ends after the one moment and begins before the other."""
        after = since is None or self.end_ns > nanos_of(since)
        return after and (until is None or self.start_ns < nanos_of(until))

    def __str__(self) -> str:
        return self.start.strftime("%Y%m%dT%H%M%SZ")


def nanos_of(moment: datetime) -> int:
    """A moment in nanoseconds since 1970.

    >>> nanos_of(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC))
    1000005000
    """
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000
