"""Pauses: tasks and tables whose jobs an operator has stopped from starting, with the reason and the end."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from neve.jobs.job import Task, WorkNotFound
from neve.jobs.record import decode_or_skip, new_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.state.documents import Documents

SPACE = "pauses"
FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Pause:
    """An operator's order that some jobs must not start; running jobs continue, and can be cancelled."""

    id: str
    task: Task | None  # none: every task
    tables: str  # a pattern, as in `metrics_*`
    by: str
    reason: str
    since: datetime
    until: datetime | None = None  # none: until it is resumed

    def holds(self, task: Task, table: str) -> bool:
        """Return whether the pause applies to a task of a table."""
        return self.task in (None, task) and fnmatchcase(table, self.tables)

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        until = self.until and self.until.isoformat()
        return {**asdict(self), "since": self.since.isoformat(), "until": until}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Pause:
        """Decode a document of the store; keys of a newer release are ignored."""
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        fields.update(
            task=fields["task"] and Task(fields["task"]),
            since=datetime.fromisoformat(fields["since"]),
            until=fields["until"] and datetime.fromisoformat(fields["until"]),
        )
        return cls(**fields)


PauseList = list[Pause]  # inside the class, `list` is the method that lists pauses


class Pauses:
    """The pauses of a lake; threads and processes may share them."""

    def __init__(self, documents: Documents, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._documents = documents
        self._fresh_seconds = fresh_seconds
        self._known: tuple[float, PauseList] = (float("-inf"), [])

    def pause(self, *, task: Task | None, tables: str = "*", by: str, reason: str, until: datetime | None) -> Pause:
        """Prevent new jobs of a task (none: of any) on the tables of a pattern."""
        now = self._documents.now()
        for key, document in self._documents.entries(SPACE):
            old = decode_or_skip(Pause.of, document)
            if old is not None and _is_over(old, now):
                self._documents.swap(SPACE, key, document, None)
        pause = Pause(new_id(now), task, tables, by, reason, now, until)
        self._documents.put(SPACE, pause.id, pause.document)
        self._forget()
        return pause

    def resume(self, pause_id: str) -> Pause:
        """End a pause; raises `WorkNotFound` if it has ended or never existed."""
        found = next((pause for pause in self.list() if pause.id == pause_id), None)
        if found is None:
            raise WorkNotFound(
                f"there is no pause {pause_id!r}", hint="it may have ended; run `neve status` to see the current pauses"
            )
        self._documents.delete(SPACE, pause_id)
        self._forget()
        return found

    def list(self) -> PauseList:
        """Return the pauses in force, the oldest first."""
        now = self._documents.now()
        every = (decode_or_skip(Pause.of, document) for _key, document in self._documents.entries(SPACE))
        return [pause for pause in every if pause is not None and not _is_over(pause, now)]

    def find(self, task: Task, table: str) -> Pause | None:
        """Return the pause that applies to a task of a table, if any.

        It is read from a cache with a short TTL, since it is checked for every job.
        """
        return next((pause for pause in self._recent() if pause.holds(task, table)), None)

    def _recent(self) -> PauseList:
        read_at, pauses = self._known
        if time.monotonic() - read_at > self._fresh_seconds:
            read_at, pauses = self._known = time.monotonic(), self.list()
        return pauses

    def _forget(self) -> None:
        self._known = (float("-inf"), [])


def _is_over(pause: Pause, now: datetime) -> bool:
    return pause.until is not None and pause.until <= now
