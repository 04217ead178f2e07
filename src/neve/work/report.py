"""The report of a job under way: what its handler says is written now and then, and what it is told is heard."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

import structlog

from neve.errors import LakeError, LeaseLost
from neve.work.job import Progress

if TYPE_CHECKING:
    from neve.work.job import Job
    from neve.work.jobs import Jobs

BEAT_SECONDS = 3.0  # how old what others see of a job may be, and how late it hears that it is cancelled
RENEWALS = 3  # in the time of a lease, at least: two may fail before it is lost

log = structlog.get_logger(__name__)


class LiveReport:
    """Keeps a job from being taken for dead while it is entered."""

    def __init__(self, jobs: Jobs, job: Job, *, seconds: float, stop: threading.Event) -> None:
        self.job = job
        self._jobs = jobs
        self._seconds = seconds
        self._stop = stop
        self._progress = Progress()
        self._is_lost = False
        self._renewed = time.monotonic()
        self._ended = threading.Event()
        self._renewer = threading.Thread(target=self._keep, name=f"job {job.id}", daemon=True)

    def progress(self, step: str, done: int, total: int) -> None:
        """Say how far the job is."""
        self._progress = Progress(step, done, total)

    @property
    def cancelled(self) -> bool:
        """Whether to give up soon."""
        return self._is_lost or self.job.cancel or self._stop.is_set()

    def abandon(self) -> None:
        """Renew it no more: the handler, which may not even look, is told to give up."""
        self._is_lost = True
        self._ended.set()

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._renewer.join(self._seconds)  # not for ever: it may wait for a store that does not answer

    def _keep(self) -> None:
        while not self._ended.wait(min(BEAT_SECONDS, self._seconds / RENEWALS)):
            try:
                self.job = self._jobs.renew(self.job, self._seconds, self._progress)
                self._renewed = time.monotonic()
            except LeaseLost as error:
                self._is_lost = True
                log.warning("job lost", job=self.job.id, error=error.message)
                return
            except LakeError as error:
                self._is_lost = self._is_lost or time.monotonic() - self._renewed > self._seconds
                log.warning("job not renewed", job=self.job.id, error=error.message)
