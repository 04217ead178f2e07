"""`neve compact`: what it would do and why, said in words and in JSON; looking needs no JVM."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from neve.cli.maintenance import compact
from neve.compact.config import CompactConfig
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from tests.cli.runner import run
from tests.compact.tables import documents_in, fill_logs
from tests.empty_tables import create_empty_tables
from tests.query.lakes import settings_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(elsewhere: Path, iceberg: None) -> Path:
    """A lake whose logs are fourteen small files, and this folder's neve.yaml."""
    said = settings_of(elsewhere)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    fill_logs(lake, files=14, rows=2)
    (elsewhere / "neve.yaml").write_text(json.dumps(said | {"state": {"path": str(elsewhere / "state.db")}}))
    return elsewhere


def test_strategies_are_those_of_the_configuration() -> None:
    """The command line, which imports nothing heavy, knows the same names."""
    field = CompactConfig.model_fields["strategy"]
    assert set(compact.STRATEGIES) == set(field.annotation.__args__)  # type: ignore[union-attr]


def test_a_plan_says_what_and_why(folder: Path) -> None:
    """Groups with their reason, their executor and its reason, and what it would take."""
    text, listed = run("compact", "plan", "logs"), run("compact", "plan", "logs", "--json")
    assert (text.code, listed.code, text.errors) == (0, 0, "")
    assert "14 files" in text.text
    assert "12 or more" in text.text or "fragments" in text.text
    assert "by arrow" in text.text
    assert "total: 1 group," in text.text
    [group] = listed.json["groups"]
    assert len(group["files"]) == 14
    assert group["reason"]
    assert group["estimate"]["output_files"] == 1
    assert listed.json["estimate"]["dollars"] > 0
    assert not (folder / "state.db").exists() or run("compact", "history", "--json").json == []


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    """Of all tables, what a run would do."""
    before = run("tables", "--json").json
    dry = run("compact", "run", "--dry-run", "--json")
    assert dry.code == 0
    assert {plan["table"] for plan in dry.json} >= {"telemetry.logs", "telemetry.spans"}
    assert run("tables", "--json").json == before


def test_explain_gives_every_partition_its_reason(folder: Path) -> None:
    """Also those that are left alone."""
    told = run("compact", "explain", "logs", "--json").json
    assert [one["verdict"] for one in told["partitions"]] == ["rewrite"]
    assert all(one["reason"] and 0 <= one["health"] <= 100 for one in told["partitions"])
    alone = run("compact", "explain", "logs", "--strategy", "deletes", "--json").json
    assert [one["verdict"] for one in alone["partitions"]] == ["leave alone"]
    assert "logs" in run("compact", "explain", "logs").text


def test_status_and_history_of_an_idle_lake(folder: Path) -> None:
    """Health of every table; no run yet."""
    lines = {line["table"]: line for line in run("compact", "status", "--json").json}
    assert lines["telemetry.logs"]["files"] == 14
    assert lines["telemetry.logs"]["running"] is None
    assert lines["telemetry.spans"]["health"] == 100
    assert "never" in run("compact", "status").text
    idle = run("compact", "history")
    assert (idle.code, idle.text) == (0, "")
    assert "no finished runs yet" in idle.errors


def test_a_running_compactor_is_named(folder: Path) -> None:
    """Who is at it, from the lease."""
    from neve.state.leases import hold_worker_lease

    with hold_worker_lease(documents_in(folder), "compact:telemetry.logs", owner="worker-7", seconds=60):
        assert run("compact", "status", "logs", "--json").json[0]["running"] == "worker-7"
        assert "run by worker-7" in run("compact", "status", "logs").text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "nothing"), "there is no table telemetry.nothing"),
        (("plan", "a.b"), "there is no table a.b"),
        (("plan", "logs", "--target-size", "many"), "expected bytes like 256MB"),
    ],
)
def test_mistakes_are_told(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    """What was wrong and what was expected."""
    told = run("compact", *arguments)
    assert told.code == 1
    assert words in told.errors
