"""Jobs that have ended, the latest first: those that are done with, and those that wait for a person."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from neve.work.job import Job, JobState
from neve.work.job_document import Record
from neve.work.job_id import backwards, is_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from neve.lake.documents import Documents

SPACE = "jobs"
# Apart, so that the few that matter are found without reading the many that do not.
PLACES = {JobState.DONE: "ended", JobState.CANCELLED: "ended", JobState.DEAD: "dead"}


class History:
    """The jobs of a store that have ended."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def keep(self, job: Job) -> None:
        """Keep a job that has ended, in the place of what it had come to before it was replayed."""
        self._documents.put(SPACE, _key(PLACES[job.state], job.id), Record(job).document)
        for place in set(PLACES.values()) - {PLACES[job.state]}:
            self._documents.delete(SPACE, _key(place, job.id))

    def find(self, job_id: str) -> Job | None:
        """A job by its id, or none."""
        if not is_id(job_id):
            return None
        for place in sorted(set(PLACES.values())):
            document = self._documents.get(SPACE, _key(place, job_id))
            if document is not None:
                return Record.of(document).job
        return None

    def forget(self, job: Job) -> None:
        """Forget a job, unless it has come to another end since."""
        key = _key(PLACES[job.state], job.id)
        document = self._documents.get(SPACE, key)
        if document is not None and Record.of(document).job == job:
            self._documents.swap(SPACE, key, document, None)

    def jobs(self, states: Iterable[JobState]) -> list[Iterator[Job]]:
        """The places where jobs of such states are, each read only as far as it is looked at."""
        places = sorted({PLACES[state] for state in states if state in PLACES})
        return [self._within(place) for place in places]

    def counts(self) -> Counter[JobState]:
        """How many there are in each state."""
        every = (self._documents.entries(SPACE, f"{place}/") for place in sorted(set(PLACES.values())))
        return Counter(JobState(str(document["state"])) for place in every for _key, document in place)

    def prune(self, before: datetime, most: int) -> list[Job]:
        """Forget what ended before a time, and of what is done with all but the latest; what was forgotten."""
        gone: list[Job] = []
        for place in sorted(set(PLACES.values())):
            for number, job in enumerate(self._within(place)):
                is_old = job.ended is not None and job.ended < before
                is_much = number >= most and job.state is not JobState.DEAD
                if is_old or is_much:
                    self.forget(job)
                    gone.append(job)
        return gone

    def _within(self, place: str) -> Iterator[Job]:
        for _key, document in self._documents.entries(SPACE, f"{place}/"):
            yield Record.of(document).job


def _key(place: str, job_id: str) -> str:
    return f"{place}/{backwards(job_id)}"
