"""Time windows, aligned to 1970.

OTAP folders have a `Window` in nanoseconds. Tables have windows by organization, each given by its start in
microseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


NANOS = 1_000_000_000
UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, order=True)
class Window:
    """A time range: from its start to just before its end."""

    start_ns: int
    seconds: int

    @classmethod
    def at(cls, time_ns: int, seconds: int) -> Window:
        """Return the window that contains a time.

        >>> str(Window.at(1_700_000_123 * NANOS, 300))
        '20231114T221500Z'
        """
        length = seconds * NANOS
        return cls(time_ns // length * length, seconds)

    @property
    def end_ns(self) -> int:
        """The first nanosecond after the window."""
        return self.start_ns + self.seconds * NANOS

    @property
    def start(self) -> datetime:
        """The start as a `datetime`."""
        return datetime.fromtimestamp(self.start_ns / NANOS, UTC)

    @property
    def end(self) -> datetime:
        """The end as a `datetime`."""
        return datetime.fromtimestamp(self.end_ns / NANOS, UTC)

    def within(self, since: datetime | None, until: datetime | None) -> bool:
        """Return whether the window ends after `since` and begins before `until`."""
        after = since is None or self.end_ns > nanos_of(since)
        return after and (until is None or self.start_ns < nanos_of(until))

    def __str__(self) -> str:
        return self.start.strftime("%Y%m%dT%H%M%SZ")


def nanos_of(moment: datetime) -> int:
    """Return a time in nanoseconds since 1970.

    >>> nanos_of(datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=UTC))
    1000005000
    """
    return (moment - UNIX_EPOCH) // timedelta(microseconds=1) * 1000


Windows = Mapping[str, Collection[int]]  # by organization


def window_sql(time: str, micros: int) -> str:
    """Return the start of the window as Spark SQL, for a timestamp."""
    return f"(unix_micros({time}) - pmod(unix_micros({time}), {micros}L))"


def by_owner(pairs: Iterable[tuple[str, int]]) -> dict[str, set[int]]:
    """Group windows by organization."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for owner, start in pairs:
        found[owner].add(start)
    return dict(found)
