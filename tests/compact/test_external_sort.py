"""Sorting with less memory than rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from neve.compact.execution import external_sort
from neve.compact.execution.external_sort import sort_rows

if TYPE_CHECKING:
    import pytest

ROWS = st.lists(st.tuples(st.one_of(st.none(), st.text("ab", max_size=2)), st.integers(0, 9)), max_size=80)


def table(rows: list[tuple[str | None, int]], first: int) -> pa.Table:
    """Rows with a number that tells them apart."""
    return pa.table(
        {
            "name": pa.array([name for name, _ in rows], pa.string()),
            "time": pa.array([time for _, time in rows], pa.int64()),
            "number": pa.array(range(first, first + len(rows)), pa.int64()),
            "tags": pa.array([[("k", str(time))] for _, time in rows], pa.map_(pa.string(), pa.string())),
        }
    )


@settings(deadline=None, max_examples=60)
@given(pieces=st.lists(ROWS, max_size=6), memory=st.sampled_from([1, 500, 2000, 1 << 30]))
def test_sorted_like_in_one_piece(pieces: list[list[tuple[str | None, int]]], memory: int) -> None:
    """However little memory there is, the rows are those of a plain sort, each exactly once."""
    external_sort.PIECE_ROWS, kept = 7, external_sort.PIECE_ROWS
    try:
        tables = [table(rows, 1000 * place) for place, rows in enumerate(pieces)]
        found = [row for piece in sort_rows(tables, ("name", "time"), memory) for row in piece.to_pylist()]
    finally:
        external_sort.PIECE_ROWS = kept
    keys = [((row["name"] is not None, row["name"] or ""), row["time"]) for row in found]
    assert keys == sorted(keys)
    expected = sorted((row for one in tables for row in one.to_pylist()), key=lambda row: row["number"])
    assert sorted(found, key=lambda row: row["number"]) == expected


def test_nothing_sorted_is_nothing() -> None:
    """No rows, no pieces."""
    assert list(sort_rows([], ("name",), 10)) == []


def test_heads_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is merged at once is one piece of each run, not the runs."""
    monkeypatch.setattr(external_sort, "PIECE_ROWS", 10)
    tables = [table([("a", number * 100 + i) for i in range(100)], number * 100) for number in range(5)]
    sizes = [piece.num_rows for piece in sort_rows(tables, ("name", "time"), tables[0].nbytes)]
    assert sum(sizes) == 500
    assert max(sizes) <= 50
