"""What jobs do, whichever store keeps them: the embedded one here, the servers where they can be started."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from neve.errors import ConfigError, LakeError, LeaseLost, LeaseTaken
from neve.jobs.history import SPACE, JobHistory
from neve.jobs.job import JobState, Progress, Task, WorkNotFound, WorkStateError
from neve.jobs.queue import DELAY_PER_RANK, OPEN, JobQueue
from neve.jobs.record import JobRecord, new_id
from neve.jobs.transitions import Retry
from tests.contracts.stores import opened
from tests.jobs.support import Clock

if TYPE_CHECKING:
    from neve.jobs.job import Job
    from neve.state.config import StateConfig
    from neve.state.documents import Documents

LEASE = 60.0
RETRY = Retry(attempts=3, first_seconds=5, most_seconds=600)
OPEN_STATES = (JobState.QUEUED, JobState.RUNNING)
AWAY = LakeError("the catalog is away", hint="wait")


@pytest.fixture
def clock() -> Clock:
    """The time of the store."""
    return Clock()


@pytest.fixture
def jobs(documents: Documents, clock: Clock) -> JobQueue:
    """The jobs of a store that nobody has used yet."""
    return JobQueue(documents, retry=RETRY, clock=clock)


def want(jobs: JobQueue, table: str = "logs", window: str = "2026-01-31", reason: str = "12 files") -> Job:
    """Have a table compacted."""
    return jobs.request(Task.COMPACT, table, window, reason=reason)


def claim(jobs: JobQueue, owner: str = "a") -> Job:
    """Take what is next, which must be there."""
    job = jobs.claim(owner, list(Task), LEASE)
    assert job is not None
    return job


def killed(jobs: JobQueue, clock: Clock, owner: str = "a") -> Job:
    """A job whose worker was killed, and whose time is over."""
    job = claim(jobs, owner)
    clock.forward(LEASE + 1)
    return job


def dead(jobs: JobQueue) -> Job:
    """A job that no attempt mends."""
    want(jobs)
    return jobs.fail(claim(jobs), ConfigError("compact.target_mb is 0"))


def test_a_job_is_wanted_claimed_and_done(jobs: JobQueue, clock: Clock) -> None:
    """From the moment that it is wanted to the moment that it is done, everyone can see where it stands."""
    wanted = want(jobs)
    assert (wanted.state, wanted.reason, wanted.attempts) == (JobState.QUEUED, "12 files", 0)
    begun = claim(jobs)
    assert (begun.id, begun.state, begun.owner, begun.attempts) == (wanted.id, JobState.RUNNING, "a", 1)
    assert begun.until == clock() + timedelta(seconds=LEASE)
    clock.forward(5)
    done = jobs.finish(begun, "3 files instead of 12", {"files": 3})
    assert (done.state, done.outcome, done.result) == (JobState.DONE, "3 files instead of 12", {"files": 3})
    assert jobs.get(done.id) == done
    assert jobs.list() == [done]
    assert jobs.counts() == dict.fromkeys(JobState, 0) | {JobState.DONE: 1}
    assert jobs.claim("a", list(Task), LEASE) is None


def test_a_queued_subject_is_wanted_once(jobs: JobQueue, clock: Clock) -> None:
    """What is wanted again while it waits is one job: with both reasons, and at the sooner time."""
    later = clock() + timedelta(hours=1)
    first = jobs.request(Task.COMPACT, "logs", reason="nightly", not_before=later)
    assert jobs.claim("a", list(Task), LEASE) is None
    again = jobs.request(Task.COMPACT, "logs", reason="12 files")
    assert again.id == first.id
    assert (again.reason, again.not_before) == ("nightly; 12 files", clock())
    assert jobs.list() == [again]
    assert jobs.request(Task.COMPACT, "logs", reason="12 files", not_before=later) == again
    assert jobs.request(Task.COMPACT, "spans", reason="12 files").id != first.id


def test_reasons_do_not_grow_without_end(jobs: JobQueue) -> None:
    """A job that is wanted a thousand times tells the first reason and the latest ones."""
    for number in range(50):
        job = want(jobs, reason=f"reason {number}")
    assert job.reason == "reason 0; reason 47; reason 48; reason 49"


def test_what_is_wanted_while_it_runs_is_run_again(jobs: JobQueue, clock: Clock) -> None:
    """A run may have read what was there before: another one follows it, with the reasons of those who wanted it."""
    want(jobs)
    begun = claim(jobs)
    assert want(jobs, reason="3 files more").again
    assert want(jobs, reason="a person").id == begun.id
    assert jobs.claim("b", list(Task), LEASE) is None
    clock.forward(1)
    jobs.finish(begun, "done")
    following = claim(jobs, "b")
    assert following.id > begun.id
    assert (following.reason, following.again, following.attempts) == ("3 files more; a person", False, 1)


def test_the_oldest_that_is_due_and_allowed_is_claimed(jobs: JobQueue, clock: Clock) -> None:
    """Workers take what waits longest, of the tasks that they know, if nothing speaks against it."""
    first, second, third = (want(jobs, table) for table in ("a", "b", "c") if clock.forward(1))
    jobs.request(Task.ROLLUP, "metrics_1m", reason="")
    assert jobs.claim("x", [Task.SEARCH], LEASE) is None
    allowed = {first.id: "quiet hours"}
    taken = [jobs.claim("x", [Task.COMPACT], LEASE, lambda job: allowed.get(job.id)) for _ in range(3)]
    assert [job and job.id for job in taken] == [second.id, third.id, None]


def test_the_more_urgent_is_claimed_first(jobs: JobQueue, clock: Clock) -> None:
    """Rollups do not wait behind the care of all tables, however early that was wanted."""
    for task in (Task.AUTOPILOT, Task.MAINTAIN, Task.COMPACT, Task.SEARCH, Task.SERIES, Task.ROLLUP):
        jobs.request(task, "any", reason="")
        clock.forward(1)
    taken = [claim(jobs).task for _ in range(6)]
    assert taken == [Task.ROLLUP, Task.SERIES, Task.SEARCH, Task.COMPACT, Task.MAINTAIN, Task.AUTOPILOT]


def test_what_has_waited_long_enough_is_as_urgent_as_any(jobs: JobQueue, clock: Clock) -> None:
    """However many rollups come, the care of a table has its turn."""
    jobs.request(Task.MAINTAIN, "logs", reason="")
    clock.forward(DELAY_PER_RANK.total_seconds() * Task.MAINTAIN.rank - 1)
    jobs.request(Task.ROLLUP, "metrics_1m", reason="")
    clock.forward(2)
    jobs.request(Task.ROLLUP, "metrics_5m", reason="")
    assert [claim(jobs).table for _ in range(3)] == ["metrics_1m", "logs", "metrics_5m"]


def test_windows_of_a_table_are_not_worked_on_at_once(jobs: JobQueue, clock: Clock) -> None:
    """They share a lease: the second waits for the first, or for its worker's death; other tables and tasks do not."""
    for window in ("", "2026-01-30", "2026-01-31"):
        want(jobs, "logs", window)
        clock.forward(1)
    want(jobs, "spans")
    jobs.request(Task.MAINTAIN, "logs", reason="")
    first, *others = [claim(jobs, owner) for owner in "abc"]
    assert (first.table, first.window) == ("logs", "")
    assert [(job.task, job.table) for job in others] == [(Task.COMPACT, "spans"), (Task.MAINTAIN, "logs")]
    assert jobs.claim("d", list(Task), LEASE) is None
    jobs.finish(first, "done")
    assert claim(jobs, "d").window == "2026-01-30"
    clock.forward(LEASE)
    assert claim(jobs, "e").window == "2026-01-30"


def test_failures_are_tried_again_ever_later_until_a_person_must_look(jobs: JobQueue, clock: Clock) -> None:
    """After each failure it waits twice as long; being wanted does not hurry it; the last one leaves it dead."""
    want(jobs)
    for delay in (5, 10):
        failed = jobs.fail(claim(jobs), AWAY)
        assert (failed.state, failed.error, failed.hint) == (JobState.QUEUED, "the catalog is away", "wait")
        assert failed.not_before == clock() + timedelta(seconds=delay)
        assert want(jobs, reason="again").not_before == failed.not_before
        clock.forward(delay - 1)
        assert jobs.claim("a", list(Task), LEASE) is None
        clock.forward(1)
    last = jobs.fail(claim(jobs), ZeroDivisionError("division by zero"))
    assert (last.state, last.attempts) == (JobState.DEAD, 3)
    assert last.error == "ZeroDivisionError: division by zero"
    assert jobs.list(states=[JobState.DEAD]) == [last]


def test_what_another_attempt_does_not_mend_is_dead_at_once(jobs: JobQueue) -> None:
    """A bad setting stays bad until somebody changes it."""
    job = dead(jobs)
    assert (job.state, job.attempts, job.error) == (JobState.DEAD, 1, "compact.target_mb is 0")


def test_work_that_another_one_does_is_put_back(jobs: JobQueue, clock: Clock) -> None:
    """A lease that is taken is no failure, however often it is met."""
    want(jobs)
    for _ in range(10):
        left = jobs.fail(claim(jobs), LeaseTaken("the lease 'compact:logs' is held"))
        assert (left.state, left.attempts) == (JobState.QUEUED, 0)
        clock.forward(5)


def test_a_job_outlives_its_worker(jobs: JobQueue, clock: Clock) -> None:
    """When a worker is silent, another takes over, and the first one finds that it lost the job."""
    want(jobs)
    lost = killed(jobs, clock)
    taken = claim(jobs, "b")
    assert (taken.id, taken.owner, taken.attempts) == (lost.id, "b", 2)
    assert "worker a sent no heartbeat" in taken.error
    for late in (partial(jobs.renew, seconds=LEASE), partial(jobs.finish, outcome="done"), jobs.release):
        with pytest.raises(LeaseLost, match=f"a lost job {lost.id}.* it is running with b"):
            late(lost)
    assert jobs.finish(taken, "done").owner == "b"
    with pytest.raises(LeaseLost, match="it has ended"):
        jobs.fail(lost, AWAY)


def test_a_job_that_kills_its_workers_is_dead_in_the_end(jobs: JobQueue, clock: Clock) -> None:
    """A worker's death is an attempt, and what was wanted during the last one is not lost with it."""
    want(jobs)
    for _ in range(RETRY.attempts - 1):
        killed(jobs, clock)
    last = claim(jobs)
    want(jobs, reason="3 files more")
    clock.forward(LEASE)
    jobs.claim("b", list(Task), LEASE)
    assert [job.id for job in jobs.list(states=[JobState.DEAD])] == [last.id]
    with pytest.raises(LeaseLost, match="it has ended"):
        jobs.finish(last, "it was only slow")
    assert jobs.claim("b", list(Task), LEASE) is None
    clock.forward(RETRY.most_seconds)
    assert claim(jobs, "b").reason == "3 files more"


def test_a_worker_that_renews_keeps_its_job_and_tells_how_far_it_is(jobs: JobQueue, clock: Clock) -> None:
    """As long as it says so in time, nobody else gets it."""
    want(jobs)
    job = claim(jobs)
    for done in range(5):
        clock.forward(LEASE - 1)
        job = jobs.renew(job, LEASE, Progress("groups", done, 5))
        assert jobs.claim("b", list(Task), LEASE) is None
    assert jobs.renew(job, LEASE).progress == Progress("groups", 4, 5)
    found = jobs.get(job.id)
    assert found is not None
    assert found.progress == Progress("groups", 4, 5)


def test_a_released_job_is_as_it_was(jobs: JobQueue) -> None:
    """A worker that is told to stop gives back what it has; that is no attempt."""
    want(jobs)
    begun = claim(jobs)
    want(jobs, reason="3 files more")
    back = jobs.release(begun)
    assert (back.state, back.attempts, back.owner, back.again) == (JobState.QUEUED, 0, "", False)
    assert claim(jobs, "b").reason == "12 files; 3 files more"


def test_a_queued_job_is_cancelled_at_once(jobs: JobQueue) -> None:
    """Nothing comes of it, and it can be wanted anew."""
    job = jobs.cancel(want(jobs).id)
    assert job.state is JobState.CANCELLED
    assert jobs.claim("a", list(Task), LEASE) is None
    assert want(jobs).id != job.id


@pytest.mark.parametrize("how", ["release", "fail", "dies"])
def test_a_running_job_is_told_to_stop(jobs: JobQueue, clock: Clock, how: str) -> None:
    """However it ends then, it is not tried again; what is wanted after that is."""
    want(jobs)
    begun = claim(jobs)
    want(jobs, reason="before")
    assert jobs.cancel(begun.id).cancel
    begun = jobs.renew(begun, LEASE)
    assert begun.cancel
    want(jobs, reason="after")
    if how == "release":
        jobs.release(begun)
    elif how == "fail":
        jobs.fail(begun, AWAY)
    else:
        clock.forward(LEASE)
        jobs.claim("b", list(Task), LEASE)
    assert [job.id for job in jobs.list(states=[JobState.CANCELLED])] == [begun.id]
    following = claim(jobs, "b")
    assert (following.reason, following.cancel) == ("after", False)


def test_a_subject_that_dies_again_is_on_the_list_once(jobs: JobQueue, clock: Clock) -> None:
    """The latest stands for all of them, and tells how often and since when; another subject has its own."""
    dead(jobs)
    first = clock()
    want(jobs, "spans")
    jobs.fail(claim(jobs), ConfigError("bad"))
    for _ in range(6):
        clock.forward(RETRY.most_seconds)
        latest = dead(jobs)
    listed = jobs.list(states=[JobState.DEAD])
    assert [job.table for job in listed] == ["logs", "spans"]
    assert listed[0].id == latest.id
    assert listed[0].outcome == f"7 times since {first:%Y-%m-%d %H:%M} UTC"
    assert listed[0].error == "compact.target_mb is 0"
    assert listed[1].outcome == ""
    assert jobs.counts()[JobState.DEAD] == 2
    jobs.replay(latest.id)
    assert [job.table for job in jobs.list(states=[JobState.DEAD])] == ["spans"]
    again = jobs.fail(claim(jobs), ConfigError("bad"))
    found = jobs.get(again.id)
    assert found is not None
    assert found.outcome == ""


def test_a_subject_that_died_is_held_back_until_a_person_replays_it(jobs: JobQueue, clock: Clock) -> None:
    """Being wanted with each commit, it would fail with each commit; other subjects are not held back."""
    job = dead(jobs)
    assert job.ended is not None
    clock.forward(1)
    for _ in range(2):
        held = want(jobs, reason="3 files more")
        assert held.not_before == job.ended + timedelta(seconds=RETRY.most_seconds)
    assert want(jobs, "spans").not_before == clock()
    assert claim(jobs).table == "spans"
    assert jobs.claim("b", list(Task), LEASE) is None
    jobs.replay(job.id)
    assert claim(jobs, "b").id == held.id


def test_a_mover_who_comes_late_does_not_bring_an_older_death_back(documents: Documents, jobs: JobQueue) -> None:
    """What is moved twice is one death, and the latest stays the latest."""
    history = JobHistory(documents)
    one = dead(jobs)
    assert one.ended is not None
    other = replace(one, id=new_id(one.ended), ended=one.ended + timedelta(seconds=1))
    for job in (one, other, other, one):
        history.keep(job)
    kept = history.dead(one.subject)
    assert kept is not None
    assert (kept.id, kept.result["deaths"]) == (other.id, 2)


def test_what_is_done_with_is_counted_once_a_minute(jobs: JobQueue, clock: Clock) -> None:
    """All of it is read for that; what is open or dead is counted as it is."""
    assert not any(jobs.counts().values())
    want(jobs)
    jobs.finish(claim(jobs), "done")
    dead(jobs)
    want(jobs, "spans")
    seen = dict.fromkeys(JobState, 0) | {JobState.DEAD: 1, JobState.QUEUED: 1}
    assert jobs.counts() == seen
    clock.forward(60)
    assert jobs.counts() == seen | {JobState.DONE: 1}


def test_a_job_that_is_done_before_it_hears_of_its_end_says_so(jobs: JobQueue) -> None:
    """Whoever cancelled it sees why it is done all the same."""
    want(jobs)
    begun = claim(jobs)
    jobs.cancel(begun.id)
    done = jobs.finish(begun, "3 files instead of 12")
    assert (done.state, done.outcome) == (
        JobState.DONE,
        "3 files instead of 12; finished before it noticed the cancellation",
    )


def test_a_dead_job_is_replayed(jobs: JobQueue) -> None:
    """It is the same job, with all its attempts before it, and it is on the list of the dead no longer."""
    job = dead(jobs)
    again = jobs.replay(job.id)
    assert (again.id, again.state, again.attempts, again.error) == (job.id, JobState.QUEUED, 0, "")
    assert jobs.list() == [again]
    done = jobs.finish(claim(jobs), "done")
    assert jobs.get(job.id) == done
    assert jobs.list() == [done]


def test_a_dead_job_is_replayed_as_the_open_one_of_its_subject(jobs: JobQueue) -> None:
    """There is never a second open job of a subject; the dead one says what became of it."""
    job, other = dead(jobs), want(jobs, reason="3 files more")
    again = jobs.replay(job.id)
    assert (again.id, again.reason) == (other.id, f"3 files more; replay of {job.id}: 12 files")
    old = jobs.get(job.id)
    assert old is not None
    assert (old.state, old.outcome) == (JobState.CANCELLED, f"replayed as job {other.id}")
    assert jobs.list(states=[JobState.DEAD]) == []


def test_what_can_not_be_cancelled_or_replayed_is_refused_with_a_reason(jobs: JobQueue) -> None:
    """An unknown id and a wrong state are different things."""
    for verb in (jobs.cancel, jobs.replay):
        with pytest.raises(WorkNotFound, match="there is no job 'nonsense'") as raised:
            verb("nonsense")
        assert raised.value.hint == "run `neve jobs list` to see the jobs"
    job = want(jobs)
    with pytest.raises(WorkStateError, match=r"can't be replayed: it is queued, expected dead or cancelled"):
        jobs.replay(job.id)
    jobs.finish(claim(jobs), "done")
    with pytest.raises(WorkStateError, match=r"can't be cancelled: it is done, expected queued or running"):
        jobs.cancel(job.id)


def test_jobs_are_listed_from_the_newest_on(jobs: JobQueue, clock: Clock) -> None:
    """Open and ended ones together, or some of them."""
    for table in ("a", "b", "c", "d"):
        clock.forward(1)
        want(jobs, table)
    jobs.finish(claim(jobs), "done")
    clock.forward(1)
    jobs.fail(claim(jobs), ConfigError("bad"))
    tables = [(job.table, job.state.value) for job in jobs.list()]
    assert tables == [("d", "queued"), ("c", "queued"), ("b", "dead"), ("a", "done")]
    assert [job.table for job in jobs.list(limit=3)] == ["d", "c", "b"]
    assert [job.table for job in jobs.list(states=[JobState.DONE, JobState.QUEUED])] == ["d", "c", "a"]
    assert [job.table for job in jobs.list(table="c", task=Task.COMPACT)] == ["c"]
    assert jobs.list(task=Task.ROLLUP) == []


def test_what_ended_long_ago_is_forgotten(documents: Documents, clock: Clock) -> None:
    """By age and by number; what is open, or dead, stays, however old it is."""
    jobs = JobQueue(documents, keep_days=1, max_ended=2, clock=clock)
    for table in ("a", "b", "c"):
        want(jobs, table)
        jobs.finish(claim(jobs), "done")
        clock.forward(1)
    waiting = dead(jobs)
    clock.forward(1)
    want(jobs, "open")
    assert jobs.prune() == 1
    assert [job.table for job in jobs.list()] == ["open", "logs", "c", "b"]
    clock.forward(timedelta(days=2).total_seconds())
    assert jobs.prune() == 2
    assert [job.table for job in jobs.list()] == ["open", "logs"]
    assert jobs.get(waiting.id) == waiting


def test_a_result_that_is_no_json_is_kept_as_text(jobs: JobQueue) -> None:
    """A handler's numbers never keep a job from being done."""
    want(jobs)
    done = jobs.finish(claim(jobs), "done", {"ratio": float("inf"), "at": datetime(2026, 1, 31)})  # noqa: DTZ001
    assert done.result == {"ratio": "Infinity", "at": "2026-01-31 00:00:00"}


@pytest.mark.parametrize("is_kept", [True, False])
def test_what_a_dead_mover_left_is_moved_by_the_next(
    jobs: JobQueue, documents: Documents, clock: Clock, is_kept: bool
) -> None:
    """A process that dies right after a job ended leaves nothing half done: what was wanted meanwhile is claimed."""
    want(jobs)
    begun = claim(jobs)
    want(jobs, reason="3 files more")
    place = OPEN + begun.subject
    document = documents.get(SPACE, place)
    clock.forward(1)
    done = jobs.finish(begun, "done")
    assert document is not None
    # As it was right after the first of the steps, or of the first two.
    documents.put(SPACE, place, JobRecord(done, JobRecord.of(document).following).document)
    if not is_kept:
        for key, _document in [*documents.entries(SPACE, "ended/")]:
            documents.delete(SPACE, key)
    assert [job.state for job in jobs.list()] == [JobState.DONE]
    assert jobs.finish(begun, "told once more, as the answer was lost") == done
    assert [job.state for job in jobs.list()] == [JobState.QUEUED, JobState.DONE]
    assert claim(jobs, "b").reason == "3 files more"


def test_many_want_and_claim_at_once(store: StateConfig, documents: Documents) -> None:
    """However many processes want the same and take what there is: one open job a subject, one owner a job."""
    tables, crowd = [f"table{number}" for number in range(4)], 4

    def work(number: int) -> list[str]:
        own = opened(store)
        mine = JobQueue(own)
        ids = [mine.request(Task.COMPACT, table, reason=f"of {number}").id for table in tables]
        taken = [mine.claim(f"worker {number}", list(Task), LEASE) for _ in tables]
        own.close()
        assert len(set(ids)) == len(tables)
        return [job.id for job in taken if job is not None]

    documents.put("any", "table", {})  # the first to write makes the tables
    with ThreadPoolExecutor(crowd) as pool:
        taken = [job_id for ids in pool.map(work, range(crowd)) for job_id in ids]
    jobs = JobQueue(documents)
    assert len(taken) == len(set(taken)) == len(tables)
    assert sorted(job.table for job in jobs.list(states=OPEN_STATES)) == tables
