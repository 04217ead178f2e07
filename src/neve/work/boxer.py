"""The boxer: gathers what is announced on the bus in boxes, and makes a job of each that is full or old enough."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import structlog

from neve.errors import LeaseLost
from neve.work import metrics
from neve.work.announcement import Announcement
from neve.work.box import MOST_SEEN, Box
from neve.work.legible import legible
from neve.work.refusals import WorkUnreadable
from neve.work.routes import wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime

    from neve.lake.bus import Message, Reader
    from neve.lake.documents import Documents
    from neve.work.batch import Batch
    from neve.work.job import Job
    from neve.work.jobs import Jobs
    from neve.work.task import Task

SPACE = "boxes"
AT_ONCE = MOST_SEEN  # all that may come again is known to its box

log = structlog.get_logger(__name__)


class Boxer:
    """Announcements in, jobs out, at least once: each step is taken before what it makes needless is forgotten."""

    def __init__(
        self,
        documents: Documents,
        reader: Reader,
        jobs: Jobs,
        *,
        batch_of: Callable[[Task, str], Batch | None],
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._documents = documents
        self._reader = reader
        self._jobs = jobs
        self._batch_of = batch_of
        self._clock = clock or documents.now

    def turn(self, wait_seconds: float) -> list[Job]:
        """Take what was announced, for at most so long, and hand out what is due; the jobs that came of it."""
        messages = self._reader.take(AT_ONCE, wait_seconds)
        self._gather(self._understood(messages))
        if messages:
            self._done()
        found = [*self._documents.entries(SPACE)]
        jobs = [job for _key, document in found if (job := self._handed_out(document)) is not None]
        metrics.count_boxes(self.boxes())
        return jobs

    def boxes(self) -> list[Box]:
        """What is gathered."""
        return boxes_in(self._documents)

    def _done(self) -> None:
        try:
            self._reader.done()
        except LeaseLost as error:  # it comes again, to a boxer that knows it by heart
            log.warning("announcements come again", error=error.message)

    def _understood(self, messages: Iterable[Message]) -> list[Announcement]:
        found = []
        for message in messages:
            try:
                found.append(_checked(Announcement.of(message.value)))
            except (KeyError, TypeError, ValueError) as error:  # it would come again and again, and stop all others
                metrics.ANNOUNCED.labels("rejected").inc()
                log.warning("not an announcement", topic=message.topic, position=message.position, error=f"{error!r}")
        return found

    def _gather(self, announcements: Sequence[Announcement]) -> None:
        by_subject: dict[tuple[Task, str, str], list[Announcement]] = defaultdict(list)
        for announcement in announcements:
            subjects = [one for one in wanted(announcement) if self._batch_of(one[0], one[1]) is not None]
            metrics.ANNOUNCED.labels("boxed" if subjects else "not_wanted").inc()
            for subject in subjects:
                by_subject[subject].append(announcement)
        for subject, mine in by_subject.items():
            self._put(*subject, mine)

    def _put(self, task: Task, table: str, window: str, announcements: Sequence[Announcement]) -> None:
        now = self._clock()
        empty = Box.empty(task, table, window, now)
        while True:
            document = self._documents.get(SPACE, empty.key)
            known = None if document is None else legible(Box.of, document)
            before = known or empty
            box = before
            for announcement in announcements:
                box = box.folded(announcement, now)
            if box == before or self._documents.swap(SPACE, box.key, document, box.document):
                return

    def _handed_out(self, document: dict[str, object]) -> Job | None:
        box = legible(Box.of, document)
        if box is None:
            return None
        batch = self._batch_of(box.task, box.table)
        if batch is None:
            log.info("box dropped: no policy gathers for it any more", box=box.key, files=box.count)
            self._documents.swap(SPACE, box.key, document, None)
            return None
        reason = box.due(batch, self._clock())
        if reason is None:
            return None
        try:
            job = self._jobs.want(box.task, box.table, box.window, reason=reason)
        except WorkUnreadable:  # the box stays for those who can add to that job
            return None
        # One that was added to meanwhile stays, and makes one job more than needed.
        self._documents.swap(SPACE, box.key, document, None)
        return job


def boxes_in(documents: Documents) -> list[Box]:
    """The boxes of a store, in the order of their keys."""
    found = (legible(Box.of, document) for _key, document in documents.entries(SPACE))
    return [box for box in found if box is not None]


def _checked(announcement: Announcement) -> Announcement:
    numbers = (announcement.records, announcement.files, announcement.bytes, announcement.at)
    texts = (announcement.table, announcement.window, announcement.operation)
    if not all(isinstance(one, int) for one in numbers) or not all(isinstance(one, str) for one in texts):
        raise TypeError(f"{announcement} has texts for numbers, or numbers for texts")
    return announcement
