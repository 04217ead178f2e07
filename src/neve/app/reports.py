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
    """Progress of a running job."""

    step: str
    done: int
    total: int = Field(description="0 if unknown")


class JobReport(Report):
    """One job."""

    id: str
    task: str = Field(description="compact, maintain, rollup, search, series, traces, autopilot, simulate or layout")
    table: str
    window: str = Field(description="day; empty: the whole table")
    reason: str = Field(description="reason of the job")
    state: str = Field(description="queued, running, done, cancelled or dead")
    created: datetime
    not_before: datetime = Field(description="earliest start, or time of the next attempt")
    attempts: int
    owner: str = Field(description="worker that runs the job")
    started: datetime | None
    ended: datetime | None
    progress: ProgressReport
    again: bool = Field(description="whether it was requested again while it ran")
    cancel: bool = Field(description="whether cancellation was requested")
    outcome: str = Field(description="outcome with reason")
    result: dict[str, Any]
    error: str = Field(description="error of the last attempt")
    hint: str


class ServePartReport(Report):
    """Last status report of one part of a `neve serve`."""

    instance: str = Field(description="`neve serve` instance of the part")
    process: str
    name: str
    state: str = Field(description="created, started, running, draining, stopped or failed")
    since: datetime
    pid: int
    restarts: int
    error: str = Field(description="last error")
    details: dict[str, Any]
    seen: datetime = Field(description="time of the report")


class PauseReport(Report):
    """An active pause."""

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
    oldest_seconds: float | None = Field(description="seconds since the oldest queued job could have started")


class ZoneReport(Report):
    """Received data that is not ingested yet."""

    zone: str = Field(description="otlp: telemetry; events: announced files")
    segments: int
    bytes: int
    oldest_seconds: float


class FreshnessReport(Report):
    """Last commit of a table."""

    table: str
    last_commit: datetime | None
    age_seconds: float | None


class LevelReport(Report):
    """Progress of one level of rollups."""

    level: str
    table: str
    closed_until: str
    lag_seconds: float | None
    commits_behind: int | None
    note: str


class TailReport(Report):
    """Progress of tail sampling."""

    selector: str
    cycle: int
    last_cycle: str
    open_traces: int
    behind: str = Field(description="commits of spans that were not read yet; empty if unknown")
    decisions: int
    destinations: list[str] = Field(description="destinations with the number of waiting batches")


class RulesReport(Report):
    """Progress of the evaluation of rules."""

    groups: int
    lag_seconds: float
    failing: int = Field(description="rules whose last evaluation failed")
    pending: int
    firing: int


class LagsReport(Report):
    """Lag of the tables behind the received data."""

    zones: list[ZoneReport]
    tables: list[FreshnessReport]
    rollups: list[LevelReport]
    tail: TailReport | None
    rules: RulesReport | None = Field(None, description="null if no rules were evaluated")
    unknown: list[str] = Field(description="items that could not be checked, with the error")


class QueryUsageReport(Report):
    """Bytes of files that the queries of an organization read today, in UTC."""

    organization: str
    bytes: int


class StatusReport(Report):
    """Service health, queues, running jobs and lag."""

    at: datetime
    parts: list[ServePartReport]
    queues: list[QueueReport]
    running: list[JobReport]
    ended: list[JobReport] = Field(description="done or cancelled, newest first")
    dead: list[JobReport] = Field(description="failed all retries")
    pauses: list[PauseReport]
    lags: LagsReport
    query_usage: list[QueryUsageReport] = Field(default=[], description="organizations that read most bytes today")


class TableReport(Report):
    """A table with its health."""

    name: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    health: float | None = Field(description="from 0 to 100; null if unknown")
    last_commit: datetime | None
    running: str = Field(description="instance that compacts the table now; empty: none")
    unfinished: list[str] = Field(description="interrupted compactions, finished by the next run")
    error: str = Field(description="error while the table was read")


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
    """The current compaction plan of a table."""

    reason: str
    strategy: str
    groups: int
    files: int
    bytes: int
    seconds: float = Field(description="estimated, of one core")
    dollars: float = Field(description="estimated")
    cut: int = Field(description="partitions left for another run because of a limit")
    left_alone: int = Field(description="partitions without work")
    first: list[PlannedGroup] = Field(description="first groups of the plan")


class TableDetail(TableReport):
    """A table with its least healthy partitions and its compaction plan."""

    partitions: list[PartitionReport] = Field(description="least healthy first")
    partitions_in_all: int
    plan: PlanReport


class PastReport(Report):
    """Finished work on a table."""

    what: str = Field(
        description="compact, maintain, rollup, search, series, traces or autopilot; for maintenance with the step"
    )
    table: str
    started: datetime
    seconds: float
    words: str = Field(description="outcome with reason")
    error: str = Field(description="what failed")
    details: dict[str, Any] = Field(description="stored details")


class NextReport(Report):
    """One planned job."""

    task: str
    table: str = Field(description="empty: all tables")
    window: str
    when: datetime | None = Field(description="null if unknown")
    state: str = Field(description="running, due, waiting, filling, quiet, paused or disabled")
    why: str
    policy: str = Field(description="policy of this entry; empty if none")
    done: int = Field(0, description="files of a batch that fills, or units of a running job")
    total: int = Field(0, description="files that start it, or units of the job; 0 if unknown")
    share: float | None = Field(None, description="of the limit that is reached first, from 0 to 1; null if unknown")


class OutlookReport(Report):
    """Planned work with reasons."""

    at: datetime
    source: str = Field(description="source of the policies")
    lines: list[NextReport] = Field(description="running, planned and disabled work")
    warnings: list[str] = Field(description="policies without effect")
