"""A reader of the bus in the state store: it holds topics for its group, and the hold ends by itself."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Self
from uuid import uuid4

import structlog
from sqlalchemy import update

from neve.errors import LakeError, LeaseLost
from neve.lake.bus_holds import NOBODY
from neve.lake.sql_bus_tables import (
    HOLDS,
    ends_of,
    held_at,
    holds_of,
    locked,
    messages_after,
    now_of,
    start_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from neve.lake.bus import Message
    from neve.lake.bus_holds import Hold
    from neve.lake.sql_bus_tables import BusTables

PAUSE_SECONDS = 0.2  # between two looks for messages

log = structlog.get_logger(__name__)


class SqlReader:
    """One member of a group. It has the topics that no other member holds, from the first time that it takes."""

    def __init__(self, tables: BusTables, group: str, topics: Sequence[str], hold_seconds: float) -> None:
        self._tables, self._group, self._topics = tables, group, tuple(topics)
        self._whole = timedelta(seconds=hold_seconds)
        self._me = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        # Of the topics that are held: the position that the store has, and the one after which this reader goes on.
        self._done: dict[str, int] = {}
        self._taken: dict[str, int] = {}
        self._has_held = False
        self._lost: set[str] = set()  # topics of which something was taken that others get again

    def take(self, limit: int, wait_seconds: float = 0.0) -> list[Message]:
        """The next messages of the topics that this reader has, at most so many."""
        until = time.monotonic() + wait_seconds
        while True:
            self._hold()
            messages = self._next(limit)
            left = until - time.monotonic()
            if messages or left <= 0:
                return messages
            time.sleep(min(PAUSE_SECONDS, left))

    def done(self) -> None:
        """The group goes on after what was taken; `LeaseLost`, and nothing is changed, where others get some again."""
        moves = {topic: taken for topic, taken in self._taken.items() if taken > self._done[topic]}
        try:
            if self._lost:
                raise self._lost_to_others(sorted(self._lost))
            if moves:
                self._move(moves)
        except LeaseLost:
            # What is still held is read again from where the group is.
            self._forget(tuple(self._taken))
            self._lost.clear()
            raise
        self._done |= moves

    def lag(self) -> dict[str, int]:
        """How many messages of each topic the group has not dealt with; nothing is held for this."""
        if not self._tables.exists:
            return dict.fromkeys(self._topics, 0)
        with self._tables.reading() as connection:
            holds = holds_of(connection, self._group, self._topics)
            ends = ends_of(connection, self._topics)
            starts = {topic: start_of(connection, topic) for topic in self._topics}
        lags = {}
        for topic, start in sorted(starts.items()):
            dealt = holds[topic].position if topic in holds else 0
            # One that was published since the ends were looked up has an end of its own.
            lags[topic] = 0 if start is None else max(0, ends.get(topic, start) - max(dealt, start - 1))
        return lags

    def close(self) -> None:
        """Give back the topics that are held."""
        self._forget(tuple(self._taken))
        self._lost.clear()
        if not self._has_held:  # it only looked
            return
        mine = (HOLDS.c.group == self._group) & (HOLDS.c.owner == self._me)
        try:
            with self._tables.writing() as connection:
                connection.execute(update(HOLDS).where(mine).values(owner=NOBODY))
        except LakeError as error:  # they end by themselves
            log.warning("topics not given back", group=self._group, error=error.message)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def _hold(self) -> None:
        """Take topics that are free, renew those that are ours, and notice those that no longer are."""
        with self._tables.reading() as connection:
            now = now_of(connection)
            holds = holds_of(connection, self._group, self._topics)
        self._lose(topic for topic in self._taken if topic not in holds or holds[topic].owner != self._me)
        due = [topic for topic in self._topics if self._is_due(topic, holds.get(topic), now)]
        if due:
            self._acquire(due)

    def _is_due(self, topic: str, hold: Hold | None, now: datetime) -> bool:
        if hold is None or hold.is_free(now):
            return True
        return hold.owner == self._me and (topic not in self._taken or hold.is_worn(now, self._whole))

    def _acquire(self, topics: Iterable[str]) -> None:
        """Hold topics for the whole time from now, those that may be ours."""
        self._has_held = True
        with self._tables.writing() as connection:
            now = now_of(connection)
            found = [locked(connection, self._group, topic, now) for topic in sorted(topics)]
            ours = [hold for hold in found if hold.may_be_of(self._me, now)]
            for hold in ours:
                values = {"owner": self._me, "until": now + self._whole}
                connection.execute(update(HOLDS).where(held_at(self._group, hold.topic)).values(values))
        self._lose(hold.topic for hold in found if hold.owner != self._me)
        for hold in ours:
            if hold.owner not in {NOBODY, self._me}:
                log.warning("topic taken over", group=self._group, topic=hold.topic, before=hold.owner)
            if hold.topic not in self._taken:
                self._done[hold.topic] = self._taken[hold.topic] = hold.position

    def _next(self, limit: int) -> list[Message]:
        found: list[Message] = []
        if not self._taken:
            return found
        with self._tables.reading() as connection:
            ends = ends_of(connection, self._topics)
            news = [topic for topic in self._topics if topic in self._taken and ends.get(topic, 0) > self._taken[topic]]
            for topic in news:
                if len(found) < limit:
                    found += messages_after(connection, topic, self._taken[topic], limit - len(found))
        for message in found:
            self._taken[message.topic] = int(message.position)
        if found:  # a topic that never ends is not to keep the others waiting
            self._topics = (*self._topics[1:], self._topics[0])
        return found

    def _move(self, moves: dict[str, int]) -> None:
        with self._tables.writing() as connection:
            until = now_of(connection) + self._whole
            for topic, position in sorted(moves.items()):
                ours = held_at(self._group, topic) & (HOLDS.c.owner == self._me)
                moved = connection.execute(update(HOLDS).where(ours).values(position=position, until=until))
                if moved.rowcount != 1:
                    raise self._lost_to_others([topic])

    def _lose(self, topics: Iterable[str]) -> None:
        """Topics that may be others' by now."""
        gone = [topic for topic in topics if topic in self._taken]
        self._lost.update(topic for topic in gone if self._taken[topic] > self._done[topic])
        self._forget(gone)

    def _forget(self, topics: Iterable[str]) -> None:
        for topic in topics:
            del self._done[topic], self._taken[topic]

    def _lost_to_others(self, topics: Sequence[str]) -> LeaseLost:
        return LeaseLost(
            f"a reader of group {self._group!r} was silent for more than {self._whole.total_seconds():g} s and lost "
            f"{', '.join(topics)}: what it took of it is handed out again",
            hint="take fewer messages at once, or raise bus.hold_seconds",
        )
