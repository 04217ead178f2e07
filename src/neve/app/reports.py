"""Report models of a lake, its jobs and its services: the same for the terminal, for `--json` and for the API."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - pydantic reads it
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Report(BaseModel):
    """Something told; made of the value that it is about."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    @property
    def plain(self) -> dict[str, Any]:
        """As values of JSON."""
        return self.model_dump(mode="json")


class ProgressReport(Report):
    """How far a running job is."""

    step: str
    done: int
    total: int = Field(description="0 where nobody knows")


class JobReport(Report):
    """One piece of work."""

    id: str
    task: str = Field(description="compact, maintain, rollup, search or autopilot")
    table: str
    window: str = Field(description="the day that it is about; empty: all of the table")
    reason: str = Field(description="why it is wanted")
    state: str = Field(description="queued, running, done, cancelled or dead")
    created: datetime
    not_before: datetime = Field(description="when it may begin, or is tried again")
    attempts: int
    owner: str = Field(description="the worker that runs it")
    started: datetime | None
    ended: datetime | None
    progress: ProgressReport
    again: bool = Field(description="whether it was wanted once more while it ran")
    cancel: bool = Field(description="whether it was told to stop")
    outcome: str = Field(description="what was done, and why")
    result: dict[str, Any]
    error: str = Field(description="why the last attempt failed")
    hint: str


class ServePartReport(Report):
    """One part of a `neve serve`, as it last said of itself."""

    instance: str = Field(description="the `neve serve` that it belongs to")
    process: str
    name: str
    state: str = Field(description="created, started, running, draining, stopped or failed")
    since: datetime
    pid: int
    restarts: int
    error: str = Field(description="why it failed last")
    details: dict[str, Any]
    seen: datetime = Field(description="when it said so")


class PauseReport(Report):
    """Work that a person holds up."""

    id: str
    task: str | None = Field(description="null: every task")
    tables: str = Field(description="a pattern of names")
    by: str
    reason: str
    since: datetime
    until: datetime | None = Field(description="null: until it is ended")


class QueueReport(Report):
    """The jobs of one task."""

    task: str
    queued: int
    running: int
    dead: int
    oldest_seconds: float | None = Field(description="for how long the oldest of the queued could have begun")


class ZoneReport(Report):
    """What was received and is not in the tables yet."""

    zone: str = Field(description="otlp: telemetry; events: announced files")
    segments: int
    bytes: int
    oldest_seconds: float


class FreshnessReport(Report):
    """When a table was last committed to."""

    table: str
    last_commit: datetime | None
    age_seconds: float | None


class LevelReport(Report):
    """How far one level of rollups is."""

    level: str
    table: str
    closed_until: str
    lag_seconds: float | None
    commits_behind: int | None
    note: str


class TailReport(Report):
    """How far tail sampling is."""

    selector: str
    cycle: int
    last_cycle: str
    open_traces: int
    behind: str = Field(description="commits of spans that it has not seen; empty where nobody can tell")
    decisions: int
    destinations: list[str] = Field(description="each with what waits for it")


class LagsReport(Report):
    """How far the tables are behind what comes in."""

    zones: list[ZoneReport]
    tables: list[FreshnessReport]
    rollups: list[LevelReport]
    tail: TailReport | None
    unknown: list[str] = Field(description="what could not be looked at, and why")


class QueryUsageReport(Report):
    """Bytes of files that the queries of an organization read today, in UTC."""

    organization: str
    bytes: int


class StatusReport(Report):
    """How the lake and those who tend it are, now."""

    at: datetime
    parts: list[ServePartReport]
    queues: list[QueueReport]
    running: list[JobReport]
    ended: list[JobReport] = Field(description="done or cancelled, the last first")
    dead: list[JobReport] = Field(description="given up; each waits for a person")
    pauses: list[PauseReport]
    lags: LagsReport
    query_usage: list[QueryUsageReport] = Field(default=[], description="the organizations that read most today")


class TableReport(Report):
    """A table and how it is kept."""

    name: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    health: float | None = Field(description="from 0 to 100; null where it could not be told")
    last_commit: datetime | None
    running: str = Field(description="who compacts it now; empty: nobody")
    unfinished: list[str] = Field(description="compactions that died and that the next one finishes")
    error: str = Field(description="why the table could not be looked at")


class PartitionReport(Report):
    """One partition of a table."""

    partition: str
    health: float
    files: int
    bytes: int
    rows: int
    fragments: int
    undersized: int
    delete_files: int


class PlannedGroup(Report):
    """Files that would be rewritten together."""

    partition: str
    files: int
    bytes: int
    level: str
    layout: str
    executor: str
    reason: str


class PlanReport(Report):
    """What a compaction would do now."""

    reason: str
    strategy: str
    groups: int
    files: int
    bytes: int
    seconds: float = Field(description="estimated, of one core")
    dollars: float = Field(description="estimated")
    cut: int = Field(description="partitions that a limit leaves for another run")
    left_alone: int = Field(description="partitions that need nothing")
    first: list[PlannedGroup] = Field(description="the groups that come first")


class TableDetail(TableReport):
    """A table, its least healthy partitions, and what would be done to it."""

    partitions: list[PartitionReport] = Field(description="the least healthy first")
    partitions_in_all: int
    plan: PlanReport


class PastReport(Report):
    """Something that was done to a table."""

    what: str = Field(description="compact, maintain, rollup, search or autopilot; of maintenance with the step")
    table: str
    started: datetime
    seconds: float
    words: str = Field(description="what was done, and why")
    error: str = Field(description="what failed")
    details: dict[str, Any] = Field(description="all that is remembered of it")


class NextReport(Report):
    """One thing that is to be done."""

    task: str
    table: str = Field(description="empty: all tables together")
    window: str
    when: datetime | None = Field(description="null where nobody can tell")
    state: str = Field(description="running, due, waiting, filling, quiet, paused or disabled")
    why: str
    policy: str = Field(description="the policy that says so; empty where none does")


class OutlookReport(Report):
    """What would be done next, and why."""

    at: datetime
    source: str = Field(description="where the policies come from")
    lines: list[NextReport] = Field(description="what is under way, what comes next, what does not come by itself")
    warnings: list[str] = Field(description="policies that have no effect")
