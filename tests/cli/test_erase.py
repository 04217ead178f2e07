"""`neve erase`: counts, questions and errors."""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING

import pytest

from neve.app.settings import Settings
from neve.app.wiring import build_lake
from neve.model.tables import LOGS
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables
from tests.erase.copies import ACME, KEY, MARKER, commit, make_rows, mark

if TYPE_CHECKING:
    from pathlib import Path

WHERE = f"attributes['{KEY}'] = '{MARKER}'"


@pytest.fixture
def config(tmp_path: Path, iceberg: None) -> str:
    """The configuration of a lake with two marked log records and one other."""
    said = {
        "organization": ACME,
        "lake": {"warehouse": str(tmp_path / "warehouse")},
        "catalog": {"path": str(tmp_path / "catalog.db")},
        "state": {"path": str(tmp_path / "state.db")},
    }
    lake = build_lake(Settings.model_validate(said))
    create_empty_tables(lake)
    rows = make_rows(LOGS, Random(1), 3)
    commit(lake, LOGS, [rows[0], mark(LOGS, rows[1]), mark(LOGS, rows[2])], "a")
    file = tmp_path / "neve.json"
    file.write_text(json.dumps(said))
    return str(file)


@pytest.mark.slow
def test_records_are_counted_erased_and_audited(config: str) -> None:
    """The condition's value is in no output and no entry."""
    counted = run("-c", config, "erase", "--where", WHERE, "--dry-run")
    assert (counted.code, "to erase: 2 rows of acme" in counted.text) == (0, True)
    done = run("-c", config, "erase", "--where", WHERE, "--yes", "--json")
    assert (done.code, done.json["matched"], done.json["proven"]) == (0, 2, True)
    assert MARKER not in done.text
    [entry] = run("-c", config, "audit", "--action", "erase", "--json").json
    assert (entry["subject"], entry["details"]["rows"]) == ("attributes[?] = ?", "2")
    again = run("-c", config, "erase", "--where", WHERE, "--yes")
    assert (again.code, "erased: 0 rows of acme" in again.text) == (0, True)
    assert "proof: a search of all tables and snapshots found no matching row" in again.text


def test_nothing_is_erased_without_an_answer(config: str) -> None:
    """An input that ends is no consent."""
    ended = run("-c", config, "erase", "--where", WHERE)
    assert ended.code != 0
    assert "2 rows" in run("-c", config, "erase", "--where", WHERE, "--dry-run").text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "an erasure needs a condition or a text"),
        (["--text", "ab"], "text has 2 characters, expected 4 or more"),
        (["--where", "x IN (SELECT 1)"], "where has a subquery or no column"),
        (["--where", "x = 'abcd'", "--org", "*"], "organization is '*'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], words: str) -> None:
    """Before anything is read."""
    ended = run("erase", *arguments, "--yes")
    assert (ended.code, words in ended.errors) == (1, True)
