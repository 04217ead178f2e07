"""A worker: claims one job after another, runs its handler, renews its claim by heartbeats, and records the outcome."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from neve.errors import LakeError, LeaseLost, LeaseTaken, NeveError
from neve.jobs import metrics
from neve.jobs.job import Job, Progress
from neve.logger import get_logger

if TYPE_CHECKING:
    from neve.jobs.job import Task
    from neve.jobs.queue import JobQueue


@dataclass(frozen=True)
class Outcome:
    """The result of a job: a description with its reason, and numbers for programs."""

    words: str
    result: Mapping[str, object] = field(default_factory=dict)


class JobReporter(Protocol):
    """The channel between a handler and its worker."""

    def progress(self, step: str, done: int, total: int) -> None:
        """Report the progress; calls are cheap, because it is written only now and then."""

    @property
    def is_cancelled(self) -> bool:
        """True if the handler should stop soon: the job was cancelled or lost, or the process has to end."""


Handler = Callable[[Job, JobReporter], Outcome]


BEAT_SECONDS = 3.0  # maximum age of the visible progress, and delay until a job notices that it is cancelled
RENEWALS = 3  # per lease, at least: two may fail before it is lost

log = get_logger(__name__)


class HeartbeatReporter:
    """Heartbeats of a job while the block runs."""

    def __init__(self, jobs: JobQueue, job: Job, *, seconds: float, stop: threading.Event) -> None:
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
        """Report the progress of the job."""
        self._progress = Progress(step, done, total)

    @property
    def is_cancelled(self) -> bool:
        """True if the handler should stop soon."""
        return self._is_lost or self.job.cancel or self._stop.is_set()

    def abandon(self) -> None:
        """Stop the heartbeats, and request the handler to stop, although it may not check that."""
        self._is_lost = True
        self._ended.set()

    def __enter__(self) -> Self:
        self._renewer.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ended.set()
        self._renewer.join(self._seconds)  # with a timeout: it may wait for a store that does not respond

    def _keep(self) -> None:
        while not self._ended.wait(min(BEAT_SECONDS, self._seconds / RENEWALS)):
            try:
                self.job = self._jobs.renew(self.job, self._seconds, self._progress)
                self._renewed = time.monotonic()
            except LeaseLost as error:
                self._is_lost = True
                log.warning("lease of a job lost", job=self.job.id, error=error.message)
                return
            except LakeError as error:
                self._is_lost = self._is_lost or time.monotonic() - self._renewed > self._seconds
                log.warning("job not renewed", job=self.job.id, error=error.message)


@dataclass
class Worker:
    """One thread that runs jobs; its owner name is unique among all workers of all processes.

    `allowed` returns the reason why a job must wait, if it must. `ended` is called with every job that this worker had,
    whatever its outcome. `engine_is_gone` is called after a failed job, and may be slow: without an engine every job
    would fail.
    """

    jobs: JobQueue
    handlers: Mapping[Task, Handler]
    _: KW_ONLY
    owner: str
    lease_seconds: float = 20  # delay until the job of a killed worker is claimed again
    idle_seconds: float = 1.0
    allowed: Callable[[Job], str | None] = field(default=lambda _job: None)
    ended: Callable[[Job], None] = field(default=lambda _job: None)
    engine_is_gone: Callable[[], bool] = field(default=lambda: False)
    _report: HeartbeatReporter | None = field(default=None, init=False)
    _has_no_engine: bool = field(default=False, init=False)

    @property
    def job(self) -> Job | None:
        """The current job, if any."""
        report = self._report
        return report.job if report else None

    def run(self, stop: threading.Event) -> None:
        """Run jobs until `stop` is set; neither a failed job nor an unavailable store ends it.

        Without an engine it claims no more jobs: they wait for a process that has one.
        """
        while not stop.is_set():
            job = None if self._has_no_engine else self._claim()
            if job is None:
                stop.wait(self.idle_seconds)
            else:
                self._work(job, stop)

    def release(self) -> Job | None:
        """Release the current job of a worker that should stop and does not end in time.

        The thread that waits for the worker calls it. The handler may still run, so the process must end before
        another worker has got far with the job.
        """
        report = self._report
        if report is None:
            return None
        report.abandon()
        return self._record(report.job, self.jobs.release)

    def _claim(self) -> Job | None:
        try:
            return self.jobs.claim(self.owner, tuple(self.handlers), self.lease_seconds, self.allowed)
        except NeveError as error:
            log.warning("claiming a job failed", worker=self.owner, error=error.message, hint=error.hint)
            return None

    def _work(self, job: Job, stop: threading.Event) -> None:
        log.info("job started", job=job.id, subject=job.subject, reason=job.reason, attempt=job.attempts)
        began = time.monotonic()
        with HeartbeatReporter(self.jobs, job, seconds=self.lease_seconds, stop=stop) as report:
            self._report = report
            record, is_run = self._handle(job, report)
        ended = self._record(report.job, record)
        self._report = None
        seconds = time.monotonic() - began
        if is_run:
            metrics.count_attempt(ended, seconds)
        log.info("job ended", job=ended.id, state=ended.state.value, outcome=ended.outcome, seconds=round(seconds, 3))
        try:
            self.ended(ended)
        except Exception:
            log.exception("callback after a job failed", job=ended.id, subject=ended.subject)

    def _handle(self, job: Job, report: JobReporter) -> tuple[Callable[[Job], Job], bool]:
        """Run the handler; return the function that records the outcome, and whether it was a run at all."""
        try:
            outcome = self.handlers[job.task](job, report)
        except Exception as error:
            if report.is_cancelled:  # whatever the error, a stop was requested
                log.info("job stopped as requested", job=job.id, subject=job.subject, error=str(error))
                return self.jobs.release, True
            failure = error
            if isinstance(error, LeaseTaken):
                log.info(
                    "job returned to the queue, another worker has its table",
                    job=job.id,
                    subject=job.subject,
                    error=error.message,
                )
                return lambda held: self.jobs.fail(held, failure), False
            if self.engine_is_gone():
                self._has_no_engine = True
                log.error(
                    "job returned to the queue, there is no engine", job=job.id, subject=job.subject, error=str(error)
                )
                return self.jobs.release, False
            is_known = isinstance(error, NeveError)
            log.warning("job failed", job=job.id, subject=job.subject, error=str(error), exc_info=not is_known)
            return lambda held: self.jobs.fail(held, failure), True
        return lambda held: self.jobs.finish(held, outcome.words, outcome.result), True

    def _record(self, job: Job, record: Callable[[Job], Job]) -> Job:
        """Record the outcome and return the job; while that matters, an unavailable store is retried."""
        until = time.monotonic() + self.lease_seconds
        while True:
            try:
                return record(job)
            except LeaseLost as error:
                log.warning("lease of a job lost", job=job.id, subject=job.subject, error=error.message)
                return job
            except LakeError as error:
                log.warning("recording the end of a job failed", job=job.id, subject=job.subject, error=error.message)
                if time.monotonic() > until:  # its claim has expired by now, and the job is run again
                    return job
                time.sleep(self.idle_seconds)
