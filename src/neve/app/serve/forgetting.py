"""Snapshots of tables that are committed to every few seconds: thousands, before maintenance comes at night."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.errors import LeaseTaken
from neve.maintain.expire import STEP, collects_nothing

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from neve.maintain.config import ExpireConfig
    from neve.maintain.job import Maintainer

SLACK = 1.25  # to forget a few at each turn would cost more than to have them


def is_due(table: Table, config: ExpireConfig) -> bool:
    """Whether a table remembers clearly more snapshots than it should."""
    most = config.max_snapshots
    return bool(most) and len(table.metadata.snapshots) > SLACK * most and not collects_nothing(table)


def forget(maintainer: Maintainer, name: str) -> str:
    """Let the snapshots of a table go that are too many, in words; nothing where there are not.

    What is at work on the table goes first: another time is soon.
    """
    if not is_due(maintainer.lake.table(name), maintainer.config.expire):
        return ""
    try:
        result = maintainer.run(name, [STEP])[-1]
    except LeaseTaken:
        return ""
    return f"; {result.error or result.outcome.reason}"
