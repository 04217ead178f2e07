"""Jobs and pauses over HTTP: started, cancelled, replayed, held up, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import structlog

from tests.api.operating import MISSING, error_of, send
from tests.app.control_lake import dead_job, done_job, running_job

if TYPE_CHECKING:
    from neve.app.control import Control
    from tests.api.querying import Client


def test_a_job_is_started_cancelled_and_replayed(control: Control, operator: Client) -> None:
    """Wanted twice it is one job; each change is told with what became of it."""
    with structlog.testing.capture_logs() as told:
        started = send(operator, "POST", "jobs", {"task": "compact", "table": "spans", "window": "2026-01-31"})
        job = started.json
        assert (started.status, job["state"], job["window"]) == (202, "queued", "2026-01-31")
        assert job["reason"] == "requested by anyone on this machine"
        again = {"task": "compact", "table": "spans", "window": "2026-01-31", "reason": "in a hurry"}
        assert send(operator, "POST", "jobs", again).json["id"] == job["id"]
        ended = send(operator, "POST", f"jobs/{job['id']}/cancel")
        assert (ended.status, ended.json["state"]) == (202, "cancelled")
        status, code, message = error_of(send(operator, "POST", f"jobs/{job['id']}/cancel"))
        assert (status, code) == (409, "conflict")
        assert "can't be cancelled: it is cancelled, expected queued or running" in message
        replayed = send(operator, "POST", f"jobs/{job['id']}/replay")
        assert (replayed.status, replayed.json["state"], replayed.json["id"]) == (202, "queued", job["id"])
    assert [(one["event"], one["by"], one["job"]) for one in told if one["event"].startswith("job ")] == [
        (event, "anyone on this machine", job["id"])
        for event in ("job started", "job started", "job cancelled", "job replayed")
    ]
    assert control.jobs.get(job["id"]) is not None


def test_a_running_job_is_told_to_stop(control: Control, operator: Client) -> None:
    """Its worker ends it; until then it runs."""
    job = running_job(control.documents)
    told = send(operator, "POST", f"jobs/{job.id}/cancel").json
    assert (told["state"], told["cancel"], told["progress"]) == (
        "running",
        True,
        {"step": "groups", "done": 3, "total": 8},
    )
    assert error_of(send(operator, "POST", f"jobs/{job.id}/replay"))[:2] == (409, "conflict")


def test_a_dead_job_is_listed_and_replayed(control: Control, operator: Client) -> None:
    """With why it failed; afterwards it is no longer dead."""
    dead = dead_job(control.documents)
    [found] = send(operator, "GET", "jobs?state=dead").json["jobs"]
    assert (found["id"], found["hint"], found["attempts"]) == (dead.id, "remove it", 1)
    assert send(operator, "POST", f"jobs/{dead.id}/replay").json["state"] == "queued"
    assert send(operator, "GET", "jobs?state=dead").json["jobs"] == []


def test_jobs_are_listed_by_state_task_and_table(control: Control, operator: Client) -> None:
    """The newest first; a key without a value asks for nothing."""
    running, done = running_job(control.documents), done_job(control.documents)

    def listed(query: str) -> list[str]:
        return [job["id"] for job in send(operator, "GET", f"jobs?{query}").json["jobs"]]

    assert listed("") == listed("state=&task=&table=&limit=") == [done.id, running.id]
    assert listed("limit=1") == listed("task=rollup") == listed("state=done&table=metrics_1m") == [done.id]
    assert listed("table=nothing") == []


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("state=lost", 'state is "lost", expected one of queued, running, done, cancelled, dead'),
        ("limit=0", 'limit is "0", expected a maximum number of results, from 1 to 1000'),
        ("limit=ten", 'limit is "ten"'),
        ("colour=red", 'unknown key "colour", expected one of state, task, table, limit'),
        ("state=done&state=dead", '"state" is given twice in the query string'),
        ("table=%00", 'table is "\\u0000", expected the table\'s name'),
    ],
)
def test_a_list_that_can_not_be_made(operator: Client, query: str, words: str) -> None:
    """With the key, the value and what was expected."""
    status, code, message = error_of(send(operator, "GET", f"jobs?{query}"))
    assert (status, code) == (400, "bad_request")
    assert words in message


@pytest.mark.parametrize("job_id", [MISSING, "nothing", "%00", "..%2F..", "z" * 5000])
def test_a_job_that_there_is_not(operator: Client, job_id: str) -> None:
    """However it is asked for."""
    asked = [("GET", f"jobs/{job_id}"), *(("POST", f"jobs/{job_id}/{verb}") for verb in ("cancel", "replay"))]
    for method, path in (*asked, ("DELETE", f"pauses/{job_id}")):
        assert error_of(send(operator, method, path))[:2] == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"table": "spans"},
            "task is missing, expected one of compact, maintain, rollup, search, series, traces, autopilot",
        ),
        ({"task": "drop", "table": "spans"}, 'task is "drop", expected one of compact'),
        ({"task": "compact", "table": "nothing"}, "table is 'nothing', expected for compact "),
        ({"task": "compact", "table": "../spans"}, "table is '../spans', expected for compact "),
        ({"task": "rollup", "table": "spans"}, "expected for rollup metrics_1m, metrics_5m, metrics_1h, metrics_1d"),
        ({"task": "autopilot", "table": "spans"}, "expected for autopilot none, because it concerns all tables"),
        ({"task": "compact", "table": "spans", "window": "today"}, "window is 'today', expected a day as YYYY-MM-DD"),
        ({"task": "search", "table": "logs", "window": "2026-01-31"}, "only compact works by day"),
        ({"task": "compact", "table": "spans", "reason": "a\nb"}, 'reason is "a\\nb", expected a reason in one line'),
        ({"task": "compact", "table": "spans", "reason": "x" * 501}, "of at most 500 characters"),
        ({"task": "compact", "table": 7}, "table is 7, expected a table name"),
        ({"task": "compact", "table": "spans", "tabel": 1}, 'unknown key "tabel"'),
        (["compact"], "expected a JSON object"),
    ],
)
def test_a_job_that_can_not_be_started(control: Control, operator: Client, body: Any, words: str) -> None:
    """Is refused with the key and the value, and wanted by nobody."""
    status, code, message = error_of(send(operator, "POST", "jobs", body))
    assert (status, code) == (400, "bad_request")
    assert words in message
    assert control.jobs.list() == []


def test_work_is_paused_and_goes_on(control: Control, operator: Client) -> None:
    """Who, why and until when are kept, and the plan knows it."""
    until = control.documents.now() + timedelta(days=2)
    asked = {"task": "maintain", "tables": "metrics_*", "reason": "migration", "until": until.isoformat()}
    made = send(operator, "POST", "pauses", asked)
    assert (made.status, made.json["by"], made.json["task"]) == (201, "anyone on this machine", "maintain")
    assert send(operator, "GET", "pauses").json == {"pauses": [made.json]}
    assert send(operator, "GET", "status").json["pauses"] == [made.json]
    held = {line["table"] for line in send(operator, "GET", "plan").json["lines"] if line["state"] == "paused"}
    assert {"metrics_1m", "metrics_1d"} <= held
    ended = send(operator, "DELETE", f"pauses/{made.json['id']}")
    assert (ended.status, ended.json) == (200, made.json)
    assert send(operator, "GET", "pauses").json == {"pauses": []}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"until": "2020-01-01T00:00:00Z"}, "until is 2020-01-01T00:00:00Z, expected a time in the future"),
        ({"until": "tomorrow"}, 'until is "tomorrow", expected an RFC 3339 time'),
        ({"tables": ""}, 'tables is "", expected a pattern of table names'),
        ({"tables": "\x1b[2J"}, "tables is "),
        ({"task": ["maintain"]}, "task is "),
        ({"by": "somebody else"}, 'unknown key "by"'),
    ],
)
def test_a_pause_that_can_not_be(control: Control, operator: Client, body: Any, words: str) -> None:
    """Is refused; nobody says who they are but their key."""
    status, code, message = error_of(send(operator, "POST", "pauses", body))
    assert (status, code) == (400, "bad_request")
    assert words in message
    assert control.pauses.list() == []
