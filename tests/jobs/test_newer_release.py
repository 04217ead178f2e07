"""A newer release at the same store: what it alone understands is left to it, and everything else goes on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from neve.errors import ConfigError, LeaseLost
from neve.jobs import record as module
from neve.jobs.batcher import SPACE as BOXES
from neve.jobs.batcher import PendingBatch, PendingBatches, load_pending
from neve.jobs.history import ENDED, SPACE
from neve.jobs.job import Job, JobState, Task, WorkUnreadable
from neve.jobs.pauses import SPACE as PAUSES
from neve.jobs.pauses import Pauses
from neve.jobs.policies import Policies
from neve.jobs.policy import Batch, build_default_policy
from neve.jobs.queue import OPEN, JobQueue
from neve.jobs.record import JobRecord, new_id
from neve.jobs.scheduler import Scheduler
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.jobs.support import START, Clock

if TYPE_CHECKING:
    from pathlib import Path

    from neve.state.documents import Documents

NEW_TASK, NEW_STATE = {"task": "vacuum"}, {"state": "suspended"}


@pytest.fixture(autouse=True)
def _forget_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was logged before."""
    monkeypatch.setattr(module, "_logged", set())


@pytest.fixture
def jobs(documents: Documents) -> JobQueue:
    """The jobs of a store that nobody has used yet."""
    return JobQueue(documents, clock=Clock())


def put(documents: Documents, place: str, table: str = "spans", **changes: str) -> None:
    """A job as a newer release writes it."""
    job = Job(new_id(START), Task.COMPACT, table, "", "because", created=START, not_before=START)
    documents.put(SPACE, place, {**JobRecord(job).document, **changes})


@pytest.mark.parametrize("changes", [NEW_TASK, NEW_STATE])
@pytest.mark.parametrize("place", [f"{OPEN}compact/spans/", "dead/compact/spans/", f"{ENDED}0"])
def test_one_job_that_is_not_understood_stops_no_other(
    documents: Documents, jobs: JobQueue, place: str, changes: dict[str, str]
) -> None:
    """Wherever it is: others are listed, counted, claimed and done, and it stays as it is; the log says it once."""
    put(documents, place, **changes)
    before = documents.get(SPACE, place)
    with capture_logs() as said:
        wanted = jobs.request(Task.COMPACT, "logs", reason="12 files")
        assert [job.id for job in jobs.list()] == [wanted.id]
        claimed = jobs.claim("a", list(Task), 60)
        assert claimed is not None
        jobs.finish(claimed, "packed")
        assert jobs.counts()[JobState.DONE] in (1, 2)  # a state that is known is counted, whatever the task is
        assert jobs.prune() == 0
    assert documents.get(SPACE, place) == before
    causes = [(line["reader"], line["error"]) for line in said if line["event"].startswith("record skipped")]
    assert causes
    assert len(set(causes)) == len(causes)


def test_a_subject_that_a_newer_release_is_at_is_left_to_it(documents: Documents, jobs: JobQueue) -> None:
    """What the clock starts of other subjects is wanted all the same."""
    put(documents, f"{OPEN}compact/spans/", **NEW_STATE)
    with pytest.raises(WorkUnreadable, match="compact/spans/ has values that this release does not know"):
        jobs.request(Task.COMPACT, "spans", reason="12 files")
    policies = Policies((), build_default_policy(None))
    scheduler = Scheduler(documents, jobs, lambda: policies, lambda: ["logs", "spans"], Clock())
    assert [job.table for job in scheduler.turn() if job.task is Task.COMPACT] == ["logs"]


def test_a_job_that_a_newer_release_changed_is_lost_to_its_worker(documents: Documents, jobs: JobQueue) -> None:
    """As one that another worker took."""
    jobs.request(Task.COMPACT, "spans", reason="12 files")
    job = jobs.claim("a", list(Task), 60)
    assert job is not None
    put(documents, f"{OPEN}compact/spans/", **NEW_STATE)
    for step in (partial(jobs.renew, job, 60), partial(jobs.finish, job, "packed"), partial(jobs.release, job)):
        with pytest.raises(LeaseLost, match="this release does not know"):
            step()


def test_what_dies_here_takes_the_place_of_what_is_not_understood(documents: Documents, jobs: JobQueue) -> None:
    """A job that has ended must not stay open for it."""
    put(documents, "dead/compact/spans/", **NEW_STATE)
    jobs.request(Task.COMPACT, "spans", reason="12 files")
    job = jobs.claim("a", list(Task), 60)
    assert job is not None
    jobs.fail(job, ConfigError("compact.target_mb is 0"))
    assert [dead.id for dead in jobs.list(states=[JobState.DEAD])] == [job.id]


def test_boxes_that_are_not_understood_stay(tmp_path: Path) -> None:
    """Those of an unknown task, and those whose job is of a newer release; the others become jobs."""
    state = StateStore(StateConfig(path=str(tmp_path / "state.db")))
    documents = SqlDocuments(state)
    jobs = JobQueue(documents, clock=Clock())
    for table in ("logs", "spans"):
        box = PendingBatch.empty(Task.COMPACT, table, "", START)
        documents.put(BOXES, box.key, box.document)
    documents.put(BOXES, "vacuum/logs/", {**PendingBatch.empty(Task.COMPACT, "logs", "", START).document, **NEW_TASK})
    put(documents, f"{OPEN}compact/spans/", **NEW_STATE)
    pending = PendingBatches(documents, batch_of=lambda *_: Batch(age_seconds=0), clock=Clock())
    assert [job.table for job in pending.request_jobs(jobs)] == ["logs"]
    assert [key for key, _document in documents.entries(BOXES)] == ["compact/spans/", "vacuum/logs/"]
    assert [box.table for box in load_pending(documents)] == ["spans"]
    state.close()


def test_a_pause_of_an_unknown_task_holds_nothing_here(documents: Documents) -> None:
    """And stays where it is, whoever pauses something else."""
    pauses = Pauses(documents)
    pause = pauses.pause(task=None, by="ada", reason="", until=None)
    documents.put(PAUSES, "0", {**pause.document, **NEW_TASK})
    other = pauses.pause(task=Task.SEARCH, by="ada", reason="", until=None)
    assert pauses.list() == [pause, other]
    assert documents.get(PAUSES, "0") is not None
