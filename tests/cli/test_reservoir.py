"""`neve reservoir`: sampling, looking at what was sampled, estimating from it, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from neve.cli.sampling import reservoir
from neve.reservoir.config import ReservoirConfig
from neve.reservoir.results import RunResult, WindowResult
from tests.cli.runner import run
from tests.otap.stars import make_star
from tests.query.lakes import settings_of
from tests.reservoir.otap.contents import by_name, contents, files_of, numbered

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def folder(elsewhere: Path) -> Path:
    """Two windows of logs of two services in the folder `otap`, and this folder's neve.yaml."""
    make_star(elsewhere / "otap", logs=numbered(60, ("shop", "cart")))
    said = settings_of(elsewhere)
    said["catalog"]["name"] = "sampled"  # the shared session remembers catalogs by their names
    more = {
        "state": {"path": str(elsewhere / "state.db")},
        "spark": {"master": "local[2]"},
        "reservoir": {"window_seconds": 30},
    }
    (elsewhere / "neve.yaml").write_text(json.dumps(said | more))
    return elsewhere


@pytest.fixture
def session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The shared session, which has its jars."""
    monkeypatch.setattr("neve.lake.spark.session.local_paths", lambda _jars: [])
    return spark


@pytest.mark.long
def test_a_run_and_what_is_seen_of_it(session: SparkSession, folder: Path) -> None:
    """Run, run again, look, estimate beside the truth, and by the default as a query."""
    dry = run("reservoir", "run", "otap", "out", "--k", "5", "--dry-run")
    assert (dry.code, dry.errors) == (0, "")
    assert dry.text.splitlines()[-1] == "2 windows would be sampled"
    assert not (folder / "out").exists()

    first = run("reservoir", "run", "otap", "out", "--k", "5")
    assert first.code == 0, first.errors
    assert "19700101T000000Z: 10 of 30 logs kept in" in first.text
    assert "2 windows sampled (5 by service.name, priority): 20 of 60 records kept (33.3 %)" in first.text
    again = run("reservoir", "run", "otap", "out/", "--k", "5", "--json")
    assert (again.json["windows"], again.json["current"], again.json["kept"]) == ([], 2, 0)
    other = run("reservoir", "run", "otap", "out", "--k", "6", "--until", "1970-01-01T00:00:30Z")
    assert "1 window unchanged since they were sampled" in other.text
    assert "note: 1 window sampled with other settings before and unchanged; --again samples them again" in other.errors

    seen, listed = run("reservoir", "inspect", "out"), run("reservoir", "inspect", "out", "--json")
    assert "2 windows, 20 of 60 records kept (33.3 %)" in seen.text
    assert "5 by service.name, priority" in seen.text
    assert [(one["window"], one["kept"], one["by"]) for one in listed.json] == [
        ("19700101T000000Z", 10, ["service.name"]),
        ("19700101T000030Z", 10, ["service.name"]),
    ]

    told = run("reservoir", "estimate", "out", "--truth", "otap", "--of", "n", "--json")
    assert told.code == 0, told.errors
    assert {one["group"]: one["total"]["truth"] for one in told.json["groups"]} == {"shop": 30.0, "cart": 30.0}

    asked = run("reservoir", "inspect", "--query")
    query = asked.text.replace("), 100)", "), 5)")
    assert query != asked.text
    assert run("reservoir", "run", "otap", "asked", "--query", "-", stdin=query).code == 0
    assert by_name(contents(folder / "out")) == by_name(contents(folder / "asked"))


@pytest.mark.long
def test_what_goes_wrong_is_said_in_words(session: SparkSession, folder: Path) -> None:
    """A weight, a query, a file that is none: an error in a line or two, and nothing published."""
    make_star(folder / "bad", logs=[replace(one, weight="many") for one in numbered(4)])
    for given in (("--k", "2"), ()):
        refused = run("reservoir", "run", "bad", "out", *given)
        assert refused.code == 1
        assert "many" in refused.errors
        assert "expected a finite number above 0" in refused.errors
        assert "Traceback" not in refused.errors
    refused = run("reservoir", "run", "otap", "out", "--query", "-", stdin="SELECT 1 / 0 AS id, 1 AS adjusted_count")
    assert refused.code == 1
    assert "reservoir.query failed: [DIVIDE_BY_ZERO]" in refused.errors
    for number in range(3):
        (folder / "broken" / "logs").mkdir(parents=True, exist_ok=True)
        (folder / "broken" / "logs" / f"{number}.parquet").write_bytes(b"PAR1")
    refused = run("reservoir", "run", "broken", "out", "--json")
    assert refused.code == 1
    assert "0.parquet" in refused.errors
    assert not files_of(folder / "out")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "reservoir.source is empty"),
        (("otap",), "reservoir.target is empty"),
        (("nowhere", "out"), "no such folder"),
        (("otap", "./x/../otap"), "reservoir.target is the source"),
        (("otap", "out", "--signal", "spans"), "has no folder spans"),
        (("otap", "neve.yaml/out"), "neve.yaml"),
    ],
)
def test_what_cannot_be_sampled_is_refused(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    """Before Spark starts, in words."""
    refused = run("reservoir", "run", *arguments)
    assert refused.code == 1
    assert words in refused.errors
    assert "Traceback" not in refused.errors


def test_windows_of_another_length_are_refused(folder: Path) -> None:
    """A record would be in two windows of one target; without Spark, by what the ledger says."""
    windows = folder / "out" / "_neve" / "reservoir" / "logs" / "windows"
    windows.mkdir(parents=True)
    one = {"start_ns": 0, "seconds": 60, "policy": "", "how": "all pass", "by": [], "files": [], "outputs": []}
    more = {"version": 1, "generation": 0, "records": 4, "kept": 4, "done": False}
    (windows / "19700101T000000Z.json").write_text(json.dumps(one | more))
    refused = run("reservoir", "run", "otap", "out")
    assert refused.code == 1
    assert "holds windows of 60 s, reservoir.window_seconds is 30" in refused.errors
    assert "interrupted run" in run("reservoir", "inspect", "out").text


def test_inspecting_what_is_not_there(folder: Path) -> None:
    """Says so."""
    assert "no window of logs was sampled into nowhere yet" in run("reservoir", "inspect", "nowhere").text
    assert run("reservoir", "inspect").code == 2
    assert run("reservoir", "run", "otap", "out", "--k", "0").code == 2
    assert run("reservoir", "run", "otap", "out", "--window", str(reservoir.MAX_WINDOW_SECONDS + 1)).code == 2
    assert ReservoirConfig(window_seconds=reservoir.MAX_WINDOW_SECONDS)


def test_what_a_run_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that was left out, guessed or put right is told with its number."""
    window = WindowResult("19700101T000000Z", "", "", "1 late file", 90, 30, 4, 2_000_000, "exporter", 2, 3, 1.5)
    result = RunResult("logs", "in", "out", "policy", (window,) * 21, 4, 5, 6, 7, ("in/readme.txt",), 30.0)
    reservoir.show_run(result, ReservoirConfig(k=30))
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == "19700101T000000Z: 30 of 90 logs kept in 4 files of 2 MB, 1.5 s (1 late file)"
    assert lines[20:] == [
        "and 1 windows before these; --json lists them",
        "21 windows sampled (30 by service.name, priority): 630 of 1,890 records kept (33.3 %), 30 s",
        "4 windows unchanged since they were sampled",
    ]
    assert err.splitlines() == [
        "note: 21 windows with ids as otel-arrow's exporter has them: repaired, written to the specification",
        "note: 5 windows still receiving data",
        "note: 7 windows without source files any more: their samples are kept",
        "note: 6 windows sampled with other settings before and unchanged; --again samples them again",
        "note: 42 records counted as 1: invalid weight",
        "note: 63 records without an id: the resource was guessed",
        "note: 1 file of the source skipped: not Parquet",
    ]
