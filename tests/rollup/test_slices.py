"""Pieces of work: all windows that have rows, each in one piece, and no piece much too large."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.lake.time_ranges import Ranges
from neve.rollup.planner import FileRows, files_for, split_windows

MICROS = 10
moments = st.integers(-500, 500)
wanted = st.lists(st.tuples(moments, moments), max_size=5).map(lambda parts: Ranges.of(parts).align(MICROS))


@st.composite
def held(draw: st.DrawFn) -> list[FileRows]:
    """Files with rows of any time."""
    spans = draw(st.lists(st.tuples(moments, st.integers(0, 300), st.integers(1, 2000)), max_size=6))
    return [FileRows(number, start, start + length, rows) for number, (start, length, rows) in enumerate(spans)]


def windows(ranges: Ranges) -> list[int]:
    """The windows that ranges are made of."""
    assert all(start % MICROS == end % MICROS == 0 for start, end in ranges)
    return [window for start, end in ranges for window in range(start // MICROS, end // MICROS)]


def expected(files: list[FileRows], start: int, end: int) -> float:
    """How many rows lie in some time when those of a file lie evenly."""
    return sum(
        file.rows / (file.latest + 1 - file.earliest) * len(range(max(start, file.earliest), min(end, file.latest + 1)))
        for file in files
    )


@given(wanted, held(), st.integers(1, 1000))
def test_pieces_are_the_wanted_windows_that_have_rows(ranges: Ranges, files: list[FileRows], most: int) -> None:
    """Whole windows in order, none twice, none that was not asked for, and none left out where rows may be."""
    pieces = [windows(piece) for piece in split_windows(ranges, files, most, MICROS)]
    cut = [window for piece in pieces for window in piece]
    assert cut == sorted(set(cut))
    assert all(pieces)
    asked = set(windows(ranges))
    busy = {window for file in files for window in range(file.earliest // MICROS, file.latest // MICROS + 1)}
    assert asked & busy <= set(cut) <= asked
    if files:
        assert min(busy) <= min(cut, default=min(busy))
        assert max(cut, default=max(busy)) <= max(busy)


@given(wanted, held(), st.integers(1, 1000))
def test_pieces_have_about_as_many_rows_as_a_task_may_hold(ranges: Ranges, files: list[FileRows], most: int) -> None:
    """A piece that has more is one stretch of time, as the rows of a file may lie where they want."""
    for piece in split_windows(ranges, files, most, MICROS):
        rows = sum(expected(files, start, end) for start, end in piece)
        assert rows <= most * (1 + 1e-9) or len(piece.parts) == 1


@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 500))
def test_rows_that_lie_evenly_make_even_pieces(number: int, each: int, most: int) -> None:
    """So many to each window: no piece has more than asked for, unless it is a single window."""
    files = [FileRows(0, 0, number * MICROS - 1, number * each * MICROS)]
    pieces = split_windows(Ranges.of([(-1000, 1000)]), files, most, MICROS)
    assert [window for piece in pieces for window in windows(piece)] == list(range(number))
    assert all(
        len(windows(piece)) == 1 or len(windows(piece)) * each * MICROS <= most + each * MICROS for piece in pieces
    )
    assert len(pieces) <= 2 * number * each * MICROS / most + 1


@given(wanted, held(), st.integers(0, 50))
def test_files_of_a_piece(ranges: Ranges, files: list[FileRows], before: int) -> None:
    """Those with a moment in it, or so much before it."""
    needed = {moment for start, end in ranges for moment in range(start - before, end)}
    there = [file.number for file in files if needed & set(range(file.earliest, file.latest + 1))]
    assert files_for(ranges, files, before) == there


def test_no_files_are_no_work() -> None:
    """Neither are files of another time."""
    assert split_windows(Ranges.of([(0, 100)]), [], 10, MICROS) == []
    assert split_windows(Ranges.of([(0, 100)]), [FileRows(0, 200, 300, 5)], 10, MICROS) == []
