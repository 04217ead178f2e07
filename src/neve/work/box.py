"""A box: what was announced of a table and a window since work was last handed out for it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.work.batch import MB
from neve.work.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neve.work.announcement import Announcement
    from neve.work.batch import Batch

# What a bus hands out again is what was taken last; this many are known by heart.
MOST_SEEN = 256
EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Box:
    """Announcements that one job will be about; `count` is that of files, and times are those of the commits."""

    task: Task
    table: str
    window: str
    first_at: datetime
    last_at: datetime
    count: int = 0
    bytes: int = 0
    records: int = 0
    seen: tuple[str, ...] = ()

    @classmethod
    def empty(cls, task: Task, table: str, window: str, now: datetime) -> Box:
        """A box with nothing in it."""
        return cls(task, table, window, first_at=now, last_at=now)

    @property
    def key(self) -> str:
        """Where the store keeps it."""
        return f"{self.task}/{self.table}/{self.window}"

    def folded(self, announcement: Announcement, now: datetime) -> Box:
        """With one more announcement; one that is in it already changes nothing."""
        # A commit that touched several days is announced for each, and a box may be about all of them.
        name = f"{announcement.snapshot_id}/{announcement.window}"
        if name in self.seen:
            return self
        # A clock that is ahead must not keep the box open.
        at = EPOCH + min(max(announcement.at, 0), (now - EPOCH) // MILLISECOND) * MILLISECOND
        return replace(
            self,
            first_at=min(self.first_at, at) if self.seen else at,
            last_at=max(self.last_at, at) if self.seen else at,
            count=self.count + announcement.files,
            bytes=self.bytes + announcement.bytes,
            records=self.records + announcement.records,
            seen=(*self.seen, name)[-MOST_SEEN:],
        )

    def due(self, batch: Batch, now: datetime) -> str | None:
        """Why it is time to hand out work for it, in words; none where it is not."""
        age = max((now - self.first_at).total_seconds(), 0.0)
        files = "1 file" if self.count == 1 else f"{self.count} files"
        gathered = f"{files} of {self.bytes / MB:.1f} MB in {age:.0f} s"
        if self.count >= batch.count:
            return f"{gathered}: batch.count is {batch.count}"
        if self.bytes >= batch.bytes:
            return f"{gathered}: batch.bytes is {batch.bytes / MB:.1f} MB"
        if age >= batch.age_seconds:
            return f"{gathered}: batch.age_seconds is {batch.age_seconds:g}"
        return None

    @property
    def document(self) -> dict[str, object]:
        """What the store keeps."""
        times = {"first_at": self.first_at.isoformat(), "last_at": self.last_at.isoformat()}
        return {**asdict(self), **times, "seen": [*self.seen]}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Box:
        """From the store; keys that a newer release added mean nothing here."""
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        fields.update(
            task=Task(fields["task"]),
            first_at=datetime.fromisoformat(fields["first_at"]),
            last_at=datetime.fromisoformat(fields["last_at"]),
            seen=tuple(fields["seen"]),
        )
        return cls(**fields)
