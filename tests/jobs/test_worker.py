"""Workers at real jobs: what they do with those that are done, that fail, and that are told to stop."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from neve.errors import Cancelled, LakeError, LeaseTaken
from neve.jobs.job import JobState, Progress, Task, assign_tasks
from neve.jobs.queue import JobQueue
from neve.jobs.transitions import Retry
from neve.jobs.worker import BEAT_SECONDS, Outcome, Worker
from tests.jobs.support import sqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neve.jobs.job import Job
    from neve.jobs.worker import Handler, JobReporter
    from neve.state.sql_documents import SqlDocuments

PATIENCE = 600.0
LEASE = 6.0  # a worker that stands still for most of it would lose its job
IDLE = 0.01


@pytest.fixture
def state(tmp_path: Path) -> Iterator[SqlDocuments]:
    """The store."""
    documents = sqlite(tmp_path)
    yield documents
    documents.close()


@pytest.fixture
def jobs(state: SqlDocuments) -> JobQueue:
    """Jobs whose failures are not tried again within a test."""
    return JobQueue(state, retry=Retry(first_seconds=600))


@contextmanager
def working(
    jobs: JobQueue,
    handler: Handler,
    ended: Callable[[Job], None] = lambda _job: None,
    stop: threading.Event | None = None,
    engine_is_gone: Callable[[], bool] = lambda: False,
) -> Iterator[Worker]:
    """A worker in a thread, told to stop at the end, if not before."""
    worker = Worker(
        jobs,
        {Task.COMPACT: handler},
        owner="w",
        lease_seconds=LEASE,
        idle_seconds=IDLE,
        ended=ended,
        engine_is_gone=engine_is_gone,
    )
    stop = stop or threading.Event()
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        yield worker
    finally:
        stop.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def until(condition: Callable[[], object]) -> None:
    """Wait for something, but not for ever."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(IDLE)


def state_of(jobs: JobQueue, job: Job) -> JobState | None:
    """Where a job stands."""
    found = jobs.get(job.id)
    return found.state if found else None


def runs() -> float:
    """How many runs of compaction were counted, in whatever state they left their job."""
    found = [REGISTRY.get_sample_value("neve_work_job_seconds_count", {"task": "compact"})]
    labels = [{"task": "compact", "state": state.value} for state in JobState]
    found += [REGISTRY.get_sample_value("neve_work_attempts_total", label) for label in labels]
    return sum(filter(None, found))


def given_up(_job: Job, report: JobReporter) -> Outcome:
    """A handler that works until it is told not to."""
    until(lambda: report.is_cancelled)
    raise Cancelled("as it was asked to")


def test_a_job_is_done_and_told(jobs: JobQueue) -> None:
    """Its outcome is kept, and whoever listens hears of it."""
    heard: list[Job] = []
    job = jobs.request(Task.COMPACT, "logs", "2026-01-31", reason="12 files")
    with working(jobs, lambda job, _report: Outcome(f"{job.table} is small", {"files": 1}), heard.append):
        until(lambda: heard)
    assert heard == [jobs.get(job.id)]
    assert (heard[0].state, heard[0].outcome, heard[0].result) == (JobState.DONE, "logs is small", {"files": 1})


def test_neither_a_failure_nor_a_listener_ends_a_worker(jobs: JobQueue) -> None:
    """It goes on with the next job, whatever was wrong with the last one."""
    heard: list[str] = []

    def handle(job: Job, _report: JobReporter) -> Outcome:
        if job.table == "bad":
            raise ZeroDivisionError("division by zero")
        return Outcome("fine")

    def listen(job: Job) -> None:
        heard.append(job.table)
        raise RuntimeError("nobody there")

    bad = jobs.request(Task.COMPACT, "bad", reason="")
    good = jobs.request(Task.COMPACT, "good", reason="")
    with working(jobs, handle, listen):
        until(lambda: len(heard) == 2)
    failed = jobs.get(bad.id)
    assert failed is not None
    assert (failed.state, failed.attempts, failed.error) == (JobState.QUEUED, 1, "ZeroDivisionError: division by zero")
    assert state_of(jobs, good) is JobState.DONE


def test_work_that_another_one_does_is_no_run(jobs: JobQueue) -> None:
    """It is put back without a failure, said as news and not as a warning, and not counted."""
    heard: list[Job] = []

    def handle(_job: Job, _report: JobReporter) -> Outcome:
        raise LeaseTaken("the lease 'compact:logs' is held")

    before = runs()
    jobs.request(Task.COMPACT, "logs", reason="")
    with capture_logs() as logs, working(jobs, handle, heard.append):
        until(lambda: heard)
    assert (heard[0].state, heard[0].attempts) == (JobState.QUEUED, 0)
    assert runs() == before
    said = {entry["event"]: entry["log_level"] for entry in logs}
    assert said["job returned to the queue, another worker has its table"] == "info"
    assert "job failed" not in said


def test_without_an_engine_no_job_fails_and_none_is_claimed(jobs: JobQueue) -> None:
    """The one that met its end is there for a process that has one, and so are all others."""
    met: list[str] = []
    heard: list[Job] = []

    def handle(job: Job, _report: JobReporter) -> Outcome:
        met.append(job.table)
        raise ConnectionRefusedError("nobody listens")

    before = runs()
    wanted = [jobs.request(Task.COMPACT, table, reason="") for table in ("a", "b", "c")]
    with capture_logs() as logs, working(jobs, handle, heard.append, engine_is_gone=lambda: True):
        until(lambda: heard)
        time.sleep(20 * IDLE)
    assert len(met) == 1
    assert [(job.state, job.attempts, job.error) for job in jobs.list()] == [(JobState.QUEUED, 0, "")] * len(wanted)
    assert runs() == before
    assert [
        entry["log_level"] for entry in logs if entry["event"] == "job returned to the queue, there is no engine"
    ] == ["error"]


def test_the_engine_is_asked_for_only_when_a_job_failed(jobs: JobQueue) -> None:
    """That takes a second; who lacks nothing, or gives up, is not kept waiting."""
    asked: list[bool] = []
    heard: list[str] = []

    def handle(job: Job, _report: JobReporter) -> Outcome:
        if job.table == "taken":
            raise LeaseTaken("the lease 'compact:taken' is held")
        if job.table == "bad":
            raise LakeError("no room left")
        return Outcome("fine")

    def lives() -> bool:
        asked.append(True)
        return False

    bad, *_others = [jobs.request(Task.COMPACT, table, reason="") for table in ("bad", "taken", "good")]
    with working(jobs, handle, lambda job: heard.append(job.table), engine_is_gone=lives):
        until(lambda: len(heard) == 3)
    failed = jobs.get(bad.id)
    assert failed is not None
    assert (failed.attempts, failed.error) == (1, "no room left")
    assert asked == [True]


def test_the_job_of_a_killed_worker_is_soon_taken_over(jobs: JobQueue) -> None:
    """Without being told otherwise a worker keeps a job for 20 seconds at a time, and renews it long before."""
    worker = Worker(jobs, {}, owner="w")
    assert worker.lease_seconds == 20
    assert worker.lease_seconds > 3 * BEAT_SECONDS


def test_a_long_job_stays_its_workers_and_tells_how_far_it_is(jobs: JobQueue) -> None:
    """It takes twice as long as its lease, and nobody else gets it."""
    over = threading.Event()

    def handle(_job: Job, report: JobReporter) -> Outcome:
        report.progress("groups", 3, 7)
        assert over.wait(PATIENCE)
        return Outcome("done")

    job = jobs.request(Task.COMPACT, "logs", reason="")
    with working(jobs, handle) as worker:
        end = time.monotonic() + 2 * LEASE
        until(lambda: worker.job is not None)
        while time.monotonic() < end:
            assert jobs.claim("another", list(Task), LEASE) is None
            time.sleep(LEASE / 10)
        running = jobs.get(job.id)
        assert running is not None
        assert running.progress == Progress("groups", 3, 7)
        over.set()
        until(lambda: state_of(jobs, job) is JobState.DONE)


@pytest.mark.slow
def test_a_cancelled_job_gives_up(jobs: JobQueue) -> None:
    """Its handler hears of it, and it is not tried again."""
    job = jobs.request(Task.COMPACT, "logs", reason="")
    with working(jobs, given_up) as worker:
        until(lambda: worker.job is not None)
        jobs.cancel(job.id)
        until(lambda: state_of(jobs, job) is JobState.CANCELLED)


def test_a_worker_that_is_told_to_stop_gives_its_job_back(jobs: JobQueue) -> None:
    """That is no attempt, and the job is there for the next worker."""
    job = jobs.request(Task.COMPACT, "logs", reason="")
    with working(jobs, given_up) as worker:
        until(lambda: worker.job is not None)
    back = jobs.get(job.id)
    assert back is not None
    assert (back.state, back.attempts, back.error) == (JobState.QUEUED, 0, "")


def test_a_job_that_does_not_end_in_time_is_given_back_by_whoever_waits(jobs: JobQueue) -> None:
    """Another worker has it at once; what the first one says of it later does not count."""
    over, stop = threading.Event(), threading.Event()

    def handle(_job: Job, _report: JobReporter) -> Outcome:
        assert over.wait(PATIENCE)
        return Outcome("too late")

    job = jobs.request(Task.COMPACT, "logs", reason="")
    with working(jobs, handle, stop=stop) as worker:
        until(lambda: worker.job is not None)
        stop.set()
        released = worker.release()
        assert released is not None
        assert released.state is JobState.QUEUED
        taken = jobs.claim("another", list(Task), PATIENCE)
        assert taken is not None
        over.set()
    assert worker.release() is None
    assert jobs.finish(taken, "in time").outcome == "in time"
    assert jobs.list() == [jobs.get(job.id)]


def test_a_store_that_is_away_is_waited_for(
    jobs: JobQueue, state: SqlDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a job came to is told when the store is back, and the worker goes on with the next one."""
    away, swap = threading.Event(), state.swap

    def failing(*arguments: object) -> bool:
        if away.is_set():
            raise LakeError("the state store is away")
        return swap(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(state, "swap", failing)

    def handle(_job: Job, _report: JobReporter) -> Outcome:
        away.set()
        threading.Timer(0.15, away.clear).start()
        return Outcome("done")

    wanted = [jobs.request(Task.COMPACT, table, reason="") for table in ("a", "b")]
    with working(jobs, handle):
        until(lambda: all(state_of(jobs, job) is JobState.DONE for job in wanted))
    assert [job.attempts for job in jobs.list()] == [1, 1]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_one_of_several_workers_begins_nothing_long(workers: int) -> None:
    """And nothing is left without a worker."""
    shares = assign_tasks(tuple(Task), workers)
    assert len(shares) == workers
    assert shares[0] == tuple(Task)
    assert [all(task.is_short for task in share) for share in shares].count(True) == (workers > 1)
    assert assign_tasks([Task.COMPACT], workers) == [(Task.COMPACT,)] * workers
