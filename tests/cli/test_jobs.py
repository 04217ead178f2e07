"""`neve jobs` and `neve policies`: what waits, runs and was given up; started, ended, held up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from neve.app.control import open_control
from neve.app.settings import load_settings
from neve.app.wiring import build_lake
from neve.cli.operator_commands import jobs, policies
from tests.app.control_lake import dead_job, done_job, running_job
from tests.cli.direct import Told, tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neve.app.control import Control

MISSING = "0" * 18


@pytest.fixture
def control(config: str) -> Iterator[Control]:
    """The lake that the commands of a test see, with a state store of this test."""
    settings = load_settings(config, {})
    with open_control(settings, build_lake(settings)) as found:
        yield found


@pytest.mark.slow
def test_jobs_are_listed(config: str, control: Control) -> None:
    """By state, task and table, as text and as JSON."""
    running, done, dead = (make(control.documents) for make in (running_job, done_job, dead_job))
    listed = tell(jobs, "list", config=config).text
    assert [line.split()[0] for line in listed.splitlines()] == ["id", dead.id, done.id, running.id]
    for arguments, expected in (
        (["--state", "running"], [running.id]),
        (["--task", "rollup"], [done.id]),
        (["--table", "nothing"], []),
        (["--limit", "1"], [dead.id]),
    ):
        assert [job["id"] for job in tell(jobs, "list", *arguments, "--json", config=config).json] == expected
    assert tell(jobs, "list", "--table", "nothing", config=config).text == "no matching jobs\n"


def test_the_dead_letter_list_says_how_to_go_on(config: str, control: Control) -> None:
    """With the error, which can't steer the terminal."""
    dead = dead_job(control.documents)
    running_job(control.documents)
    listed = tell(jobs, "list", "--dead", config=config).text
    assert "the index \\x1b[2Jcan't be read" in listed
    assert listed.endswith("`neve jobs show ID` shows details, `neve jobs replay ID` retries a job\n")
    assert [job["id"] for job in tell(jobs, "list", "--dead", "--json", config=config).json] == [dead.id]
    assert tell(jobs, "list", "--dead", "--state", "done", config=config).code == 2


def test_a_job_is_shown(config: str, control: Control) -> None:
    """All that is known of it; one that there is not is said."""
    job = running_job(control.documents)
    shown = tell(jobs, "show", job.id, config=config).text
    assert "14 files of 3.1 MB" in shown
    assert tell(jobs, "show", job.id, "--json", config=config).json["owner"] == "host:7:1"
    assert tell(jobs, "show", MISSING, config=config).errors.startswith(f"there is no job '{MISSING}'")


def test_a_job_is_started_cancelled_and_replayed(config: str) -> None:
    """Each says what became of it."""
    started = tell(jobs, "start", "compact", "spans", "--window", "2026-01-31", config=config)
    job_id = started.text.split()[1]
    assert started.text == f"job {job_id} (compact spans 2026-01-31) is wanted\n"
    assert tell(jobs, "cancel", job_id, config=config).text.endswith("is cancelled\n")
    refused = tell(jobs, "cancel", job_id, config=config)
    assert refused.code == 1
    assert "can't be cancelled: it is cancelled, expected queued or running" in refused.errors
    assert tell(jobs, "replay", job_id, "--json", config=config).json["state"] == "queued"
    assert tell(jobs, "start", "autopilot", "--json", config=config).json["reason"].startswith("requested by ")


def test_a_running_job_is_told_to_stop(config: str, control: Control) -> None:
    """It runs until its worker sees it."""
    job = running_job(control.documents)
    assert tell(jobs, "cancel", job.id, config=config).text == f"job {job.id} (compact spans) is being cancelled\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["start", "compact"], "table is '', expected for compact "),
        (["start", "autopilot", "spans"], "table is 'spans', expected for autopilot none"),
        (["start", "compact", "spans", "--window", "2026-02-30"], "window is '2026-02-30', expected a day"),
        (["replay", MISSING], f"there is no job '{MISSING}'"),
        (["resume", MISSING], f"there is no pause '{MISSING}'"),
        (["pause", "--until", "2020-01-01"], "until is 2020-01-01T00:00:00Z, expected a time in the future"),
    ],
)
def test_what_can_not_be_done_is_said(config: str, arguments: list[str], words: str) -> None:
    """With what was expected."""
    told = tell(jobs, *arguments, config=config)
    assert told.code == 1
    assert words in told.errors


def test_work_is_paused_and_resumed(config: str, control: Control) -> None:
    """By whoever is at the terminal."""
    made = tell(jobs, "pause", "--task", "maintain", "--tables", "metrics_*", "--until", "2099-01-01", config=config)
    [pause] = control.pauses.list()
    assert made.text == (
        f"maintain of metrics_* is paused until 2099-01-01 00:00 UTC\n`neve jobs resume {pause.id}` resumes it\n"
    )
    assert pause.by
    assert tell(jobs, "resume", pause.id, config=config).text == "maintain of metrics_* is resumed\n"
    again = tell(jobs, "pause", "--reason", "night", "--json", config=config).json
    assert (again["task"], again["tables"], again["reason"]) == (None, "*", "night")
    assert tell(jobs, "resume", again["id"], "--json", config=config).json == again


@pytest.mark.parametrize("command", ["list", "show", "start", "cancel", "replay", "pause", "resume"])
def test_every_command_has_an_example(command: str) -> None:
    """In its help, with its own name."""
    assert f"    neve jobs {command}" in tell(jobs, command, "--help").text


def write(folder: Path, *names: str) -> str:
    """A file of policies."""
    path = folder / "written.yaml"
    rules = [{"name": name, "tables": ["s*"], "tasks": {"compact": {"every": "1h"}}} for name in names]
    path.write_text(json.dumps({"policies": rules}))
    return str(path)


def version(told: Told) -> str:
    """The version that a command told."""
    return str(told.json["version"])


def test_policies_are_shown_set_and_cleared(config: str, elsewhere: Path) -> None:
    """What is shown can be set; where it comes from is said."""
    before = tell(policies, "show", "--json", config=config)
    assert before.json["policies"] == []
    put = tell(policies, "set", write(elsewhere, "hourly", "later"), config=config)
    assert put.text.startswith("hourly, later: written by ")
    assert "warning: policy later: earlier policies have the rules for compact of its tables" in put.errors
    shown = tell(policies, "show", config=config)
    assert "written by" in shown.errors
    (elsewhere / "copy.yaml").write_text(shown.text)
    again = tell(policies, "set", str(elsewhere / "copy.yaml"), "--json", config=config)
    assert [one["name"] for one in again.json["policies"]] == ["hourly", "later"]
    cleared = tell(policies, "clear", "--if-version", version(again), config=config)
    assert cleared.text.startswith("no policies: ")
    assert version(tell(policies, "show", "--json", config=config)) == version(before)


def test_policies_that_changed_meanwhile_stay(config: str, elsewhere: Path) -> None:
    """With --if-version; and wrong ones are refused as a whole."""
    old = version(tell(policies, "show", "--json", config=config))
    file = write(elsewhere, "hourly")
    assert tell(policies, "set", file, "--if-version", old, config=config).code == 0
    for command in (["set", file, "--if-version", old], ["clear", "--if-version", old]):
        assert "they were changed meanwhile" in tell(policies, *command, config=config).errors
    wrong = tell(policies, "set", write(elsewhere, "not a name"), config=config)
    assert wrong.code == 1
    assert "policy 'not a name': name: got 'not a name'" in wrong.errors
    assert [one["name"] for one in tell(policies, "show", "--json", config=config).json["policies"]] == ["hourly"]
