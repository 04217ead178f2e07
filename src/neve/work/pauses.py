"""Pauses: what a person has stopped, of which tables, why, and until when."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from neve.work.job_id import new_id
from neve.work.legible import legible
from neve.work.refusals import WorkMissing
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.lake.documents import Documents

SPACE = "pauses"
FRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Pause:
    """A person's word that some work is not to start. What runs goes on; it can be cancelled."""

    id: str
    task: Task | None  # none: every task
    tables: str  # a pattern, as in `metrics_*`
    by: str
    reason: str
    since: datetime
    until: datetime | None = None  # none: until it is resumed

    def holds(self, task: Task, table: str) -> bool:
        """Whether it is about such work."""
        return self.task in (None, task) and fnmatchcase(table, self.tables)

    @property
    def document(self) -> dict[str, object]:
        """What the store keeps."""
        until = self.until and self.until.isoformat()
        return {**asdict(self), "since": self.since.isoformat(), "until": until}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Pause:
        """From the store; keys that a newer release added mean nothing here."""
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        fields.update(
            task=fields["task"] and Task(fields["task"]),
            since=datetime.fromisoformat(fields["since"]),
            until=fields["until"] and datetime.fromisoformat(fields["until"]),
        )
        return cls(**fields)


Listed = list[Pause]  # inside the class, `list` is how pauses are listed


class Pauses:
    """The pauses of a lake; threads and processes may share them."""

    def __init__(self, documents: Documents, *, fresh_seconds: float = FRESH_SECONDS) -> None:
        self._documents = documents
        self._fresh_seconds = fresh_seconds
        self._known: tuple[float, Listed] = (float("-inf"), [])

    def pause(self, *, task: Task | None, tables: str = "*", by: str, reason: str, until: datetime | None) -> Pause:
        """Let no more work of a task (none: of any) begin on tables of a pattern."""
        now = self._documents.now()
        for key, document in self._documents.entries(SPACE):
            old = legible(Pause.of, document)
            if old is not None and _is_over(old, now):
                self._documents.swap(SPACE, key, document, None)
        pause = Pause(new_id(now), task, tables, by, reason, now, until)
        self._documents.put(SPACE, pause.id, pause.document)
        self._forget()
        return pause

    def resume(self, pause_id: str) -> Pause:
        """End a pause; raises `WorkMissing` where it is over, or never was."""
        found = next((pause for pause in self.list() if pause.id == pause_id), None)
        if found is None:
            raise WorkMissing(
                f"there is no pause {pause_id!r}", hint="it may be over; `neve status` shows those in force"
            )
        self._documents.delete(SPACE, pause_id)
        self._forget()
        return found

    def list(self) -> Listed:
        """Those in force, the oldest first."""
        now = self._documents.now()
        every = (legible(Pause.of, document) for _key, document in self._documents.entries(SPACE))
        return [pause for pause in every if pause is not None and not _is_over(pause, now)]

    def found(self, task: Task, table: str) -> Pause | None:
        """The pause that such work waits for, if any; as it was a moment ago, since it is asked for every job."""
        return next((pause for pause in self._recent() if pause.holds(task, table)), None)

    def _recent(self) -> Listed:
        read_at, pauses = self._known
        if time.monotonic() - read_at > self._fresh_seconds:
            read_at, pauses = self._known = time.monotonic(), self.list()
        return pauses

    def _forget(self) -> None:
        self._known = (float("-inf"), [])


def _is_over(pause: Pause, now: datetime) -> bool:
    return pause.until is not None and pause.until <= now
