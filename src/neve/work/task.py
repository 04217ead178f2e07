"""The kinds of work that tend a lake."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Task(StrEnum):
    """One kind of work."""

    COMPACT = "compact"  # of a table, or of a window of it
    MAINTAIN = "maintain"  # of a table: every step of a round
    ROLLUP = "rollup"  # into a level; its table is the one that is written
    SEARCH = "search"  # of a table: the index of its words
    AUTOPILOT = "autopilot"  # of all tables together

    @property
    def rank(self) -> int:
        """How many kinds of work are more urgent: what is read first comes first.

        >>> Task.ROLLUP.rank < Task.MAINTAIN.rank
        True
        """
        return URGENCY.index(self)

    @property
    def is_short(self) -> bool:
        """Whether it is done in seconds, but for the first time."""
        return self in {Task.ROLLUP, Task.SEARCH}


URGENCY = (Task.ROLLUP, Task.SEARCH, Task.COMPACT, Task.MAINTAIN, Task.AUTOPILOT)


def shared_out(tasks: Collection[Task], workers: int) -> list[tuple[Task, ...]]:
    """The tasks of each worker: all of them, but one that never begins anything long, so that what is urgent gets on.

    >>> [[task.value for task in tasks] for tasks in shared_out([Task.ROLLUP, Task.COMPACT], 2)]
    [['rollup', 'compact'], ['rollup']]
    """
    every, short = tuple(tasks), tuple(task for task in tasks if task.is_short)
    kept_free = 1 if workers > 1 and short else 0
    return [*([every] * (workers - kept_free)), *([short] * kept_free)]
