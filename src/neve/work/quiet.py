"""Quiet hours: whether a moment is within them, and when they end; no clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import TYPE_CHECKING

from neve.work.due import zone_of
from neve.work.policy import DAYS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from neve.work.policy import Quiet

DAY = timedelta(days=1)
HORIZON = timedelta(days=8)  # hours that go on for longer than a week go on for good


@dataclass(frozen=True)
class Window:
    """One stretch of quiet hours, in UTC; `zone` is where its times are read."""

    start: datetime
    end: datetime
    zone: str

    @property
    def end_words(self) -> str:
        """When it ends, as it was written."""
        return f"{self.end.astimezone(zone_of(self.zone)):%H:%M} {self.zone}"


def window_at(quiet: Quiet, moment: datetime) -> Window | None:
    """The stretch that a moment is in."""
    zone = zone_of(quiet.zone)
    today = moment.astimezone(zone).date()
    for day in (today - DAY, today):
        if DAYS[day.weekday()] in quiet.days:
            window = _window(quiet, day, zone)
            if window.start <= moment < window.end:
                return window
    return None


def last_window(hours: Sequence[Quiet], moment: datetime) -> Window | None:
    """Of the stretches that follow each other without a gap from a moment on, the last; none where it is not quiet."""
    found: Window | None = None
    end = moment
    while end - moment < HORIZON:
        at_end = [window for quiet in hours if (window := window_at(quiet, end))]
        if not at_end:
            break
        found = max(at_end, key=lambda window: window.end)
        end = found.end
    return found


def _window(quiet: Quiet, day: date, zone: ZoneInfo) -> Window:
    """The stretch that begins on a day. Where clocks change within it, it is rather too long than too short."""
    until = day if quiet.start < quiet.end else day + DAY
    return Window(min(_moments(day, quiet.start, zone)), max(_moments(until, quiet.end, zone)), quiet.zone)


def _moments(day: date, clock: str, zone: ZoneInfo) -> list[datetime]:
    """What a time of day may mean: two moments where clocks change, one twice on all other days."""
    if clock == "24:00":
        day, clock = day + DAY, "00:00"
    local = datetime.combine(day, time_of_day.fromisoformat(clock), zone)
    return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
