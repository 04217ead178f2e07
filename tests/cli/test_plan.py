"""`neve plan`: what comes next, as text and as JSON, from the state store and the catalog alone."""

import json
from pathlib import Path

import pytest

from neve.app.settings import Settings, load_settings
from neve.app.wiring import build_documents, build_lake
from neve.jobs.batcher import SPACE as BOXES
from neve.jobs.batcher import PendingBatch
from neve.jobs.job import Task
from neve.jobs.pauses import Pauses
from neve.jobs.policies import Policies
from neve.jobs.policy import build_default_policy
from neve.jobs.queue import JobQueue
from neve.jobs.scheduler import Scheduler
from neve.text import format_bytes, format_duration
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables

POLICIES = [
    {"name": "off", "tables": ["metrics*"], "tasks": {"compact": {"enabled": False}}},
    {"name": "gone", "tables": ["lgs"], "tasks": {"compact": {"every": "1h"}}},
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> dict[str, dict[str, str]]:
    """Where a lake is, whose tables nobody changes."""
    folder = tmp_path_factory.mktemp("planned")
    where = {"lake": {"warehouse": str(folder / "w")}, "catalog": {"path": str(folder / "c.db")}}
    create_empty_tables(build_lake(Settings.model_validate(where)))
    return where


@pytest.fixture
def house(elsewhere: Path, tables: dict[str, dict[str, str]]) -> Path:
    """The lake with policies, and a state store in which nothing was ever done."""
    settings = {**tables, "state": {"path": str(elsewhere / "state.db")}, "policies": POLICIES}
    (elsewhere / "neve.yaml").write_text(json.dumps(settings))
    return elsewhere


def test_a_new_lake(house: Path) -> None:
    """What the clock starts is due at once, what is nightly waits, and a policy for no table is said to be in vain."""
    ended = run("plan", "--json")
    assert ended.code == 0
    lines = {(line["task"], line["table"]): line for line in ended.json["lines"]}
    due, nightly, off = lines["compact", "logs"], lines["maintain", "logs"], lines["compact", "metrics_1m"]
    assert (due["state"], due["why"], due["policy"]) == ("due", "every 15m: never run before", "built-in")
    assert nightly["state"] == "waiting"
    assert nightly["when"].endswith("T03:30:00+00:00")
    assert (off["state"], off["when"], off["policy"]) == ("disabled", None, "off")
    assert lines["autopilot", ""]["state"] == "disabled"
    assert ended.json["policies"] == "the configuration"
    assert ended.json["warnings"] == ["policy gone: no table of the lake matches lgs"]


def test_text(house: Path) -> None:
    """A table, where the policies come from, and what is in vain beside it."""
    ended = run("plan", "--task", "autopilot")
    assert [line.split() for line in ended.text.splitlines()] == [
        ["when", "task", "table", "state", "policy", "why"],
        ["-", "autopilot", "all", "tables", "disabled", "built-in", "its", "rule", "has", "enabled:", "false"],
        ["policies:", "the", "configuration"],
    ]
    assert ended.errors.splitlines() == ["1 warning:", "  policy gone: no table of the lake matches lgs"]


def test_tables_with_the_same_work_are_counted(house: Path) -> None:
    """A new lake has one line for the compaction of all tables; a pattern lists each."""
    ended = run("plan", "--task", "compact")
    lines = [line.split() for line in ended.text.splitlines() if "never run before" in line]
    assert [line[3] for line in lines] == ["tables"]
    assert "--table '*' lists each table" in ended.errors
    assert run("plan", "--task", "compact", "--table", "*").text.count("never run before") == int(lines[0][2])


def test_what_is_chosen(house: Path) -> None:
    """By task and by a pattern of tables; nothing is nothing."""
    lines = run("plan", "--task", "compact", "--table", "metrics*", "--json").json["lines"]
    assert {line["task"] for line in lines} == {"compact"}
    assert {line["table"] for line in lines} == {"metrics", "metrics_1m", "metrics_5m", "metrics_1h", "metrics_1d"}
    assert run("plan", "--table", "nothing").text.startswith("nothing is scheduled\n")
    assert run("plan", "--task", "sleep").code == 2


def test_jobs_boxes_and_pauses(house: Path) -> None:
    """All that others wrote into the store, and nothing is changed by looking."""
    documents = build_documents(load_settings())
    jobs, now = JobQueue(documents), documents.now()
    jobs.request(Task.COMPACT, "logs", "2026-01-31", reason="12 files")
    jobs.request(Task.SEARCH, "logs", reason="by hand")
    assert jobs.claim("w", [Task.SEARCH], 60) is not None
    box = PendingBatch(Task.ROLLUP, "metrics_1m", "", now, now, count=1)
    documents.put(BOXES, box.key, box.document)
    Pauses(documents).pause(task=None, tables="logs", by="ann", reason="an incident", until=None)
    before = [*documents.entries("jobs"), *documents.entries(BOXES)]
    lines = run("plan", "--json").json["lines"]
    assert (lines[0]["state"], lines[0]["why"]) == ("running", "by hand; running on w")
    [job] = [line for line in lines if line["window"]]
    assert (job["state"], job["when"]) == ("paused", None)
    assert job["why"] == "12 files; paused by ann: an incident"
    [rollup] = [line for line in lines if line["task"] == "rollup" and line["state"] == "filling"]
    assert rollup["table"] == "metrics_1m"
    assert [*documents.entries("jobs"), *documents.entries(BOXES)] == before
    assert list(documents.entries("schedule")) == []
    documents.close()


def test_after_a_turn_of_the_scheduler_nothing_is_due_twice(house: Path) -> None:
    """What was handed out is a job, and the clock's next time is a whole interval away."""
    documents = build_documents(load_settings())
    Scheduler(documents, JobQueue(documents), Policies, lambda: ["logs"]).turn()
    documents.close()
    found = run("plan", "--task", "search", "--json").json["lines"]
    assert [(line["state"], line["why"]) for line in found] == [
        *[("due", "every 10m: never run before")] * 2,
        ("waiting", "every 10m: last 0 s ago"),
    ]


def test_the_help_shows_what_holds_unless_it_is_told_otherwise() -> None:
    """Its example of what is gathered has the numbers of the built-in policy."""
    batch = build_default_policy(None).tasks[Task.COMPACT].batch
    assert batch is not None
    page = run("plan", "--help").text
    age = format_duration(batch.age_seconds)
    assert f"of {batch.count} files, 1.2 MB of {format_bytes(batch.bytes)}, 20 s of {age}" in page
    assert f"batch.count is {batch.count};" in page
