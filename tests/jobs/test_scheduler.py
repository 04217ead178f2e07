"""The scheduler: what is due becomes jobs, once, whoever was down for how long, and never in quiet hours."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.jobs.job import JobState, Task
from neve.jobs.policies import Policies
from neve.jobs.policy import Policy, Rule
from neve.jobs.queue import JobQueue
from neve.jobs.routing import tables_for
from neve.jobs.schedule import next_time
from neve.jobs.scheduler import Scheduler, load_marks, schedule_key
from neve.model.levels import LEVELS
from tests.compact.tables import documents_in

if TYPE_CHECKING:
    from pathlib import Path

    from neve.jobs.job import Job

START = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
TABLES = ["logs", "metrics", "metrics_1m", "spans"]
OFF = {task.value: {"enabled": False} for task in Task}


@dataclass
class House:
    """A scheduler on a real store, with a clock to turn."""

    folder: Path
    rules: dict[str, Any] = field(default_factory=dict)
    quiet: list[dict[str, Any]] = field(default_factory=list)
    tables: list[str] = field(default_factory=lambda: list(TABLES))
    now: datetime = START

    def __post_init__(self) -> None:
        self.documents = documents_in(self.folder)
        self.jobs = JobQueue(self.documents, clock=lambda: self.now)

    @property
    def policies(self) -> Policies:
        """Only what is under test is on."""
        return Policies((Policy.model_validate({"name": "p", "tasks": OFF | self.rules, "quiet": self.quiet}),))

    def turn(self, **later: float) -> list[Job]:
        """A turn some time later, by a scheduler that knows nothing but what the store has."""
        self.now += timedelta(**later)
        scheduler = Scheduler(self.documents, self.jobs, lambda: self.policies, lambda: self.tables, lambda: self.now)
        return scheduler.turn()

    def finish(self) -> None:
        """Every open job is done."""
        while job := self.jobs.claim("w", tuple(Task), 60):
            self.jobs.finish(job, "done")


def subjects(jobs: list[Job]) -> list[str]:
    """What jobs are about."""
    return [f"{job.task}/{job.table}" for job in jobs]


def test_which_tables_a_task_is_about() -> None:
    """Levels for rollups, logs and spans for search, own tables for series, all for the autopilot, each for others."""
    every = [*TABLES, *(level.table for level in LEVELS[1:])]
    assert tables_for(Task.ROLLUP, every) == [level.table for level in LEVELS]
    assert sorted(tables_for(Task.SEARCH, every)) == ["logs", "spans"]
    assert tables_for(Task.SERIES, [*every, "metric_series"]) == ["metric_series"]
    assert tables_for(Task.AUTOPILOT, every) == [""]
    assert tables_for(Task.COMPACT, every) == tables_for(Task.MAINTAIN, every) == every
    assert all(tables_for(task, []) == [] for task in Task)


def test_an_interval(tmp_path: Path) -> None:
    """At once, and then every so often, with the reason."""
    house = House(tmp_path, {"search": {"every": "15m"}}, tables=["logs"])
    [job] = house.turn()
    assert (job.task, job.table, job.window, job.state) == (Task.SEARCH, "logs", "", JobState.QUEUED)
    assert job.reason == "every 15m: never run before"
    house.finish()
    assert house.turn(minutes=14) == []
    [job] = house.turn(minutes=2)
    assert job.reason == "every 15m: last 16 min ago"


def test_cron_waits_for_its_first_time(tmp_path: Path) -> None:
    """And what was missed while nobody scheduled is done once, not five times."""
    house = House(tmp_path, {"maintain": {"cron": "30 3 * * *"}})
    assert house.turn() == []
    assert house.turn(hours=15) == []
    assert subjects(house.turn(minutes=31)) == [f"maintain/{name}" for name in TABLES]
    house.finish()
    assert len(house.turn(days=5)) == len(TABLES)
    assert house.jobs.list(states=[JobState.QUEUED])[0].reason == "cron 30 3 * * *: due since 2026-03-12 03:30 UTC"
    house.finish()
    assert house.turn(minutes=1) == []


def test_cron_that_was_missed_before_the_first_time_is_done(tmp_path: Path) -> None:
    """Whoever saw the expression and died before its time has said so."""
    house = House(tmp_path, {"autopilot": {"cron": "0 2 * * *"}})
    assert house.turn() == []
    assert subjects(house.turn(days=3)) == ["autopilot/"]


def test_a_changed_expression_counts_from_the_change(tmp_path: Path) -> None:
    """Nothing is taken for missed that nobody had asked for."""
    house = House(tmp_path, {"autopilot": {"cron": "0 2 * * *"}})
    house.turn()
    house.rules = {"autopilot": {"cron": "0 11 * * *"}}
    assert house.turn(hours=1) == []
    assert subjects(house.turn(hours=23)) == ["autopilot/"]


def test_quiet_hours_hold_up_what_is_due(tmp_path: Path) -> None:
    """Until they end; the work is done then, once."""
    house = House(tmp_path, {"search": {"every": "15m"}}, [{"start": "08:00", "end": "17:00"}], tables=["logs"])
    assert house.turn() == []
    assert house.turn(hours=4) == []
    assert len(house.turn(hours=1)) == 1
    assert house.turn(minutes=1) == []


def test_cron_within_quiet_hours_is_due_at_their_end(tmp_path: Path) -> None:
    """Also where nobody had seen the expression before."""
    house = House(tmp_path, {"autopilot": {"cron": "30 12 * * *"}}, [{"start": "08:00", "end": "17:00"}])
    assert house.turn() == []
    assert house.turn(hours=1) == []
    assert subjects(house.turn(hours=4)) == ["autopilot/"]


def test_what_is_open_is_not_doubled(tmp_path: Path) -> None:
    """A job that waits for longer than the interval takes the next one in."""
    house = House(tmp_path, {"search": {"every": "1m"}}, tables=["logs"])
    for _minute in range(5):
        house.turn(minutes=1)
    [job] = house.jobs.list(states=[JobState.QUEUED])
    assert job.reason.startswith("every 1m: never run before; ")


def test_a_new_table_has_its_turn(tmp_path: Path) -> None:
    """And what is only gathered from commits is not started by the clock."""
    house = House(tmp_path, {"compact": {"every": "1h"}, "rollup": {"batch": {}}})
    assert subjects(house.turn()) == [f"compact/{name}" for name in TABLES]
    house.tables = [*TABLES, "events"]
    assert subjects(house.turn(minutes=1)) == ["compact/events"]


def test_the_clock_of_the_store_is_the_default(tmp_path: Path) -> None:
    """Which all who share it go by."""
    house = House(tmp_path, {"search": {"every": "1h"}}, tables=["logs"])
    before = house.documents.now()
    Scheduler(house.documents, house.jobs, lambda: house.policies, lambda: TABLES).turn()
    last = load_marks(house.documents)[schedule_key(Task.SEARCH, "logs")].last
    assert last is not None
    assert before <= last <= house.documents.now()


@pytest.mark.slow
@settings(max_examples=25)
@given(
    rule=st.sampled_from([{"every": "10m"}, {"every": "1h", "cron": "*/20 * * * *"}, {"cron": "0 */3 * * *"}]),
    steps=st.lists(st.integers(1, 400), min_size=1, max_size=12),
)
def test_every_turn_wants_what_is_due_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, rule: dict[str, str], steps: list[int]
) -> None:
    """After any turn nothing is due any more, however long nobody looked."""
    house = House(tmp_path_factory.mktemp("s"), {"search": rule}, tables=["logs"])
    for minutes in steps:
        before = load_marks(house.documents).get("search/logs")
        jobs = house.turn(minutes=minutes)
        when = next_time(Rule.model_validate(rule), before, house.now)
        assert when is not None
        assert len(jobs) == (when <= house.now)
        after = load_marks(house.documents)["search/logs"]
        following = next_time(Rule.model_validate(rule), after, house.now)
        assert following is not None
        assert following > house.now
