"""Previews of ingestions, and what a run says about files that it does not ingest."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from neve.cli.ingest_output import find_exit_code, show_ingest, show_preview
from neve.ingest.config import IngestConfig
from neve.ingest.files.job import FileRequest
from neve.ingest.files.ledger import Skipped
from neve.ingest.preview import MAX_FILES, preview_files
from neve.ingest.results import IngestResult, combine_results
from neve.lake.config import S3Config
from neve.lake.storage.paths import OwnFolders
from tests.ingest.samples import NOW, lines

if TYPE_CHECKING:
    from pathlib import Path

    from neve.ingest.preview import Preview

LOG = {"Timestamp": "2025-01-01T00:00:00Z", "Body": "m\x1b[2J", "SeverityText": "warn", "ServiceName": "cart", "x": 1}


def preview(folder: Path, own: OwnFolders | None = None) -> Preview:
    """The preview of a folder."""
    return preview_files(FileRequest((str(folder),), "acme"), S3Config(), IngestConfig(), NOW, own or OwnFolders())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of each kind of outcome."""
    (tmp_path / "a.jsonl").write_bytes(lines(LOG, LOG | {"Timestamp": "noon"}))
    (tmp_path / "b.log").write_text("2025-01-01 00:00:00,000 [main] WARN shop.Cart - Failed\n")
    (tmp_path / "logs-c.csv").write_text("when,what\n1,2\n")
    (tmp_path / "notes.md").write_text("hello")
    return tmp_path


def test_a_preview_has_the_mapping_and_the_first_rows(folder: Path) -> None:
    """For generic files and for log files, with what would be refused."""
    first, second, third = preview(folder).files
    [part] = first.parts
    assert (first.format, part.signal, part.schema) == ("json_lines", "logs", "clickhouse_logs")
    assert part.fields == {
        "time": ["Timestamp"],
        "service": ["ServiceName"],
        "message": ["Body"],
        "severity": ["SeverityText"],
    }
    assert (part.attributes, part.records, part.rejected) == (["x"], 1, {"bad_time": 1})
    assert part.first_rejections[0].startswith("position 1: time is 'noon'")
    [row] = part.rows
    assert (row["timestamp"], row["attributes"]) == ("2025-01-01T00:00:00+00:00", {"x": "1"})
    assert (second.format, second.is_detected, second.parts[0].rows[0]["message"]) == ("logback", True, "Failed")
    assert "among its fields what, when" in (third.error or "")


def test_a_preview_names_ignored_files(folder: Path) -> None:
    """And those of the lake itself apart from them."""
    found = preview(folder, OwnFolders((str(folder / "b.log"),)))
    assert [path.rsplit("/", 1)[-1] for path in found.ignored] == ["notes.md"]
    assert [path.rsplit("/", 1)[-1] for path in found.own] == ["b.log"]


@pytest.mark.slow
def test_a_preview_reads_a_bounded_number_of_files(tmp_path: Path) -> None:
    """The others are counted."""
    for number in range(MAX_FILES + 3):
        (tmp_path / f"logs-{number:02}.jsonl").write_bytes(lines(LOG))
    found = preview(tmp_path)
    assert (len(found.files), found.unread) == (MAX_FILES, 3)


def test_the_text_of_a_preview(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Names and values of files reach no terminal as commands."""
    show_preview(preview(folder))
    said = capsys.readouterr()
    assert "format      logback (detected; --format names another)" in said.out
    assert "signal      logs, fields of clickhouse_logs" in said.out
    assert "time        from Timestamp" in said.out
    assert "can't be ingested: found neither a time nor a message" in said.out
    assert "records     1, rejected: 1 bad_time" in said.out
    assert "notes.md was ignored" in said.err
    assert "\x1b" not in said.out + said.err


def test_a_preview_is_json(folder: Path) -> None:
    """For programs."""
    assert json.loads(json.dumps(preview(folder).to_json()))["files"][0]["parts"][0]["schema"] == "clickhouse_logs"


def result(**changes: object) -> IngestResult:
    """The result of a run."""
    empty: dict[str, object] = dict.fromkeys(("batches", "resumed", "failed", "skipped", "ignored", "lost"), ())
    empty |= {name: {} for name in ("records", "rejected", "duplicates")}
    empty |= dict.fromkeys(("files", "duplicate_keys", "pointless_metrics", "bytes_in", "bytes_unpacked"), 0)
    empty |= {"bytes_out": 0, "data_files": 0, "seconds": 0.0, "organization_id": "acme"}
    return IngestResult(**{**empty, **changes})  # type: ignore[arg-type]  # names and values of the dataclass


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "nothing was ingested: no file was found"),
        ({"ignored": ("a.md",)}, "nothing was ingested: no file has a known format"),
        ({"skipped": (Skipped("a", "it is known"),)}, "nothing was ingested: the file was ingested before"),
        ({"lost": (Skipped("a", "it is missing"),)}, "nothing was ingested: no file could be read"),
    ],
)  # fmt: skip
def test_an_empty_run_says_so(changes: dict[str, object], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason, in text and in JSON."""
    show_ingest(result(**changes))
    assert words in capsys.readouterr().out
    assert result(**changes).to_json()["empty"] is True
    assert result(files=1).to_json()["empty"] is False


def test_ignored_files_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Each of them, up to a number that a screen can hold."""
    show_ingest(result(files=1, ignored=tuple(f"{number}.md" for number in range(25)), formats={"csv": 1}))
    said = capsys.readouterr()
    assert "warning: 0.md was ignored: unknown format" in said.err
    assert "5 more files were ignored; --json lists all" in said.err
    assert "- 1 read as csv" in said.out


def test_exit_codes() -> None:
    """A failure counts more than an ignored file."""
    assert find_exit_code(failed=False, ignored=False) == 0
    assert find_exit_code(failed=False, ignored=True) == 3
    assert find_exit_code(failed=True, ignored=True) == 1


def test_results_of_runs_are_combined() -> None:
    """With their formats."""
    both = combine_results([result(formats={"csv": 1}, own=("a",)), result(formats={"csv": 2}, own=("b",))])
    assert (both.formats, both.own) == ({"csv": 3}, ("a", "b"))
