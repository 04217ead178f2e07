"""What is found out of root files by their times and ids alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.config import S3Config
from neve.otap.folder import list_folder
from neve.reservoir.otap.root_files import RootFile, scan_root_file, times_of
from neve.reservoir.otap.source import find_overlapping
from neve.reservoir.weights import parse_number
from neve.reservoir.windows import NANOS
from tests.otap.stars import make_star
from tests.reservoir.otap.contents import numbered

if TYPE_CHECKING:
    from pathlib import Path


def scan_root_files(folder: Path, seconds: int) -> RootFile:
    """The one root file of a folder."""
    (file,) = list_folder(str(folder), pafs.LocalFileSystem())["logs"]
    return scan_root_file(file, seconds, S3Config())


@pytest.mark.parametrize("convention", ["specification", "exporter"])
def test_records_are_counted_by_window(tmp_path: Path, convention: str) -> None:
    """With the least and the largest id, and how many have none."""
    make_star(tmp_path, logs=numbered(25), convention=convention)  # type: ignore[arg-type]
    found = scan_root_files(tmp_path, 10)
    assert found.windows == ((0, 10), (10 * NANOS, 10), (20 * NANOS, 5))
    assert (found.without_id, found.ids, found.twice) == (0, (0, 24), None)


def test_ids_that_are_missing_or_come_twice_are_told(tmp_path: Path) -> None:
    """They decide how a file is read, or that it can't be."""
    records = numbered(4)
    make_star(tmp_path / "none", logs=[replace(one, attributes={}) for one in records])
    assert (scan_root_files(tmp_path / "none", 60).without_id, scan_root_files(tmp_path / "none", 60).ids) == (4, None)
    make_star(tmp_path / "twice", logs=[*records, replace(records[0], id=2)])
    assert scan_root_files(tmp_path / "twice", 60).twice == 2


def test_a_record_without_a_time_is_of_when_it_was_observed() -> None:
    """A time of 0 or none is no time; with no time at all a record is of 1970."""
    times = {
        "time_unix_nano": pa.array([5, 0, None, None], pa.timestamp("ns")),
        "observed_time_unix_nano": pa.array([9, 7, 8, None], pa.timestamp("ns", "UTC")).dictionary_encode(),
    }
    assert times_of(pa.table(times), "logs").tolist() == [5, 7, 8, 0]
    assert times_of(pa.table({"id": [1, 2]}), "logs").tolist() == [0, 0]
    assert times_of(pa.table({"start_time_unix_nano": [3]}), "spans").tolist() == [3]


def test_a_file_without_an_id_column_has_no_ids(tmp_path: Path) -> None:
    """The specification lets it be left out."""
    (path,) = make_star(tmp_path, logs=[replace(one, attributes={}) for one in numbered(3)])["logs"]
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["id"]), path)
    assert scan_root_files(tmp_path, 60).without_id == 3


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 5)), max_size=6))
def test_files_that_may_share_ids_are_found(stretches: list[tuple[int, int]]) -> None:
    """All that do share one, by the bounds of each."""
    files = [
        RootFile(f"f{number}", "", 0, 0, ids=(first, first + length))
        for number, (first, length) in enumerate(stretches)
    ]
    ranges = {
        file.path: set(range(first, first + length + 1)) for file, (first, length) in zip(files, stretches, strict=True)
    }
    sharing = {one for one in ranges if any(ranges[one] & ranges[other] for other in ranges if other != one)}
    assert set(find_overlapping(files)) == sharing


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1.0), ("2.5", 2.5), (".5", 0.5), ("5.", 5.0), ("-3e2", -300.0), ("+1E-2", 0.01), ("1e999", math.inf)],
)
def test_texts_that_are_numbers(text: str, number: float) -> None:
    """As every engine reads them."""
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1_000", "1d", "0x1p3", "nan", "inf", "Infinity", "1,5", "1\n", "٣", None]
)
def test_texts_that_are_no_numbers(text: str | None) -> None:
    """Some engines would take them for one."""
    assert math.isnan(parse_number(text))
