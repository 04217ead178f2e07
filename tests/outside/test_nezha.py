"""Nezha's CSV files: spans with the parent `root`, logs with JSON in a column, metrics with a column each."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from neve.errors import UnknownFields
from neve.ingest.files.reader import ReadOptions
from neve.model.signals import Signal
from tests.outside.files import read, rows

MOST_FILES = 5


def find(folder: Path, pattern: str) -> list[Path]:
    """Some files of a kind."""
    found = [path for path in sorted(folder.glob(pattern)) if path.stat().st_size]
    if not found:
        pytest.skip(f"no {pattern} in Nezha")
    return found[:MOST_FILES]


def test_spans_are_equal_to_the_rows(outside: Callable[[str], Path]) -> None:
    """A parent called root is none."""
    for path in find(outside("Nezha"), "*/*/trace/*.csv"):
        found = read(path, ReadOptions(Signal.TRACES))
        with path.open(encoding="utf-8") as file:
            wanted = sorted(
                (row["TraceID"], row["SpanID"], row["ParentID"].replace("root", ""), int(row["StartTimeUnixNano"]))
                for row in csv.DictReader(file)
            )
        assert found.rejected == ()
        assert wanted == sorted(
            (
                row["trace_id"].hex(),
                row["span_id"].hex(),
                (row["parent_span_id"] or b"").hex(),
                row["start_time_unix_nano"],
            )
            for row in rows(found)
        )


def test_logs_are_equal_to_the_rows(outside: Callable[[str], Path]) -> None:
    """Each with its time and its text."""
    for path in find(outside("Nezha"), "*/*/log/*.csv"):
        found = read(path, ReadOptions(Signal.LOGS))
        with path.open(encoding="utf-8", newline="") as file:
            wanted = sorted((int(row["TimeUnixNano"]), row["Log"]) for row in csv.DictReader(file))
        assert found.rejected == ()
        assert sorted((row["time_unix_nano"], row["message"]) for row in rows(found)) == wanted


def test_metrics_with_a_column_each_are_refused_with_their_names(outside: Callable[[str], Path]) -> None:
    """There is no value to find."""
    for path in find(outside("Nezha"), "*/*/metric/*_metric.csv"):
        with pytest.raises(UnknownFields, match=r"neither a value nor a count for metrics among its fields CpuUsage"):
            read(path, ReadOptions(Signal.METRICS))
