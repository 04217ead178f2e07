"""Which messages of the state store's bus nobody needs any more, and their removal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import delete, select

from neve.lake.sql_bus_tables import HOLDS, MESSAGES, TOPICS, ends_of, held_at, now_of, start_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy import Connection

    from neve.lake.sql_bus_tables import BusTables

# Times keep_seconds: for so long a group that is behind keeps its messages, and one that never reads is remembered.
PATIENCE = 7

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Ages:
    """What a topic has: its oldest message, the last that is old, and the last that is too old to wait for anyone."""

    start: int
    old: int
    too_old: int


@dataclass(frozen=True)
class Cut:
    """What is removed of a topic: all up to a position, and how many of them each group has not dealt with."""

    upto: int
    losses: dict[str, int]


def decide(ages: Ages, groups: Mapping[str, int]) -> Cut:
    """What can be removed, where groups have dealt with messages up to these positions.

    >>> decide(Ages(start=1, old=8, too_old=2), {"a": 5, "b": 9})
    Cut(upto=5, losses={})
    >>> decide(Ages(start=1, old=8, too_old=7), {"a": 5, "b": 9})
    Cut(upto=7, losses={'a': 2})
    """
    upto = max(ages.too_old, min([ages.old, *groups.values()]))
    behind = {group: upto - max(position, ages.start - 1) for group, position in groups.items()}
    return Cut(upto, {group: lost for group, lost in sorted(behind.items()) if lost > 0})


def trim(tables: BusTables, keep_seconds: float) -> None:
    """Remove what nobody needs, topic by topic; a group that loses messages is named in the log."""
    keep = timedelta(seconds=keep_seconds)
    with tables.reading() as connection:
        topics = list(connection.scalars(select(TOPICS.c.topic).order_by(TOPICS.c.topic)))
    for topic in topics:
        with tables.writing() as connection:
            _trim(connection, topic, keep)


def _trim(connection: Connection, topic: str, keep: timedelta) -> None:
    now = now_of(connection)
    start = start_of(connection, topic)
    if start is None:
        return
    old, too_old = (_last_before(connection, topic, now - age) for age in (keep, keep * PATIENCE))
    cut = decide(Ages(start, old, too_old), _groups(connection, topic, now - keep * PATIENCE))
    for group, lost in cut.losses.items():
        log.warning("a group lost messages that it never read", group=group, topic=topic, messages=lost)
    if cut.upto >= start:
        gone = (MESSAGES.c.topic == topic) & (MESSAGES.c.position <= cut.upto)
        connection.execute(delete(MESSAGES).where(gone))


def _last_before(connection: Connection, topic: str, moment: datetime) -> int:
    """The position after which the first message of a topic comes that is not older than a moment."""
    end = ends_of(connection, [topic])[topic]  # looked up first: what is published meanwhile comes after it
    young = (MESSAGES.c.topic == topic) & (MESSAGES.c.at >= moment)
    first = connection.scalar(select(MESSAGES.c.position).where(young).order_by(MESSAGES.c.position).limit(1))
    return end if first is None else int(first) - 1


def _groups(connection: Connection, topic: str, silent_since: datetime) -> dict[str, int]:
    """How far each group is; those that have not read for so long are forgotten, which is said."""
    groups = {}
    for row in connection.execute(select(HOLDS).where(HOLDS.c.topic == topic)).all():
        if row.until < silent_since:
            log.warning("a group that no longer reads is forgotten", group=row.group, topic=topic, until=row.until)
            connection.execute(delete(HOLDS).where(held_at(row.group, topic) & (HOLDS.c.until == row.until)))
        else:
            groups[row.group] = row.position
    return groups
