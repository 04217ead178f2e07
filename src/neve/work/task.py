"""The kinds of work that tend a lake."""

from __future__ import annotations

from enum import StrEnum


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


URGENCY = (Task.ROLLUP, Task.SEARCH, Task.COMPACT, Task.MAINTAIN, Task.AUTOPILOT)
