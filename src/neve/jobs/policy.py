"""A job policy as users write it: tables, rules, batches, quiet hours and budgets; and the built-in policy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from neve.jobs.job import SCHEDULED_TASKS, Task
from neve.jobs.schedule import check_cron, parse_interval, parse_zone
from neve.model.settings import Section

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo


MB = 1024 * 1024


class Batch(Section):
    """Limits of a batch of announcements: a job starts when one of them is reached."""

    count: int = Field(12, ge=1, description="number of announced files")
    bytes: int = Field(256 * MB, ge=1, description="announced bytes")
    age_seconds: float = Field(60, ge=0, description="seconds since the first announcement")


Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_TABLE = "*"


def _check_interval(text: str) -> str:
    if text:
        parse_interval(text)
    return text


def _normalize_cron(text: str) -> str:
    if text:
        check_cron(text)
    return " ".join(text.split())


def _check_zone(name: str) -> str:
    parse_zone(name)
    return name


def _parse_clock(value: Any) -> Any:
    """Convert a number of minutes to a time of day: YAML reads 22:00 without quotes as such a number."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 24 * 60:
        return f"{value // 60:02}:{value % 60:02}"
    return value


Zone = Annotated[str, AfterValidator(_check_zone)]
Clock = Annotated[str, BeforeValidator(_parse_clock), Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$")]


class Rule(Section):
    """Triggers of a task: an interval, a cron expression, a batch of commits, or several of them."""

    enabled: bool = Field(True, description="start the task automatically")
    every: Annotated[str, AfterValidator(_check_interval)] = Field(
        "", description="interval: a number and s, m, h, d or w; empty: none"
    )
    cron: Annotated[str, AfterValidator(_normalize_cron)] = Field(
        "", description="cron expression: minute, hour, day of month, month and day of week; empty: none"
    )
    zone: Zone = Field("UTC", description="time zone of the cron expression, by its IANA name")
    batch: Batch | None = Field(
        None, description="limits of the batch of commits that starts the task; empty: commits do not start it"
    )

    @model_validator(mode="after")
    def _starts(self) -> Rule:
        if self.enabled and not (self.every or self.cron or self.batch):
            raise ValueError("is a rule that never starts its task, expected every, cron, batch, or enabled: false")
        return self

    @property
    def clock(self) -> str:
        """The identity of the cron expression: it differs if the expression or its zone does."""
        return f"{self.cron} {self.zone}" if self.cron else ""


class Quiet(Section):
    """Quiet hours: no job starts, and running jobs continue."""

    start: Clock = Field(description="start, HH:MM")
    end: Clock = Field(description="end, HH:MM; before the start: on the next day; equal: a whole day")
    days: tuple[Day, ...] = Field(DAYS, min_length=1, description="days on which they start: mon, tue, … sun")
    zone: Zone = Field("UTC", description="time zone, by its IANA name")
    tasks: tuple[Task, ...] = Field(SCHEDULED_TASKS, min_length=1, description="tasks that do not start; default: all")


class Budget(Section):
    """Daily limit (UTC) of the rewriting for one organization, on all tables together."""

    organization: str = Field(
        EVERY_TABLE,
        min_length=1,
        description="organization, or a pattern; each matching one has its own budget",
    )
    dollars_per_day: float = Field(
        0, ge=0, allow_inf_nan=False, description="dollars, as estimated by compaction; 0: no limit"
    )
    bytes_per_day: int = Field(0, ge=0, description="bytes read for rewriting; 0: no limit")

    @model_validator(mode="after")
    def _limits(self) -> Budget:
        if not (self.dollars_per_day or self.bytes_per_day):
            raise ValueError("is a budget without a limit, expected dollars_per_day or bytes_per_day above 0")
        return self


class Policy(Section):
    """Rules for the tables that match its patterns. For each task, the first policy with a rule applies."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$", description="unique name")
    tables: tuple[str, ...] = Field(
        (EVERY_TABLE,), min_length=1, description="names of tables, with *, ? and […]: metrics_*"
    )
    tasks: dict[Task, Rule] = Field(
        {}, description="triggers of each task: compact, maintain, rollup, search, series, traces, autopilot"
    )
    quiet: tuple[Quiet, ...] = Field((), description="quiet hours")
    budgets: tuple[Budget, ...] = Field((), description="daily limits of rewriting, by organization")

    @model_validator(mode="after")
    def _check_content(self) -> Policy:
        if not (self.tasks or self.quiet or self.budgets):
            raise ValueError("has no content, expected tasks, quiet or budgets")
        if self.budgets and self.tables != (EVERY_TABLE,):
            raise ValueError('has budgets, which count over all tables, expected tables: ["*"]')
        return self


DAY = timedelta(days=1)
HORIZON = timedelta(days=8)  # quiet hours that last for more than a week never end


@dataclass(frozen=True)
class QuietWindow:
    """One period of quiet hours, in UTC; `zone` is the time zone of the policy."""

    start: datetime
    end: datetime
    zone: str

    @property
    def end_words(self) -> str:
        """The end of the period, as the policy has it."""
        return f"{self.end.astimezone(parse_zone(self.zone)):%H:%M} {self.zone}"


def find_window(quiet: Quiet, moment: datetime) -> QuietWindow | None:
    """Return the period that contains a moment."""
    zone = parse_zone(quiet.zone)
    today = moment.astimezone(zone).date()
    for day in (today - DAY, today):
        if DAYS[day.weekday()] in quiet.days:
            window = _window_of_day(quiet, day, zone)
            if window.start <= moment < window.end:
                return window
    return None


def find_last_window(hours: Sequence[Quiet], moment: datetime) -> QuietWindow | None:
    """Return the last of the periods that follow a moment without a gap; none if it is not in quiet hours."""
    found: QuietWindow | None = None
    end = moment
    while end - moment < HORIZON:
        at_end = [window for quiet in hours if (window := find_window(quiet, end))]
        if not at_end:
            break
        found = max(at_end, key=lambda window: window.end)
        end = found.end
    return found


def _window_of_day(quiet: Quiet, day: date, zone: ZoneInfo) -> QuietWindow:
    """Return the period that starts on a day; where clocks change within it, it is rather too long than too short."""
    until = day if quiet.start < quiet.end else day + DAY
    return QuietWindow(
        min(_possible_times(day, quiet.start, zone)), max(_possible_times(until, quiet.end, zone)), quiet.zone
    )


def _possible_times(day: date, clock: str, zone: ZoneInfo) -> list[datetime]:
    """Return the moments that a time of day may mean: two where clocks change, otherwise the same one twice."""
    if clock == "24:00":
        day, clock = day + DAY, "00:00"
    local = datetime.combine(day, time_of_day.fromisoformat(clock), zone)
    return [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]


BUILT_IN = "built-in"


def build_default_policy(autopilot_hour: int | None) -> Policy:
    """Return the policy that comes last. The autopilot changes layouts, so it runs only if it is configured."""
    autopilot = Rule(cron=f"0 {autopilot_hour} * * *") if autopilot_hour is not None else Rule(enabled=False)
    return Policy(
        name=BUILT_IN,
        tasks={
            # A commit of spans adds a file for each of its buckets: this number of files is a dozen commits.
            Task.COMPACT: Rule(every="15m", batch=Batch(count=200, bytes=256 * MB, age_seconds=120)),
            # By the clock too: the last windows have to close even if no more points arrive.
            Task.ROLLUP: Rule(every="5m", batch=Batch(age_seconds=20)),
            Task.SEARCH: Rule(every="10m", batch=Batch(age_seconds=60)),
            Task.SERIES: Rule(every="10m", batch=Batch(age_seconds=30)),
            Task.TRACES: Rule(every="10m", batch=Batch(age_seconds=60)),
            Task.MAINTAIN: Rule(cron="30 3 * * *"),
            Task.AUTOPILOT: autopilot,
        },
    )
