"""Schedules: intervals, cron expressions, and the next time of a rule; no clock, no storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from neve.text import format_age

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.jobs.policy import Rule

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
MAX_INTERVAL = timedelta(days=3660)
CRON_FIELDS = 5  # the library would accept a sixth, for seconds


@dataclass(frozen=True)
class ScheduleMark:
    """State of one schedule: the time of its last request, and since when its current cron expression applies."""

    last: datetime | None
    cron: str
    since: datetime

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        last = self.last.isoformat() if self.last else None
        return {"last": last, "cron": self.cron, "since": self.since.isoformat()}

    @classmethod
    def of(cls, document: Mapping[str, object]) -> ScheduleMark:
        """Decode a document of the store."""
        last = document["last"]
        since = datetime.fromisoformat(str(document["since"]))
        return cls(datetime.fromisoformat(str(last)) if last else None, str(document["cron"]), since)


def parse_interval(text: str) -> timedelta:
    """Parse an interval of a number and a unit; raises `ValueError`.

    >>> parse_interval("90s"), parse_interval("1d")
    (datetime.timedelta(seconds=90), datetime.timedelta(days=1))
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text, re.ASCII)
    length = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < length <= MAX_INTERVAL:
        raise ValueError("is not an interval, expected a number and a unit: 90s, 10m, 6h, 1d or 1w")
    return length


def parse_zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name; raises `ValueError`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of names
        raise ValueError("is not a time zone, expected an IANA name such as Europe/Zurich or UTC") from None


def check_cron(text: str) -> None:
    """Raise `ValueError` if the text is not a cron expression of five fields, or never matches."""
    if len(text.split()) != CRON_FIELDS:
        raise ValueError(f"has {len(text.split())} fields, {_CRON_EXPECTED}")
    try:
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(f"is not a cron expression ({str(error).lower()}), {_CRON_EXPECTED}") from None
    except StopIteration:
        raise ValueError("never occurs, expected an existing day") from None


def next_cron_time(text: str, zone: str, moment: datetime) -> datetime:
    """Return the first time of a cron expression after a moment, in UTC.

    A time that a clock change skips comes right after the change. A time that occurs twice counts once, unless the
    expression names no hour.
    """
    times = CronSim(text, moment.astimezone(parse_zone(zone)))
    # In the repeated hour, the library may go back to the first of the two.
    return next(found for found in (time.astimezone(UTC) for time in times) if found > moment)


def next_time(rule: Rule, mark: ScheduleMark | None, now: datetime) -> datetime | None:
    """Return the next time of a rule, which may be in the past; none if the clock does not start it.

    A task that never ran is due at once by its interval, and at the next time of its cron expression. Nightly work must
    not start at noon because Neve was installed then, or because the expression was changed.
    """
    times = []
    if rule.every:
        times.append(mark.last + parse_interval(rule.every) if mark and mark.last else now)
    if rule.cron:
        since = mark.since if mark and mark.cron == rule.clock else now
        times.append(next_cron_time(rule.cron, rule.zone, since))
    return min(times, default=None)


def explain_schedule(rule: Rule, mark: ScheduleMark | None, when: datetime, now: datetime) -> str:
    """Return the reason of a scheduled job."""
    if rule.cron and not (rule.every and _is_by_interval(rule, mark, when, now)):
        local = when.astimezone(parse_zone(rule.zone))
        tense = "due since" if when <= now else "next"
        return f"cron {rule.cron}: {tense} {local:%Y-%m-%d %H:%M} {rule.zone}"
    last = f"last {format_age(mark.last, now)} ago" if mark and mark.last else "never run before"
    return f"every {rule.every}: {last}"


def _is_by_interval(rule: Rule, mark: ScheduleMark | None, when: datetime, now: datetime) -> bool:
    return when == (mark.last + parse_interval(rule.every) if mark and mark.last else now)


_CRON_EXPECTED = "expected five: minute, hour, day of month, month, day of week, as in 30 3 * * mon-fri"
