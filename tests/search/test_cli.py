"""`neve search`: how the index stands, without a JVM; what a run says; and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from neve.cli.maintenance import search
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.search.job import BuildResult
from tests.cli.conftest import elsewhere
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables
from tests.query.lakes import settings_of
from tests.search.lakes import index_here, put, with_index

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["elsewhere"]


@pytest.fixture
def lake(elsewhere: Path, iceberg: None) -> Lake:
    """A lake with a file that is indexed and one that is not, and this folder's neve.yaml."""
    said = settings_of(elsewhere)
    made = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(made)
    with_index(made)
    put(made, ["pool exhausted"])
    index_here(made)
    put(made, ["not yet"])
    (elsewhere / "neve.yaml").write_text(json.dumps(said | {"state": {"path": str(elsewhere / "state.db")}}))
    return made


def test_status_tells_what_is_indexed(lake: Lake) -> None:
    """In files, in bytes, and against the data."""
    text, listed = run("search", "status"), run("search", "status", "--json")
    assert (text.code, listed.code, text.errors) == (0, 0, "")
    assert [(line["table"], line["columns"]) for line in listed.json] == [
        ("logs", ["message"]),
        ("spans", ["trace_id"]),
    ]
    line = listed.json[0]
    assert (line["files"], line["files_indexed"], line["files_missing"], line["files_gone"]) == (2, 1, 1, 0)
    assert 0.4 < line["share"] < 0.6
    assert line["index_bytes"] > 0
    assert "not indexed" in text.text


def test_a_table_without_columns_to_index_is_refused(lake: Lake) -> None:
    """With those that have some."""
    refused = run("search", "build", "metrics", "--json")
    assert refused.code == 1
    assert "expected one of: logs, spans" in refused.errors
    assert refused.json == []


def test_a_lake_without_tables(elsewhere: Path) -> None:
    """Says what to do."""
    refused = run("search", "status")
    assert refused.code == 1
    assert "neve init" in refused.errors


def test_what_a_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    """What was indexed, why, and what could not be."""
    result = BuildResult(
        table="logs",
        columns=("message",),
        reason="2 files are not indexed",
        committed=True,
        files_indexed=1,
        files_left_out=1,
        rows=1200,
        data_bytes=2_000_000,
        index_bytes=50_000,
        seconds=1.5,
    )
    search.show_result(result)
    search.show_result(BuildResult("logs", ("message",), "every file is indexed", committed=False))
    assert capsys.readouterr().out.splitlines() == [
        "logs: 1 file of 2 MB indexed in 50 kB, 1,200 rows, in 1.5 s",
        "  2 files are not indexed",
        "  1 file can't be indexed: every search opens unindexed files",
        "logs: every file is indexed",
    ]
