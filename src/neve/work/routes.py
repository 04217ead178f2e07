"""Which topic a commit is announced on, and which work it asks for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neve.model.rollups import LEVELS
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neve.work.announcement import Announcement

INGEST = "ingest"
COMPACT = "compact"
ROLLUP = "rollup"
OTHER = "other"
# Neve's own commits that tend what others brought; announcing work for them would never end.
TENDING = frozenset({COMPACT, "retention", "deletes", "carry-positions", "manifests", "expire", "autopilot"})
SUBJECTS = {"logs": "logs", "metrics": "metrics", "spans": "traces"}
LEVEL_OF = {level.table: level for level in LEVELS}
NEXT_OF = {level.source: level for level in LEVELS}
SEARCHED = "logs"
ODD = re.compile(r"[^A-Za-z0-9._-]")  # what names of topics do not have; the announcement has the table's own name


def topic_of(operation: str, table: str) -> str:
    """Where a commit is announced: by who made it, and what it is about.

    >>> topic_of("ingest-stream", "spans"), topic_of("rollup", "metrics_5m"), topic_of("retention", "logs")
    ('ingest.traces', 'rollup.metrics.5m', 'other.logs')
    """
    name = ODD.sub("_", table)
    if operation.partition("-")[0] == INGEST and table in SUBJECTS:
        return f"{INGEST}.{SUBJECTS[table]}"
    if operation == COMPACT:
        return f"{COMPACT}.{name}"
    if operation == ROLLUP and table in LEVEL_OF:
        return f"{ROLLUP}.metrics.{LEVEL_OF[table].name}"
    return f"{OTHER}.{name}"


def all_topics(tables: Iterable[str]) -> list[str]:
    """Every topic that commits on these tables may be announced on."""
    operations = (INGEST, COMPACT, ROLLUP, OTHER)
    return sorted({topic_of(operation, table) for table in tables for operation in operations})


def wanted(announcement: Announcement) -> list[tuple[Task, str, str]]:
    """The work that a commit asks for: task, table and window.

    Rollups and the index of words find out by themselves what has changed: theirs is the whole table.
    """
    if announcement.operation in TENDING:
        return []
    found: list[tuple[Task, str, str]] = []
    if announcement.files:  # what was only taken away leaves nothing to be put together
        found.append((Task.COMPACT, announcement.table, announcement.window))
    if announcement.table in NEXT_OF:
        found.append((Task.ROLLUP, NEXT_OF[announcement.table].table, ""))
    if announcement.table == SEARCHED:
        found.append((Task.SEARCH, SEARCHED, ""))
    return found
