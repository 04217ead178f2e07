"""`neve status`: drawn for a terminal, told to a program, asked of a server."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from neve.api.control.routes import control_routes
from neve.app.reports import StatusReport
from neve.cli.operator_commands import STATES, TASKS
from neve.cli.status import status
from neve.cli.status_view import draw, failure_view, status_view
from neve.jobs.job import JobState, Task
from neve.receive.authentication import KeyGuard
from neve.state.keys import Keys
from neve.state.scopes import Scope
from neve.state.store import StateStore
from tests.api.querying import serving
from tests.app.control_lake import controlled, running_job
from tests.cli.direct import tell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rich.console import RenderableType

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    """So long before now."""
    return NOW - timedelta(seconds=seconds)


def job(**given: Any) -> dict[str, Any]:
    """A job as it is reported."""
    return {
        "id": "6606896589fe6e3760",
        "task": "compact",
        "table": "spans",
        "window": "2026-01-31",
        "reason": "14 files of 3.1 MB",
        "state": "running",
        "created": ago(90),
        "not_before": ago(90),
        "attempts": 1,
        "owner": "host:7:1",
        "started": ago(75),
        "ended": None,
        "progress": {"step": "groups", "done": 3, "total": 12},
        "again": False,
        "cancel": False,
        "outcome": "",
        "result": {},
        "error": "",
        "hint": "",
        **given,
    }


def part(**given: Any) -> dict[str, Any]:
    """A part as it is reported."""
    return {
        "instance": "host:1",
        "process": "tend",
        "name": "ingest:raw",
        "state": "running",
        "since": ago(3000),
        "pid": 7,
        "restarts": 0,
        "error": "",
        "details": {"lag_seconds": 1.25, "leader": True, "jobs": {"queued": 1}},
        "seen": NOW,
        **given,
    }


def report(**given: Any) -> StatusReport:
    """A status with something of everything."""
    lags = {
        "zones": [{"zone": "otlp", "segments": 3, "bytes": 12_000_000, "oldest_seconds": 4}],
        "tables": [
            {"table": "spans", "last_commit": ago(12), "age_seconds": 12},
            {"table": "logs", "last_commit": None, "age_seconds": None},
        ],
        "rollups": [
            {
                "level": "1m",
                "table": "metrics_1m",
                "closed_until": "2026-01-31T11:58:00Z",
                "lag_seconds": 121,
                "commits_behind": 2,
                "note": "",
            }
        ],
        "tail": {
            "selector": "main",
            "cycle": 1234,
            "last_cycle": "2026-01-31T11:59:50+00:00",
            "open_traces": 17,
            "behind": "1",
            "decisions": 99,
            "destinations": ["otlp: has everything"],
        },
        "unknown": ["the raw zone: no such bucket"],
    }
    pause = {
        "id": "p1",
        "task": None,
        "tables": "metrics_*",
        "by": "mara",
        "reason": "migration",
        "since": ago(60),
        "until": NOW,
    }
    return StatusReport.model_validate(
        {
            "at": NOW,
            "parts": [part(), part(name="tail", state="failed", restarts=3, error="no policies", since=ago(30))],
            "queues": [{"task": "compact", "queued": 2, "running": 1, "dead": 1, "oldest_seconds": 300}],
            "running": [job(), job(id="unknown", progress={"step": "", "done": 0, "total": 0}, cancel=True)],
            "ended": [
                job(state="done", ended=ago(20), outcome="14 files became 2, health 41 to 97"),
                job(state="cancelled", ended=ago(4000)),
            ],
            "dead": [job(state="dead", ended=ago(7300), attempts=5, error="disk \x1b[2J full", hint="make room")],
            "pauses": [pause],
            "lags": lags,
            **given,
        }
    )


def drawn(view: RenderableType) -> str:
    """As it stands on a terminal of a hundred columns, without the blanks at the ends of lines."""
    sink = StringIO()
    Console(file=sink, width=100, highlight=False).print(view)
    return re.sub(r" +\n", "\n", sink.getvalue())


def test_everything_is_drawn_in_a_hundred_columns() -> None:
    """Nothing is cut off: what does not fit goes on in the next line."""
    text = drawn(status_view(report()))
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith(
        "2026-01-31 12:00:00 UTC: 2 parts (1 unhealthy), 2 queued, 1 running, 1 dead, 1 paused\n\nparts\n"
    )
    flat = re.sub(r"\s+", " ", text)
    for words in (
        "tend ingest:raw running 50 min 0 lag 1.25 s, leader yes",
        "tend tail failed 30 s 3 no policies",
        "compact 2 5 min 1 1",
        "otlp 4 s 3 segments of 12 MB wait",
        "spans 12 s since the last commit",
        "metrics_1m 2.02 min final until 2026-01-31T11:58:00Z, 2 commits behind",
        "cycle 1,234 at 2026-01-31T11:59:50+00:00, 17 open traces, unread commits of spans: 1",
        "unknown the raw zone: no such bucket",
        "every task metrics_* 2026-01-31 12:00 UTC mara migration",
    ):
        assert words in flat, words


def test_a_part_that_runs_and_is_ill_is_not_well() -> None:
    """With what it says, and not with what it failed of before."""
    ill = part(error="an old story", details={"error": "the store is away", "batch": 7})
    text = re.sub(r"\s+", " ", drawn(status_view(report(parts=[part(), ill]))))
    assert "2 parts (1 unhealthy)" in text
    assert "running, degraded 50 min 0 the store is away" in text
    assert "an old story" not in text


def test_what_organizations_sent_is_drawn() -> None:
    """As the receiver tells it; without one nothing is said."""
    sent = {"organization": "acme", "bytes": 12_000_000, "records": 5000, "refused": 7, "backlog_bytes": 3_000_000}
    receiver = part(process="receiver", name="receiver", details={"organizations": [sent]})
    text = re.sub(r"\s+", " ", drawn(status_view(report(parts=[part(), receiver]))))
    assert "organization received records over quota waiting acme 12 MB 5,000 7 3 MB" in text
    assert "over quota" not in drawn(status_view(report()))


def test_parts_of_two_that_serve_are_told_apart() -> None:
    """By the name of each; of one alone it is not said."""
    assert "host:1" not in drawn(status_view(report()))
    text = drawn(status_view(report(parts=[part(), part(instance="other:2")])))
    assert "host:1 tend" in text
    assert "other:2 tend" in text


def test_a_running_job_has_a_bar_and_a_step() -> None:
    """A quarter of it is done; of one that does not say, there is none."""
    text = drawn(status_view(report()))
    assert "━━━" in text
    assert "3 of 12" in re.sub(r"\s+", " ", text)
    assert text.count("6606896589fe6e3760") == 4
    assert "stopping:" in text


def test_a_dead_job_says_why_and_what_to_do() -> None:
    """And can't steer the terminal with what it says."""
    text = drawn(status_view(report()))
    assert "\x1b" not in text
    assert "`neve jobs replay ID` retries" in text
    flat = re.sub(r"\s+", " ", text)
    assert "5 disk \\x1b[2J full" in flat
    assert "hint: make room" in flat


def test_an_empty_lake_is_drawn_too() -> None:
    """Sections with nothing in them are left out, and where to begin is said."""
    lags: dict[str, Any] = {"zones": [], "tables": [], "rollups": [], "tail": None, "unknown": []}
    nothing: dict[str, Any] = {name: [] for name in ("parts", "queues", "running", "ended", "dead", "pauses")}
    text = drawn(status_view(report(**nothing, lags=lags)))
    assert "no service is running: `neve serve` starts one" in text
    assert "dead:" not in text
    assert "paused" not in text
    assert drawn(failure_view("away\x07")) == "no status: away\\x07\n"


def test_it_comes_from_the_store_and_the_catalog(config: str) -> None:
    """Without a server; as text and as JSON."""
    told = tell(status, config=config)
    assert (told.code, told.errors) == (0, "")
    assert "0 parts, 0 queued, 0 running, 0 dead" in told.text
    assert "since the last commit" in told.text
    document = tell(status, "--json", config=config).json
    assert [one["task"] for one in document["queues"]] == list(TASKS)
    assert StatusReport.model_validate(document).lags.unknown == []


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, iceberg: None) -> Iterator[tuple[str, str]]:
    """A server that asks for keys, and a key that may operate."""
    with controlled(tmp_path_factory.mktemp("far")) as control:
        running_job(control.documents)
        state = StateStore(control.settings.state)
        keys = Keys(state)
        _, text = keys.create("acme", "on-call", [Scope.ADMIN])
        guard = KeyGuard(keys, 10)
        with serving(None, guard, first=control_routes(control, guard)) as client:
            yield f"http://127.0.0.1:{client.port}", text
        state.close()


def test_a_server_tells(server: tuple[str, str], elsewhere: Path) -> None:
    """The same, without the catalog; who may not is told so."""
    address, key = server
    told = tell(status, "--server", address, "--key", key)
    assert "1 running" in told.text
    assert "3 of 8" in re.sub(r"\s+", " ", told.text)
    assert [job["table"] for job in tell(status, "--server", address, "--key", key, "--json").json["running"]] == [
        "spans"
    ]
    refused = tell(status, "--server", address)
    assert (refused.code, refused.errors) == (
        1,
        "an API key is required, as `Authorization: Bearer` or as `X-Api-Key`",
    )
    assert not (elsewhere / "lake").exists()


def test_what_the_command_line_repeats_is_what_the_rooms_say() -> None:
    """A new task or state can't be forgotten at the door."""
    assert tuple(Task) == TASKS
    assert tuple(JobState) == STATES


def test_it_is_printed_as_wide_as_there_is_room(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no terminal, wide enough."""
    draw(status_view(report()))
    assert "14 files became 2, health 41 to 97" in capsys.readouterr().out
