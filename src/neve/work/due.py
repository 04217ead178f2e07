"""When a schedule is due: intervals and cron expressions, and what is remembered of them; no clock, no storage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.work.policy import Rule

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
LONGEST = timedelta(days=3660)
CRON_FIELDS = 5  # the library would take a sixth, for seconds


@dataclass(frozen=True)
class Mark:
    """What is remembered of one schedule: when work was last wanted by it, and since when which cron counts."""

    last: datetime | None
    cron: str
    since: datetime

    @property
    def document(self) -> dict[str, object]:
        """As the store keeps it."""
        last = self.last.isoformat() if self.last else None
        return {"last": last, "cron": self.cron, "since": self.since.isoformat()}

    @classmethod
    def of(cls, document: Mapping[str, object]) -> Mark:
        """From the store."""
        last = document["last"]
        since = datetime.fromisoformat(str(document["since"]))
        return cls(datetime.fromisoformat(str(last)) if last else None, str(document["cron"]), since)


def interval_of(text: str) -> timedelta:
    """The time that users write as a number and a unit; raises `ValueError`.

    >>> interval_of("90s"), interval_of("1d")
    (datetime.timedelta(seconds=90), datetime.timedelta(days=1))
    """
    found = re.fullmatch(r"(\d{1,9})([smhdw])", text, re.ASCII)
    length = timedelta(**{UNITS[found[2]]: int(found[1])}) if found else timedelta()
    if not timedelta() < length <= LONGEST:
        raise ValueError("is no interval, expected a number and a unit: 90s, 10m, 6h, 1d or 1w")
    return length


def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name; raises `ValueError`."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a name, or a folder of names
        raise ValueError("is no time zone, expected an IANA name such as Europe/Zurich or UTC") from None


def check_cron(text: str) -> None:
    """Raises `ValueError` for what is no cron expression of five fields, or never comes."""
    if len(text.split()) != CRON_FIELDS:
        raise ValueError(f"has {len(text.split())} fields, {_CRON_EXPECTED}")
    try:
        next(CronSim(text, datetime(2026, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ValueError(f"is no cron expression ({str(error).lower()}), {_CRON_EXPECTED}") from None
    except StopIteration:
        raise ValueError("never comes, expected a day that is in a calendar") from None


def cron_after(text: str, zone: str, moment: datetime) -> datetime:
    """The first time of a cron expression after a moment, in UTC.

    A time that a change of clocks leaves out comes when the clocks have moved on; one that comes twice comes once,
    unless the expression names no hour.
    """
    times = CronSim(text, moment.astimezone(zone_of(zone)))
    # In the hour that is there twice, the library may go back to the first of the two.
    return next(found for found in (time.astimezone(UTC) for time in times) if found > moment)


def next_time(rule: Rule, mark: Mark | None, now: datetime) -> datetime | None:
    """When work is next wanted, which may have been before now; none where the clock does not start it.

    What was never done is due at once by its interval, and at the next time of its cron expression: nobody wants
    nightly work at noon because Neve was installed then, or because the expression was changed.
    """
    times = []
    if rule.every:
        times.append(mark.last + interval_of(rule.every) if mark and mark.last else now)
    if rule.cron:
        since = mark.since if mark and mark.cron == rule.clock else now
        times.append(cron_after(rule.cron, rule.zone, since))
    return min(times, default=None)


def why(rule: Rule, mark: Mark | None, when: datetime, now: datetime) -> str:
    """Why work is wanted at a time, in words."""
    if rule.cron and not (rule.every and _is_by_interval(rule, mark, when, now)):
        local = when.astimezone(zone_of(rule.zone))
        tense = "due since" if when <= now else "next"
        return f"cron {rule.cron}: {tense} {local:%Y-%m-%d %H:%M} {rule.zone}"
    last = f"last {ago(now - mark.last)} ago" if mark and mark.last else "never done before"
    return f"every {rule.every}: {last}"


def ago(length: timedelta) -> str:
    """A time as people say it.

    >>> ago(timedelta(seconds=5)), ago(timedelta(minutes=16, seconds=40)), ago(timedelta(days=3))
    ('5 s', '16 min', '3 days')
    """
    seconds = max(0, int(length.total_seconds()))
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _is_by_interval(rule: Rule, mark: Mark | None, when: datetime, now: datetime) -> bool:
    return when == (mark.last + interval_of(rule.every) if mark and mark.last else now)


_CRON_EXPECTED = "expected five: minute, hour, day of month, month, day of week, as in 30 3 * * mon-fri"
