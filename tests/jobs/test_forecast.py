"""The outlook: what comes next in its order, why, and what holds it up."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from neve.jobs.batcher import PendingBatch
from neve.jobs.forecast import ForecastEntry, ForecastInput, ForecastState, forecast_jobs
from neve.jobs.job import Job, JobState, Progress, Task
from neve.jobs.pauses import Pause
from neve.jobs.policies import Policies
from neve.jobs.policy import Policy
from neve.jobs.schedule import ScheduleMark

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
OFF = {task.value: {"enabled": False} for task in Task if task is not Task.COMPACT}
JOB = Job("1", Task.COMPACT, "logs", "2026-03-10", "12 files", created=NOW, not_before=NOW - MINUTE)
BOX = PendingBatch(Task.COMPACT, "logs", "2026-03-09", NOW - timedelta(seconds=20), NOW, count=5, bytes=3 * 1024 * 1024)
PAUSE = Pause("p", Task.COMPACT, "lo*", "ann", "an incident", NOW, NOW + timedelta(hours=2))
QUIET = {"start": "08:00", "end": "17:00"}


def view(rule: dict[str, Any], *, quiet: tuple[dict[str, Any], ...] = (), **more: Any) -> ForecastInput:
    """A lake of one table, with one rule for its compaction; nothing else is on."""
    policy = Policy.model_validate({"name": "p", "tasks": {**OFF, "compact": rule}, "quiet": quiet})
    return ForecastInput(**{"now": NOW, "policies": Policies((policy,)), "tables": ["logs"], "marks": {}, **more})


def compactions(view: ForecastInput) -> list[ForecastEntry]:
    """The lines of what is under test."""
    return [line for line in forecast_jobs(view) if line.task is Task.COMPACT]


def only(view: ForecastInput) -> ForecastEntry:
    """The one such line."""
    [line] = compactions(view)
    return line


def test_what_is_due_by_the_clock() -> None:
    """With the policy that says so, and the reason."""
    line = only(view({"every": "15m"}, marks={"compact/logs": ScheduleMark(NOW - 16 * MINUTE, "", NOW)}))
    assert line == ForecastEntry(
        Task.COMPACT, "logs", "", NOW - MINUTE, ForecastState.DUE, "every 15m: last 16 min ago", policy="p"
    )


def test_what_waits_for_its_time() -> None:
    """And when that is."""
    line = only(view({"cron": "30 13 * * *"}))
    assert (line.state, line.when) == (ForecastState.WAITING, NOW + timedelta(minutes=90))
    assert line.why == "cron 30 13 * * *: next 2026-03-10 13:30 UTC"


def test_what_only_commits_start_is_not_there_without_them() -> None:
    """Nobody can tell when the next commit comes."""
    assert compactions(view({"batch": {}})) == []


def test_a_box_that_fills() -> None:
    """How far it is, by each of its limits, and when it is handed out at the latest."""
    line = only(view({"batch": {}}, pending_batches=[BOX]))
    assert (line.window, line.state, line.policy) == ("2026-03-09", ForecastState.FILLING, "p")
    assert line.when == NOW + timedelta(seconds=40)
    assert line.why == "5 of 12 files, 3.15 MB of 268 MB, 20 s of 60 s"


def test_a_box_that_is_full() -> None:
    """Is due; one that nothing is gathered in any more is about to be dropped."""
    full = replace(BOX, count=12)
    assert only(view({"batch": {}}, pending_batches=[full])).state is ForecastState.DUE
    assert only(view({"batch": {}}, pending_batches=[full])).why.endswith("batch.count is 12")
    assert compactions(
        view({"every": "1h"}, pending_batches=[full], marks={"compact/logs": ScheduleMark(NOW, "", NOW)})
    ) == [
        ForecastEntry(Task.COMPACT, "logs", "", NOW + 60 * MINUTE, ForecastState.WAITING, "every 1h: last 0 s ago", "p")
    ]


def test_jobs_that_wait_and_that_run() -> None:
    """A worker and how far it is; why an attempt failed, and when the next one comes."""
    running = replace(
        JOB, id="2", state=JobState.RUNNING, owner="host:7:1", started=NOW, progress=Progress("groups", 3, 12)
    )
    failed = replace(JOB, id="3", window="x", attempts=2, error="no space left", not_before=NOW + MINUTE)
    done = replace(JOB, id="4", state=JobState.DONE)
    found = compactions(view({"batch": {}}, jobs=[done, failed, JOB, running]))
    assert [(line.state, line.when, line.why) for line in found] == [
        (ForecastState.RUNNING, NOW, "12 files; running on host:7:1 (groups 3 of 12)"),
        (ForecastState.DUE, NOW - MINUTE, "12 files"),
        (ForecastState.WAITING, NOW + MINUTE, "12 files; attempt 2 failed: no space left"),
    ]


def test_quiet_hours_hold_it_up() -> None:
    """Now, and where it would begin in them; what runs goes on."""
    line = only(view({"batch": {}}, jobs=[JOB], quiet=(QUIET,)))
    assert (line.state, line.when) == (ForecastState.QUIET, NOW + timedelta(hours=5))
    assert line.why == "12 files; quiet hours of policy p until 17:00 UTC"
    later = only(view({"cron": "0 9 * * *"}, quiet=({**QUIET, "days": ["wed"]},)))
    assert (later.state, later.when) == (ForecastState.QUIET, NOW + timedelta(hours=29))
    running = replace(JOB, state=JobState.RUNNING, started=NOW, owner="w")
    assert only(view({"batch": {}}, jobs=[running], quiet=(QUIET,))).state is ForecastState.RUNNING


def test_quiet_hours_without_end_have_no_time() -> None:
    """Nobody can tell when."""
    line = only(view({"every": "1h"}, quiet=({"start": "00:00", "end": "24:00"},)))
    assert (line.state, line.when) == (ForecastState.QUIET, None)


def test_a_pause_holds_it_up() -> None:
    """Who, why and until when; not what comes after it, nor other tables."""
    line = only(view({"batch": {}}, jobs=[JOB], pauses=[PAUSE]))
    assert (line.state, line.when) == (ForecastState.PAUSED, PAUSE.until)
    assert line.why == "12 files; paused by ann: an incident"
    assert only(view({"cron": "0 15 * * *"}, pauses=[PAUSE])).state is ForecastState.WAITING
    assert only(view({"batch": {}}, jobs=[JOB], pauses=[replace(PAUSE, tables="spans")])).state is ForecastState.DUE


def test_what_is_disabled_comes_last() -> None:
    """It has no time; the policy that says so is named."""
    found = forecast_jobs(view({"every": "1h"}))
    assert [(line.task, line.state, line.when) for line in found[1:]] == [
        (Task.AUTOPILOT, ForecastState.DISABLED, None),
        (Task.MAINTAIN, ForecastState.DISABLED, None),
        (Task.SEARCH, ForecastState.DISABLED, None),
    ]
    assert {line.policy for line in found} == {"p"}


def test_an_outlook_of_no_lake_is_empty() -> None:
    """Whatever the policies say."""
    assert forecast_jobs(view({"every": "1h"}, tables=[])) == []
