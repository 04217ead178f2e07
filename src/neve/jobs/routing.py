"""Commit announcements: their topics, the jobs that they request, and the tables that each task applies to."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neve.jobs.job import REQUESTED_TASKS, Task
from neve.model.levels import LEVELS
from neve.model.signals import SERIES_TABLES, TRACE_TABLES, VOLUME_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


@dataclass(frozen=True)
class Announcement:
    """A commit: its writer, its table, and the added files.

    `window` is the day of its rows (`2026-01-31`), empty if a table has no days. A commit of several days is announced
    once for each. `at` is the commit's own time in milliseconds.
    """

    table: str
    snapshot_id: int
    operation: str
    window: str
    records: int
    files: int
    bytes: int
    at: int

    @property
    def value(self) -> dict[str, Any]:
        """Return the message for the bus; 64-bit numbers are text, since not every JSON reader preserves them."""
        return {**asdict(self), "snapshot_id": str(self.snapshot_id)}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Announcement:
        """Decode a message of the bus; keys of a newer release are ignored."""
        known = {name: value[name] for name in cls.__dataclass_fields__}
        return cls(**{**known, "snapshot_id": int(known["snapshot_id"])})


SEARCHED_TABLES = ("logs", "spans")
ALL_TABLES = ""  # in the place of a table, for a task of all tables at once


def tables_for(task: Task, tables: Sequence[str]) -> list[str]:
    """Return the tables of a lake that a task applies to.

    >>> tables_for(Task.ROLLUP, ["logs", "metrics", "metrics_1m"]), tables_for(Task.AUTOPILOT, ["logs"])
    (['metrics_1m'], [''])
    """
    if task in REQUESTED_TASKS:
        return []
    match task:
        case Task.AUTOPILOT:
            return [ALL_TABLES] if tables else []
        case Task.ROLLUP:
            return [level.table for level in LEVELS if level.table in tables]
        case Task.SEARCH:
            return [name for name in SEARCHED_TABLES if name in tables]
        case Task.SERIES | Task.TRACES:
            by_series = (*SERIES_TABLES.values(), *VOLUME_TABLES.values())
            made = by_series if task is Task.SERIES else TRACE_TABLES.values()
            return [name for name in made if name in tables]
    return list(tables)


INGEST = "ingest"
COMPACT = "compact"
ROLLUP = "rollup"
OTHER = "other"
# Neve's own maintenance commits; jobs for them would cause further commits without end.
MAINTENANCE_OPERATIONS = frozenset(
    {COMPACT, "retention", "deletes", "carry-positions", "manifests", "expire", "autopilot"}
)
SUBJECTS = {"logs": "logs", "metrics": "metrics", "spans": "traces"}
LEVEL_OF = {level.table: level for level in LEVELS}
NEXT_OF = {level.source: level for level in LEVELS}
SEARCHED_TABLE = "logs"  # whose commits request a job; the ids of others wait for the interval
NOT_IN_TOPICS = re.compile(
    r"[^A-Za-z0-9._-]"
)  # characters that topic names can't have; the announcement has the table's own name


def topic_for(operation: str, table: str) -> str:
    """Return the topic of a commit, by its writer and its table.

    >>> topic_for("ingest-stream", "spans"), topic_for("rollup", "metrics_5m"), topic_for("retention", "logs")
    ('ingest.traces', 'rollup.metrics.5m', 'other.logs')
    """
    name = NOT_IN_TOPICS.sub("_", table)
    if operation.partition("-")[0] == INGEST and table in SUBJECTS:
        return f"{INGEST}.{SUBJECTS[table]}"
    if operation == COMPACT:
        return f"{COMPACT}.{name}"
    if operation == ROLLUP and table in LEVEL_OF:
        return f"{ROLLUP}.metrics.{LEVEL_OF[table].name}"
    return f"{OTHER}.{name}"


def list_topics(tables: Iterable[str]) -> list[str]:
    """Return every topic that commits on these tables may be announced on."""
    operations = (INGEST, COMPACT, ROLLUP, OTHER)
    return sorted({topic_for(operation, table) for table in tables for operation in operations})


def find_requested_jobs(announcement: Announcement) -> list[tuple[Task, str, str]]:
    """Return the jobs that a commit requests: task, table and window.

    Rollups, series, traces and the search index detect changes by themselves: their jobs are about the whole table.
    """
    if announcement.operation in MAINTENANCE_OPERATIONS:
        return []
    found: list[tuple[Task, str, str]] = []
    if announcement.files:  # a commit that only removed files leaves nothing to compact
        found.append((Task.COMPACT, announcement.table, announcement.window))
    if announcement.table in NEXT_OF:
        found.append((Task.ROLLUP, NEXT_OF[announcement.table].table, ""))
    if announcement.table == SEARCHED_TABLE:
        found.append((Task.SEARCH, SEARCHED_TABLE, ""))
    for task, made in ((Task.SERIES, SERIES_TABLES), (Task.SERIES, VOLUME_TABLES), (Task.TRACES, TRACE_TABLES)):
        if announcement.table in made:
            found.append((task, made[announcement.table], ""))
    return found
