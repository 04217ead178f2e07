"""`neve autopilot`: what it says of logs, of recommendations and of a run; no value of a query is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from neve.autopilot.attempt import Attempt, Stage, Step
from neve.autopilot.history import History
from neve.autopilot.layout import Layout
from neve.autopilot.outcome import Outcome
from neve.lake.commit.append import append_once
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.lake.tables import init_tables
from neve.lake.write.table_writer import Target, write_files
from neve.model.query_log import QUERIES
from neve.state.config import StateConfig
from neve.state.sql_documents import SqlDocuments
from neve.state.store import StateStore
from tests.autopilot.rollout.orders import TABLE, TARGET_BYTES, make_orders
from tests.cli.runner import run
from tests.query.lakes import settings_of

if TYPE_CHECKING:
    from pathlib import Path

SECRET = 4711
SMALL = {"min_table_bytes": 0, "sample_rows": 2000, "payback_days": 1e9}


@pytest.fixture
def folder(elsewhere: Path, iceberg: None) -> Path:
    """A lake with orders, a log of queries about them, and this folder's neve.yaml."""
    said = settings_of(elsewhere)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    make_orders(lake, files=6)
    init_tables(lake)
    with lake.table(TABLE).transaction() as change:
        change.set_properties({"write.target-file-size-bytes": str(TARGET_BYTES)})
    statements = [f"SELECT id FROM shop.orders WHERE customer = {number}" for number in (*range(40), SECRET)]
    put(lake, [*statements, f"SELECT {SECRET} FROM WHERE"])
    configure(elsewhere, recommend=SMALL)
    return elsewhere


def put(lake: Lake, statements: list[str]) -> None:
    """Rows of Neve's own table of queries, of the last hours."""
    rows: list[dict[str, Any]] = [
        {
            "organization_id": "acme",
            "timestamp": datetime.now(UTC) - timedelta(minutes=number),
            "query_id": f"{number:032x}",
            "sql": sql,
            "scans": [],
            "bytes": 50_000_000,
            "seconds": 0.5,
            "cache": "miss",
            "rollup": "",
            "state": "done",
        }
        for number, sql in enumerate(statements)
    ]
    table = lake.table(QUERIES.name)
    files = write_files(Target.of(table), pa.Table.from_pylist(rows, schema=QUERIES.schema))
    append_once(table, files, batch_id="queries", operation="test")


def configure(folder: Path, **autopilot: Any) -> None:
    """Write the settings."""
    said: dict[str, Any] = settings_of(folder) | {"state": {"path": str(folder / "state.db")}}
    specs = {"repository": str(folder / "specs")}
    (folder / "neve.yaml").write_text(json.dumps(said | {"autopilot": {"propose": specs, **autopilot}}))


def test_analyze_counts_and_shows_no_values(folder: Path) -> None:
    """Columns with their shares, hot queries, and what was not understood; values only where they are allowed."""
    text, listed = run("autopilot", "analyze"), run("autopilot", "analyze", "--json")
    assert text.code == 0, text.errors
    assert "41 queries since" in text.text
    assert "customer" in text.text
    assert "WHERE customer = ?" in text.text
    assert "1 query not understood" in text.errors
    [orders] = [one for one in listed.json["tables"] if one["table"] == TABLE]
    assert orders["patterns"][0]["share_of_queries"] == 1
    assert str(SECRET) not in text.text + text.errors + listed.text
    assert "customer = 0" in run("autopilot", "analyze", "--literals", "--json").text


def test_recommend_tells_the_interval_the_cost_and_the_rejected(folder: Path) -> None:
    """For people and for programs; a table that is not there is said."""
    text, listed = run("autopilot", "recommend", TABLE), run("autopilot", "recommend", TABLE, "--json", "--all")
    assert text.code == 0, text.errors
    assert "less, from" in text.text
    assert "pays back in" in text.text
    assert "rejected:" in text.text
    [found] = listed.json
    assert found["recommendations"][0]["interval_pct"]["low"] >= 30
    assert found["recommendations"][0]["promised_pct"]["low_pct"] >= 30
    assert all(one["reason"] for one in found["rejected"])
    assert str(SECRET) not in text.text + listed.text
    missing = run("autopilot", "recommend", "shop.nothing")
    assert missing.code == 1
    assert "no table shop.nothing in the catalog" in missing.errors


def test_a_run_with_nothing_to_do_says_why(folder: Path) -> None:
    """Small tables are left alone; settings that are not in the file come from the old variables."""
    configure(folder, metrics_port=0)
    text, listed = run("autopilot", "run", "--once", TABLE), run("autopilot", "run", "--once", "--json", TABLE)
    assert (text.code, listed.code) == (0, 0), text.errors
    assert "1 table examined, 41 queries (1 not parsed)" in text.text
    [report] = listed.json["tables"]
    assert (report["stage"], report["failed"]) == ("", False)
    assert report["reason"] in text.text
    staged = run("autopilot", "stage", TABLE)
    assert staged.code == 1
    assert f"nothing is recommended for {TABLE}" in staged.errors


def test_the_history_is_listed_and_told(folder: Path) -> None:
    """Attempts with what they promised and delivered; an id that means none or several is refused."""
    assert "no attempts yet" in run("autopilot", "history").text
    history = History(SqlDocuments(StateStore(StateConfig(path=str(folder / "state.db")))))
    now = datetime(2026, 1, 31, 2, tzinfo=UTC)
    for name in ("20260131-aa", "20260131-ab"):
        steps = (Step(Stage.RECOMMENDED, now, "sort by customer"), Step(Stage.FAILED, now, "it broke"))
        history.begin(Attempt(name, TABLE, "sort", Layout(), Layout(sort=("customer",)), steps))
    history.deliver(Outcome(TABLE, "20260131-aa", "sort", now, 60, 50, 55.5))
    listed, told = run("autopilot", "history", "--table", TABLE), run("autopilot", "history", "20260131-aa")
    assert "55.5" in listed.text
    assert "sorted by customer" in listed.text
    assert "it broke" in told.text
    assert len(run("autopilot", "history", "--json").json) == 2
    for arguments in (["canary", "nothing"], ["propose", "2026"], ["merge", "20260131-aa"]):
        assert run("autopilot", *arguments).code == 1
    assert "2 attempts have an id that begins with '2026'" in run("autopilot", "propose", "2026").errors
    assert "is failed, expected proposed" in run("autopilot", "merge", "20260131-aa").errors
    back = run("autopilot", "rollback", "20260131-aa", "--json")
    assert back.json["attempt"]["steps"][-1]["stage"] == "rolled_back"


def test_a_wrong_variable_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's old variables count where the file is silent."""
    monkeypatch.setenv("LOOKBACK_DAYS", "soon")
    ended = run("autopilot", "analyze")
    assert ended.code == 1
    assert "LOOKBACK_DAYS is wrong" in ended.errors
