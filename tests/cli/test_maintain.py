"""`neve maintain`: said in words and in JSON; looking needs no JVM."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from neve.cli.maintenance import maintain
from neve.maintain.job import STEPS
from neve.state.leases import hold_worker_lease
from tests.cli.runner import run
from tests.compact.tables import documents_in
from tests.query.lakes import make_lake, settings_of

if TYPE_CHECKING:
    from pathlib import Path

LONG_AGO = 1_700_000_000


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of this process stay as they are."""
    monkeypatch.setattr("neve.api.log_config.configure_logs", lambda: None)


@pytest.fixture
def folder(elsewhere: Path, iceberg: None) -> Path:
    """A filled lake with rules of retention, an orphan of 2023, and this folder's neve.yaml."""
    make_lake(elsewhere)
    rules = [{"days": 30}, {"organization": "globex", "days": 0}, {"table": "spans", "days": 36_000}]
    said = settings_of(elsewhere) | {"maintain": {"retention": rules, "tags": {"enabled": True}}}
    (elsewhere / "neve.yaml").write_text(json.dumps(said))
    path = orphan(elsewhere)
    path.write_bytes(b"x" * 2000)
    os.utime(path, (LONG_AGO, LONG_AGO))
    return elsewhere


def orphan(folder: Path) -> Path:
    """A file that no snapshot knows."""
    return folder / "warehouse" / "telemetry" / "spans" / "data" / "left.parquet"


def test_there_is_a_command_for_each_step() -> None:
    """And for all of them, and for what was done."""
    assert set(maintain.maintain.commands) == {*STEPS, "all", "history"}
    assert tuple(STEPS) == maintain.STEPS


@pytest.mark.parametrize("step", [*sorted(STEPS), "all"])
def test_a_dry_run_says_what_would_be_done(folder: Path, step: str) -> None:
    """Of every table, as text and as JSON, without a JVM, without a trace."""
    text, listed = run("maintain", step, "--dry-run"), run("maintain", step, "--dry-run", "--json")
    assert (text.code, listed.code, text.errors.replace(ORPHANS_STAY, "")) == (0, 0, "")
    assert {result["table"].removeprefix("telemetry.") for result in listed.json} == {
        *("ingested_files", "logs", "metrics", "quarantine", "queries", "search_index", "spans"),
        *("audit", "recorded", "service_edges", "trace_summaries"),
        *("metrics_1m", "metrics_5m", "metrics_1h", "metrics_1d", "metric_series", "log_streams", "log_volumes"),
        *("trace_decisions", "open_traces", "span_repeats", "sampled_spans", "logs_sample", "spans_sample"),
    }
    assert all(result["dry_run"] and result["reason"] and not result["changed"] for result in listed.json)
    assert all(f"{result['table']}: {result['step']}: {result['reason']}" in text.text for result in listed.json)
    assert orphan(folder).exists()
    assert run("maintain", "history", "--json").json == []


ORPHANS_STAY = "nothing was removed; --delete removes them\n"


def test_orphans_are_listed_first_and_removed_when_asked_to(folder: Path) -> None:
    """With their paths and bytes; the removal is in the history, the listing is not."""
    first = run("maintain", "orphans", "spans")
    assert (first.code, first.errors) == (0, ORPHANS_STAY)
    assert first.text.startswith("telemetry.spans: orphans: 1 orphan among ")
    assert (
        f"  remove   {orphan(folder)} (2 kB): no metadata references it; last modified 2023-11-14 22:13:20\n"
        in first.text
    )
    second = run("maintain", "orphans", "spans", "--delete", "--json")
    [result] = second.json
    assert (result["gain"]["files"], result["gain"]["bytes"], orphan(folder).exists()) == (1, 2000, False)
    header, line = run("maintain", "history").text.splitlines()
    assert header.split() == ["started", "table", "step", "seconds", "freed", "written", "what"]
    assert "telemetry.spans  orphans" in line
    assert "2 kB" in line
    [remembered] = run("maintain", "history", "spans", "--step", "orphans", "--json").json
    assert remembered == {key: value for key, value in result.items() if key != "entries"}
    assert run("maintain", "history", "logs", "--json").json == []


def test_young_orphans_need_force(folder: Path) -> None:
    """The error says why, before anything is looked at."""
    refused = run("maintain", "orphans", "spans", "--older-than", "1")
    assert refused.code == 1
    assert "is 60 min, expected at least 24 h" in refused.errors
    assert "--force-young if there is no writer" in refused.errors
    forced = run("maintain", "orphans", "spans", "--older-than", "1", "--force-young", "--json")
    assert (forced.code, forced.json[0]["gain"]["files"]) == (0, 1)


def test_retention_says_whose_rows_go_and_why(folder: Path) -> None:
    """The rule that says most, in words."""
    text = run("maintain", "retention", "logs", "spans", "ingested_files", "--dry-run").text
    assert "delete   rows of acme before 20" in text
    assert "whole partitions; kept for 30 days by the rule for every table" in text
    assert "keep     rows of globex: the rule for organization globex keeps it forever" in text
    assert "keep     rows of acme: nothing is older than 36000 days" in text
    assert "telemetry.ingested_files: retention: no retention rule applies to this table" in text


def test_a_table_that_is_not_there_and_a_lake_that_is_not(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are errors with a hint."""
    missing = run("maintain", "expire", "sales.orders")
    assert missing.code == 1
    assert "there is no table sales.orders in the catalog" in missing.errors
    monkeypatch.setenv("NEVE_CATALOG__PATH", str(folder / "other.db"))
    assert run("maintain", "all", "--json").errors == '{"error": "the lake has no tables", "hint": "run `neve init`"}\n'


def test_a_step_that_fails_is_told_and_ends_with_1(folder: Path) -> None:
    """The other steps and tables have their turn."""
    rules = [{"table": "logs", "column": "message", "days": 1}]
    (folder / "neve.yaml").write_text(json.dumps(settings_of(folder) | {"maintain": {"retention": rules}}))
    ended = run("maintain", "all", "logs", "metrics")
    assert ended.code == 1
    assert ended.errors.startswith("error: telemetry.logs: retention: telemetry.logs has no time column for retention")
    assert "telemetry.metrics: expire: none of 1 snapshot can expire" in ended.text
    listed = run("maintain", "all", "logs", "--json")
    assert listed.code == 1
    assert [result["error"] is None for result in listed.json].count(False) == 1


def test_a_bad_rule_is_refused_at_the_start(folder: Path) -> None:
    """With the key and what was expected."""
    (folder / "neve.yaml").write_text(
        json.dumps({"maintain": {"retention": [{"days": -1}], "orphans": {"older_than_hours": 1}}})
    )
    ended = run("maintain", "all")
    assert ended.code == 1
    assert "maintain.retention.0.days: got -1, which should be greater than or equal to 0" in ended.errors
    assert "maintain.orphans.older_than_hours: got 1, which should be greater than or equal to 24" in ended.errors


def test_a_history_of_nothing_says_how_to_begin() -> None:
    """An empty list is no error."""
    assert run("maintain", "history").text == "no runs yet; `neve maintain all` runs every step\n"


def test_a_table_that_another_one_is_at_is_told_and_ends_with_1(folder: Path) -> None:
    """With who it is and what to do; the other tables have their turn."""
    (folder / "neve.yaml").write_text(json.dumps(settings_of(folder) | {"state": {"path": str(folder / "state.db")}}))
    with hold_worker_lease(documents_in(folder), "maintain:telemetry.logs", owner="somebody", seconds=60):
        ended = run("maintain", "expire", "logs", "metrics")
        listed = run("maintain", "expire", "logs", "--json")
    assert (ended.code, listed.code) == (1, 1)
    assert ended.errors.startswith(
        "error: telemetry.logs: lease: the lease 'maintain:telemetry.logs' is held by somebody"
    )
    assert "take it with --steal" in ended.errors
    assert "telemetry.metrics: expire: none of 1 snapshot can expire" in ended.text
    assert [result["step"] for result in listed.json] == ["lease"]
