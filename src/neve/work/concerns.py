"""Which tables a task is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.model.rollups import LEVELS
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Sequence

SEARCHED = ("logs",)
ALL_TABLES = ""  # in the place of a table, where a task is about all of them at once


def tables_for(task: Task, tables: Sequence[str]) -> list[str]:
    """Of a lake's tables, those that a task is about.

    >>> tables_for(Task.ROLLUP, ["logs", "metrics", "metrics_1m"]), tables_for(Task.AUTOPILOT, ["logs"])
    (['metrics_1m'], [''])
    """
    match task:
        case Task.AUTOPILOT:
            return [ALL_TABLES] if tables else []
        case Task.ROLLUP:
            return [level.table for level in LEVELS if level.table in tables]
        case Task.SEARCH:
            return [name for name in SEARCHED if name in tables]
    return list(tables)
