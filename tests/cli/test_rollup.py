"""`neve rollup`: how the levels stand, without a JVM; what a run says; and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from neve.cli.maintenance import rollup
from neve.cli.time_options import TimeParam
from neve.lake.config import CatalogConfig, LakeConfig
from neve.lake.lake import Lake
from neve.model.levels import LEVELS
from neve.rollup.job import LevelResult
from tests.cli.runner import run
from tests.empty_tables import create_empty_tables
from tests.query.lakes import settings_of
from tests.rollup.test_job import point, put

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["1m", "5m", "1h", "1d"]
NEVER = "nothing rolled up yet: no run, or no closed window with rows"


@pytest.fixture
def folder(elsewhere: Path, iceberg: None) -> Path:
    """A lake with a few points, and this folder's neve.yaml."""
    said = settings_of(elsewhere)
    lake = Lake(LakeConfig.model_validate(said["lake"]), CatalogConfig.model_validate(said["catalog"]))
    create_empty_tables(lake)
    put(lake, [point(number * 20, number) for number in range(9)], "one")
    (elsewhere / "neve.yaml").write_text(json.dumps(said | {"state": {"path": str(elsewhere / "state.db")}}))
    return elsewhere


def test_levels_are_those_of_the_model() -> None:
    """The command line, which imports nothing heavy, knows the same names."""
    assert list(rollup.LEVELS) == [level.name for level in LEVELS] == NAMES


def test_status_of_a_lake_that_was_never_rolled_up(folder: Path) -> None:
    """Every level is there, with nothing in it."""
    text, listed = run("rollup", "status"), run("rollup", "status", "--json")
    assert (text.code, listed.code, text.errors) == (0, 0, "")
    assert [line["level"] for line in listed.json] == NAMES
    assert {(line["rows"], line["lag_seconds"], line["note"]) for line in listed.json} == {(0, None, NEVER)}
    assert text.text.count(NEVER) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--level", "2m"), "'2m' is not one of '1m', '5m', '1h', '1d'"),
        (("--since", "yesterday"), "'yesterday' is not a time, expected one like 2026-01-31 or 2026-01-31T08:30:00Z"),
        (("--since", "2999-01-01T00:00:00+02:00"), "is in the future"),
    ],
)
def test_what_is_not_understood_is_refused(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    """With what would be."""
    refused = run("rollup", "run", *arguments)
    assert refused.code == 2
    assert words in refused.errors


def test_a_lake_without_tables(elsewhere: Path) -> None:
    """Says what to do."""
    refused = run("rollup", "status")
    assert refused.code == 1
    assert "neve init" in refused.errors


def test_what_a_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that was left out is told with its number."""
    result = LevelResult(
        level="1m",
        table="metrics_1m",
        reason="first run: every window",
        committed=True,
        source_rows=1200,
        duplicates=3,
        without_value=2,
        unknown=4,
        rows=20,
        windows=1,
        left_windows=7,
        files_added=1,
        files_removed=2,
        delete_files=1,
        bytes_added=2_000_000,
        closed_until="2026-01-01T10:00:00Z",
        seconds=1.5,
    )
    rollup.show_result(result)
    assert capsys.readouterr().out.splitlines() == [
        "metrics_1m: 1,200 points became 20 rows in 1 window, final until 2026-01-01T10:00:00Z, in 1.5 s",
        "  first run: every window",
        "  1 file of 2 MB added, 2 removed, rows of 1 file marked as replaced",
        "  3 points arrived more than once and are counted once",
        "  2 points have no value (none recorded, NaN or infinite)",
        "  4 cumulative points have no earlier point to compute an increase from",
        "  7 windows are unchanged because retention may have removed some of their points",
    ]


def test_what_a_run_says_that_did_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """That it did nothing comes first; points that could not be used are told all the same."""
    why = "no new commits and no closed windows since the last run"
    rollup.show_result(LevelResult(level="5m", table="metrics_5m", reason=why, committed=False, unknown=12))
    assert capsys.readouterr().out.splitlines() == [
        f"metrics_5m: nothing to do in closed windows ({why})",
        "  12 cumulative points have no earlier point to compute an increase from",
    ]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31 08:30", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
        ("2026-01-31T08:30:00Z", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
        ("2026-01-31T08:30:00+02:00", datetime(2026, 1, 31, 6, 30, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    """With a zone or without."""
    assert TimeParam(past=True).convert(text, None, None) == moment


def test_windows_that_retention_may_have_touched_are_frozen() -> None:
    """By the rule for the source and the organization; a rule for points says nothing of rolled rows."""
    from neve.app.rollup import frozen_by_retention
    from neve.app.settings import Settings
    from neve.lake.calendar import micros_of
    from neve.lake.time_ranges import BEGINNING

    rules = [{"table": "metrics", "days": 10}, {"table": "metrics", "organization": "acme", "days": 3}]
    settings = Settings.model_validate({"maintain": {"retention": rules}})
    now = datetime(2026, 3, 20, tzinfo=UTC)
    raw, minutes = (frozen_by_retention(settings, source, now) for source in ("metrics", "metrics_1m"))
    assert raw("acme") == micros_of(now - timedelta(days=3))
    assert raw("other") == micros_of(now - timedelta(days=10))
    assert minutes("acme") == BEGINNING
