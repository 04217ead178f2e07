"""Ranges of rows, and the words of each, read from Parquet files."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from neve.lake.tokenizer import tokenize
from neve.lake.write.file_schema import FIELD_ID
from neve.search import tasks
from neve.search.bloom_filter import hash_words
from neve.search.tasks import read_words_by_range, split_row_groups

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

MESSAGE = 6


def written(folder: Path, messages: list[str | None], group: int, metadata: dict[bytes, bytes]) -> str:
    """A Parquet file with row groups of so many rows."""
    schema = pa.schema([pa.field("message", pa.string(), metadata=metadata)])
    path = str(folder / "texts.parquet")
    pq.write_table(pa.table([messages], schema=schema), path, row_group_size=group)
    return path


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 120))
def test_ranges_are_all_rows_in_order(groups: list[int], least: int) -> None:
    """None is too small but the only one, and no row group is cut or left out."""
    found = split_row_groups(groups, least)
    assert [number for part in found for number in part.groups] == list(range(len(groups)))
    assert all(part.row_count == sum(groups[number] for number in part.groups) for part in found)
    assert all(after.first_row == before.first_row + before.row_count for before, after in pairwise(found))
    assert len(found) < 2 or all(part.row_count >= least for part in found)


def test_each_range_has_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the size of the pieces that are read."""
    monkeypatch.setattr(tasks, "MOST_ROWS", 3)
    messages = [None if number % 7 == 0 else f"Message {number} of {number // 10}" for number in range(95)]
    path = written(tmp_path, messages, 10, {FIELD_ID: str(MESSAGE).encode()})
    parts = list(read_words_by_range(PyArrowFileIO(), path, MESSAGE, 25))
    assert [(part.range.first_row, part.range.row_count) for part in parts] == [(0, 30), (30, 30), (60, 35)]
    for part in parts:
        rows = messages[part.range.first_row :][: part.range.row_count]
        words = frozenset().union(*(tokenize(text) for text in rows if text))
        assert sorted(part.hashes) == sorted(hash_words(pa.array(words)))


def test_a_column_that_a_file_has_not_holds_no_words(tmp_path: Path) -> None:
    """It was added later: every value is null."""
    path = written(tmp_path, ["word"], 10, {FIELD_ID: b"3"})
    assert [len(part.hashes) for part in read_words_by_range(PyArrowFileIO(), path, MESSAGE, 1)] == [0]


def test_a_file_without_ids_is_left_out(tmp_path: Path) -> None:
    """Nobody can tell which column is the one."""
    path = written(tmp_path, ["word"], 10, {})
    assert list(read_words_by_range(PyArrowFileIO(), path, MESSAGE, 1)) == []
