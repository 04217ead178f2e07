"""Batcher: collect commit announcements in pending batches by task, table and window.

A batch becomes a job when it is full or old enough. Delivery is at least once: a job is requested before its batch is
deleted, and a batch remembers the announcements in it, so that a repeated one changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from neve.errors import LeaseLost
from neve.jobs import metrics
from neve.jobs.job import Task, WorkUnreadable
from neve.jobs.record import decode_or_skip
from neve.jobs.routing import Announcement, find_requested_jobs
from neve.logger import get_logger
from neve.text import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from neve.jobs.job import Job
    from neve.jobs.policy import Batch
    from neve.jobs.queue import JobQueue
    from neve.state.bus import Message, Reader
    from neve.state.documents import Documents


# A bus redelivers the latest messages; the ids of this many are stored.
MAX_SEEN = 256
EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class PendingBatch:
    """Announcements for one job; `count` is the number of files, and times are those of the commits."""

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
    def empty(cls, task: Task, table: str, window: str, now: datetime) -> PendingBatch:
        """Return an empty batch."""
        return cls(task, table, window, first_at=now, last_at=now)

    @property
    def key(self) -> str:
        """The key in the state store."""
        return f"{self.task}/{self.table}/{self.window}"

    def add(self, announcement: Announcement, now: datetime) -> PendingBatch:
        """Return the batch with one more announcement; an announcement that it already has changes nothing."""
        # A commit of several days is announced for each, and a batch may contain all of them.
        name = f"{announcement.snapshot_id}/{announcement.window}"
        if name in self.seen:
            return self
        # A clock that is ahead must not keep the batch open.
        at = EPOCH + min(max(announcement.at, 0), (now - EPOCH) // MILLISECOND) * MILLISECOND
        return replace(
            self,
            first_at=min(self.first_at, at) if self.seen else at,
            last_at=max(self.last_at, at) if self.seen else at,
            count=self.count + announcement.files,
            bytes=self.bytes + announcement.bytes,
            records=self.records + announcement.records,
            seen=(*self.seen, name)[-MAX_SEEN:],
        )

    def due(self, batch: Batch, now: datetime) -> str | None:
        """Return the reason why the batch is due, or none if it is not."""
        age = max((now - self.first_at).total_seconds(), 0.0)
        gathered = f"{format_count(self.count, 'file')} of {format_bytes(self.bytes)} in {format_duration(age)}"
        if self.count >= batch.count:
            return f"{gathered}: batch.count is {batch.count}"
        if self.bytes >= batch.bytes:
            return f"{gathered}: batch.bytes is {format_bytes(batch.bytes)}"
        if age >= batch.age_seconds:
            return f"{gathered}: batch.age_seconds is {batch.age_seconds:g}"
        return None

    @property
    def document(self) -> dict[str, object]:
        """Return the document for the store."""
        times = {"first_at": self.first_at.isoformat(), "last_at": self.last_at.isoformat()}
        return {**asdict(self), **times, "seen": [*self.seen]}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PendingBatch:
        """Decode a document of the store; keys of a newer release are ignored."""
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        fields.update(
            task=Task(fields["task"]),
            first_at=datetime.fromisoformat(fields["first_at"]),
            last_at=datetime.fromisoformat(fields["last_at"]),
            seen=tuple(fields["seen"]),
        )
        return cls(**fields)


SPACE = "boxes"
MAX_MESSAGES = MAX_SEEN  # the batch stores the id of every message that may be redelivered

log = get_logger(__name__)


class PendingBatches:
    """The pending batches of a store that processes share. Each step is stored before its input is deleted."""

    def __init__(
        self,
        documents: Documents,
        *,
        batch_of: Callable[[Task, str], Batch | None],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._documents = documents
        self._batch_of = batch_of
        self._clock = clock or documents.now

    def add(self, announcements: Sequence[Announcement]) -> None:
        """Store announcements in the batches of the jobs that they request; a repeated one changes nothing."""
        by_subject: dict[tuple[Task, str, str], list[Announcement]] = defaultdict(list)
        for announcement in announcements:
            subjects = [one for one in find_requested_jobs(announcement) if self._batch_of(one[0], one[1]) is not None]
            metrics.ANNOUNCED.labels("boxed" if subjects else "not_wanted").inc()
            for subject in subjects:
                by_subject[subject].append(announcement)
        for subject, mine in by_subject.items():
            self._store(*subject, mine)

    def request_jobs(self, jobs: JobQueue) -> list[Job]:
        """Request the jobs of due batches, and return those jobs."""
        found = [*self._documents.entries(SPACE)]
        requested = [job for _key, document in found if (job := self._request_job(jobs, document)) is not None]
        metrics.update_pending(load_pending(self._documents))
        return requested

    def _store(self, task: Task, table: str, window: str, announcements: Sequence[Announcement]) -> None:
        now = self._clock()
        empty = PendingBatch.empty(task, table, window, now)
        while True:
            document = self._documents.get(SPACE, empty.key)
            known = None if document is None else decode_or_skip(PendingBatch.of, document)
            before = known or empty
            pending = before
            for announcement in announcements:
                pending = pending.add(announcement, now)
            if pending == before or self._documents.swap(SPACE, pending.key, document, pending.document):
                return

    def _request_job(self, jobs: JobQueue, document: dict[str, object]) -> Job | None:
        pending = decode_or_skip(PendingBatch.of, document)
        if pending is None:
            return None
        batch = self._batch_of(pending.task, pending.table)
        if batch is None:
            log.info("pending batch dropped: no policy requests it any more", batch=pending.key, files=pending.count)
            self._documents.swap(SPACE, pending.key, document, None)
            return None
        reason = pending.due(batch, self._clock())
        if reason is None:
            return None
        try:
            job = jobs.request(pending.task, pending.table, pending.window, reason=reason)
        except WorkUnreadable:  # the batch stays for a release that can read that job
            return None
        # A batch that was changed meanwhile stays, and causes one job more than needed.
        self._documents.swap(SPACE, pending.key, document, None)
        return job


class Batcher:
    """Reader of announcements on a bus, at least once: they are stored in batches before they are acknowledged."""

    def __init__(self, reader: Reader, pending: PendingBatches, jobs: JobQueue) -> None:
        self._reader = reader
        self._pending = pending
        self._jobs = jobs

    def turn(self, wait_seconds: float) -> list[Job]:
        """Collect announcements until the timeout, request the jobs of due batches, and return those jobs."""
        messages = self._reader.take(MAX_MESSAGES, wait_seconds)
        self._pending.add(self._parse_announcements(messages))
        if messages:
            self._acknowledge()
        return self._pending.request_jobs(self._jobs)

    def _acknowledge(self) -> None:
        try:
            self._reader.acknowledge()
        except LeaseLost as error:  # it is redelivered to a batcher that recognizes it
            log.warning("announcements will be delivered again", error=error.message)

    def _parse_announcements(self, messages: Iterable[Message]) -> list[Announcement]:
        found = []
        for message in messages:
            try:
                found.append(_check_types(Announcement.of(message.value)))
            except (KeyError, TypeError, ValueError) as error:  # it would be redelivered forever, and block all others
                metrics.ANNOUNCED.labels("rejected").inc()
                log.warning(
                    "invalid announcement skipped", topic=message.topic, position=message.position, error=f"{error!r}"
                )
        return found


def load_pending(documents: Documents) -> list[PendingBatch]:
    """Load the pending batches of a store, in the order of their keys."""
    found = (decode_or_skip(PendingBatch.of, document) for _key, document in documents.entries(SPACE))
    return [pending for pending in found if pending is not None]


def _check_types(announcement: Announcement) -> Announcement:
    numbers = (announcement.records, announcement.files, announcement.bytes, announcement.at)
    texts = (announcement.table, announcement.window, announcement.operation)
    if not all(isinstance(one, int) for one in numbers) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"{announcement} has fields of a wrong type")
    return announcement
