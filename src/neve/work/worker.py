"""A worker: takes one job after another, has it done, and says what became of it."""

from __future__ import annotations

import time
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

import structlog

from neve.errors import LakeError, LeaseLost, LeaseTaken, NeveError
from neve.work import metrics
from neve.work.report import LiveReport

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from neve.work.handler import Handler, Report
    from neve.work.job import Job
    from neve.work.jobs import Jobs
    from neve.work.task import Task

log = structlog.get_logger(__name__)


@dataclass
class Worker:
    """One thread that works; its owner's name is its own, among all workers of all processes.

    `allowed` says why a job must wait, if it must; `ended` hears of every job that this worker had, whatever became
    of it. `engine_is_gone` is asked when a job failed, and may take its time: without an engine every job would.
    """

    jobs: Jobs
    handlers: Mapping[Task, Handler]
    _: KW_ONLY
    owner: str
    lease_seconds: float = 20  # so late is a killed one's job taken over
    idle_seconds: float = 1.0
    allowed: Callable[[Job], str | None] = field(default=lambda _job: None)
    ended: Callable[[Job], None] = field(default=lambda _job: None)
    engine_is_gone: Callable[[], bool] = field(default=lambda: False)
    _report: LiveReport | None = field(default=None, init=False)
    _has_no_engine: bool = field(default=False, init=False)

    @property
    def job(self) -> Job | None:
        """What it is at, if anything."""
        report = self._report
        return report.job if report else None

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop; neither a job that fails nor a store that is away ends it.

        Without an engine it claims no more: jobs wait for a process that has one.
        """
        while not stop.is_set():
            job = None if self._has_no_engine else self._claimed()
            if job is None:
                stop.wait(self.idle_seconds)
            else:
                self._work(job, stop)

    def release(self) -> Job | None:
        """Give back what it is at, where it was told to stop and does not end in time; for whoever waits for it.

        Its handler may still go on; the process must end before another one has got far with the job.
        """
        report = self._report
        if report is None:
            return None
        report.abandon()
        return self._told(report.job, self.jobs.release)

    def _claimed(self) -> Job | None:
        try:
            return self.jobs.claim(self.owner, tuple(self.handlers), self.lease_seconds, self.allowed)
        except NeveError as error:
            log.warning("no job can be claimed", worker=self.owner, error=error.message, hint=error.hint)
            return None

    def _work(self, job: Job, stop: threading.Event) -> None:
        log.info("job started", job=job.id, subject=job.subject, reason=job.reason, attempt=job.attempts)
        began = time.monotonic()
        with LiveReport(self.jobs, job, seconds=self.lease_seconds, stop=stop) as report:
            self._report = report
            tell, is_run = self._handled(job, report)
        told = self._told(report.job, tell)
        self._report = None
        seconds = time.monotonic() - began
        if is_run:
            metrics.count_attempt(told, seconds)
        log.info("job ended", job=told.id, state=told.state.value, outcome=told.outcome, seconds=round(seconds, 3))
        try:
            self.ended(told)
        except Exception:
            log.exception("what follows a job failed", job=told.id, subject=told.subject)

    def _handled(self, job: Job, report: Report) -> tuple[Callable[[Job], Job], bool]:
        """Have it done; how to tell what became of it, and whether it was a run at all."""
        try:
            outcome = self.handlers[job.task](job, report)
        except Exception as error:
            if report.cancelled:  # whatever it failed of, it was asked to give up
                log.info("job given up", job=job.id, subject=job.subject, error=str(error))
                return self.jobs.release, True
            failure = error
            if isinstance(error, LeaseTaken):
                log.info("job put back, another one is at it", job=job.id, subject=job.subject, error=error.message)
                return lambda held: self.jobs.fail(held, failure), False
            if self.engine_is_gone():
                self._has_no_engine = True
                log.error("job put back, there is no engine", job=job.id, subject=job.subject, error=str(error))
                return self.jobs.release, False
            is_known = isinstance(error, NeveError)
            log.warning("job failed", job=job.id, subject=job.subject, error=str(error), exc_info=not is_known)
            return lambda held: self.jobs.fail(held, failure), True
        return lambda held: self.jobs.finish(held, outcome.words, outcome.result), True

    def _told(self, job: Job, tell: Callable[[Job], Job]) -> Job:
        """The job as it is after its end was told; a store that is away is told when it is back, while that matters."""
        until = time.monotonic() + self.lease_seconds
        while True:
            try:
                return tell(job)
            except LeaseLost as error:
                log.warning("job lost", job=job.id, subject=job.subject, error=error.message)
                return job
            except LakeError as error:
                log.warning("the end of a job can't be told", job=job.id, subject=job.subject, error=error.message)
                if time.monotonic() > until:  # it is taken for dead by now, and is done again
                    return job
                time.sleep(self.idle_seconds)
