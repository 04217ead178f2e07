"""`neve otap`: what is said of folders, in text and as JSON, and what is refused; without a JVM."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from neve.cli import otap
from neve.cli.context import Context
from neve.errors import NeveError
from neve.ingest.results import IngestResult, OtapResult
from neve.otap.tables import STARS
from neve.reservoir.otap.export import ExportResult
from neve.reservoir.otap.export_task import ExportRequest, ExportTotals
from tests.otap.stars import Log, Span, make_star

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

LOGS = [Log(n + 1, service=f"s{n % 3}", attributes={"n": n}) for n in range(20)]


def run(*arguments: str) -> Result:
    """Run `neve otap` with these arguments."""
    return CliRunner().invoke(otap.otap, arguments, obj=Context())


def test_tables_are_those_of_the_stars() -> None:
    """The command line, which imports nothing heavy, knows the same names."""
    assert list(otap.TABLES) == list(STARS)


def test_a_valid_folder_is_called_so(tmp_path: Path) -> None:
    """Logs and spans are told apart, with their files and rows and the convention of their ids."""
    make_star(tmp_path / "in", logs=LOGS, spans=[Span(5, attributes={"a": 1})])
    text, listed = run("check", str(tmp_path / "in")), run("check", str(tmp_path / "in"), "--json")
    assert (text.exit_code, listed.exit_code) == (0, 0)
    assert "logs: valid; ids as the specification has them" in text.output
    assert "spans: valid" in text.output
    found = {report["root"]: report for report in json.loads(listed.output)}
    assert (found["logs"]["valid"], found["logs"]["rows"]["log_attrs"], found["spans"]["files"]["spans"]) == (
        True,
        20,
        1,
    )


def test_a_folder_that_is_wrong_ends_with_1(tmp_path: Path) -> None:
    """The problem is named, with its table and an example."""
    paths = make_star(tmp_path / "in", logs=LOGS)
    with open(paths["log_attrs"][0], "r+b") as file:
        file.truncate(100)
    text, listed = run("check", str(tmp_path / "in")), run("check", str(tmp_path / "in"), "--json")
    assert (text.exit_code, listed.exit_code) == (1, 1)
    assert "logs: not valid" in text.output
    assert f"wrong: log_attrs: file can't be read: 1, for example {paths['log_attrs'][0]}" in text.output
    [report] = json.loads(listed.output)
    assert [problem["table"] for problem in report["problems"] if problem["error"]] == ["log_attrs"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nowhere"), "no such folder"),
        (("import", "gs://bucket/otap"), "neither a local path nor an s3:// address"),
        (("import", "nowhere"), "no such folder"),
        (("export", "out", "--table", "logs", "--since", "2026-02-01", "--until", "2026-01-31"), "is not before"),
    ],
)
def test_what_is_refused_is_said(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    """Before anything is started."""
    result = run(*arguments)
    assert isinstance(result.exception, NeveError)
    assert words in str(result.exception)


def test_an_export_names_its_table() -> None:
    """There is no default that would export too much."""
    assert "Missing option '--table'" in run("export", "out").output
    assert "'metrics' is not one of 'logs', 'spans'" in run("export", "out", "--table", "metrics").output


def test_what_an_export_says(capsys: pytest.CaptureFixture[str]) -> None:
    """Counts of every table, what was lost by name, and whether anything was written at all."""
    exported = ExportTotals(["p"], 3, 4096, Counter(logs=1200, log_attrs=5), Counter({"things were lost": 2}))
    request = ExportRequest("/out", "logs", "acme")
    otap.show_export(ExportResult(request, exported, unchanged=True, replaced=False, seconds=0.1))
    said = capsys.readouterr().out
    assert "/out already contains these rows, nothing was written" in said
    for words in ("1,200 logs", "5 log_attrs", "3 in 1 part, 4.1 kB", "2 things were lost"):
        assert words in said
    otap.show_export(ExportResult(request, exported, unchanged=False, replaced=True, seconds=0.1))
    assert "the output of an earlier run was replaced" in capsys.readouterr().out


def test_what_an_import_says(capsys: pytest.CaptureFixture[str]) -> None:
    """What ingestion always says, the convention of ids, and what was lost."""
    ingested = IngestResult(
        *("acme", ("b",), (), (), 2, (), (), (), {"logs": 7}, {}, {}),
        *(0, 0, 10, 10, 20, 1, 0.5),
    )
    otap.show_import(OtapResult(ingested, {"exporter": 1}, {"things were lost": 3}, {"univariate_metrics": 2}))
    said = capsys.readouterr().out
    for words in (
        "7 logs",
        "1 with ids as the exporter has them",
        "3 things were lost",
        "2 file(s) of univariate_metrics skipped",
    ):
        assert words in said
