"""What users set about work: for which tables, which tasks, when, when not, and for how much money."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from neve.model.section import Section
from neve.work.batch import Batch  # noqa: TC001 - pydantic reads it
from neve.work.due import check_cron, interval_of, zone_of
from neve.work.task import Task

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_TABLE = "*"


def _checked_interval(text: str) -> str:
    if text:
        interval_of(text)
    return text


def _checked_cron(text: str) -> str:
    if text:
        check_cron(text)
    return " ".join(text.split())


def _checked_zone(name: str) -> str:
    zone_of(name)
    return name


def _clock(value: Any) -> Any:
    """YAML reads 22:00 without quotes as a number: that of the minutes."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 24 * 60:
        return f"{value // 60:02}:{value % 60:02}"
    return value


Zone = Annotated[str, AfterValidator(_checked_zone)]
Clock = Annotated[str, BeforeValidator(_clock), Field(pattern=r"^(([01]\d|2[0-3]):[0-5]\d|24:00)$")]


class Rule(Section):
    """What starts a task: an interval, a cron expression, or commits that are gathered; any of them may."""

    enabled: bool = Field(True, description="whether it starts by itself at all")
    every: Annotated[str, AfterValidator(_checked_interval)] = Field(
        "", description="how often: a number and s, m, h, d or w; empty: not by an interval"
    )
    cron: Annotated[str, AfterValidator(_checked_cron)] = Field(
        "", description="minute, hour, day of month, month and day of week, as cron reads them; empty: by no calendar"
    )
    zone: Zone = Field("UTC", description="time zone of the cron expression, by its IANA name")
    batch: Batch | None = Field(
        None, description="how many announced commits are gathered before it starts; empty: commits do not start it"
    )

    @model_validator(mode="after")
    def _starts(self) -> Rule:
        if self.enabled and not (self.every or self.cron or self.batch):
            raise ValueError("is a rule by which nothing ever starts, expected every, cron, batch, or enabled: false")
        return self

    @property
    def clock(self) -> str:
        """What tells one cron expression from another."""
        return f"{self.cron} {self.zone}" if self.cron else ""


class Quiet(Section):
    """Hours in which no work begins; what has begun goes on."""

    start: Clock = Field(description="when they begin, HH:MM")
    end: Clock = Field(description="when they end, HH:MM; before the start: on the next day; equal: a whole day")
    days: tuple[Day, ...] = Field(DAYS, min_length=1, description="days on which they begin: mon, tue, … sun")
    zone: Zone = Field("UTC", description="their time zone, by its IANA name")
    tasks: tuple[Task, ...] = Field(tuple(Task), min_length=1, description="tasks that are quiet; by default all")


class Budget(Section):
    """What rewriting may take for one organization in a day (UTC), on all tables together."""

    organization: str = Field(
        EVERY_TABLE, min_length=1, description="organization, or a pattern: each that matches has it for itself"
    )
    dollars_per_day: float = Field(
        0, ge=0, allow_inf_nan=False, description="dollars, as compaction estimates them; 0: no limit"
    )
    bytes_per_day: int = Field(0, ge=0, description="bytes that are read to be rewritten; 0: no limit")

    @model_validator(mode="after")
    def _limits(self) -> Budget:
        if not (self.dollars_per_day or self.bytes_per_day):
            raise ValueError("is a budget without a limit, expected dollars_per_day or bytes_per_day above 0")
        return self


class Policy(Section):
    """What applies to the tables that its patterns match; for each task the first policy that names it wins."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$", description="its name, which no other policy has")
    tables: tuple[str, ...] = Field(
        (EVERY_TABLE,), min_length=1, description="names of tables, with *, ? and […]: metrics_*"
    )
    tasks: dict[Task, Rule] = Field(
        {}, description="what starts each task: compact, maintain, rollup, search, autopilot"
    )
    quiet: tuple[Quiet, ...] = Field((), description="hours in which no work begins")
    budgets: tuple[Budget, ...] = Field((), description="what rewriting may take for each organization")

    @model_validator(mode="after")
    def _says_something(self) -> Policy:
        if not (self.tasks or self.quiet or self.budgets):
            raise ValueError("is a policy that says nothing, expected tasks, quiet or budgets")
        if self.budgets and self.tables != (EVERY_TABLE,):
            raise ValueError('has budgets, which count over all tables, expected tables: ["*"]')
        return self
