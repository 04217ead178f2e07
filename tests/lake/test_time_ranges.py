"""Ranges of time, held against sets of whole numbers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.time_columns import windows_in
from neve.lake.time_ranges import EVERYTHING, NO_TIME, Ranges, ceiling, floor

moments = st.integers(-60, 60)
pairs = st.lists(st.tuples(moments, moments), max_size=6)
spans = pairs.map(Ranges.of)
sizes = st.integers(1, 12)


def every(ranges: Ranges) -> set[int]:
    """The whole numbers in it."""
    return {moment for start, end in ranges for moment in range(start, end)}


def is_tidy(ranges: Ranges) -> bool:
    """Whether parts are in order, none is empty, and no two touch."""
    apart = all(one[1] < other[0] for one, other in zip(ranges.parts, ranges.parts[1:], strict=False))
    return apart and all(start < end for start, end in ranges)


@given(pairs, spans)
def test_ranges_are_put_in_order_and_joined(some: list[tuple[int, int]], other: Ranges) -> None:
    """What goes in comes out, in as few parts as there can be."""
    made = Ranges.of(some)
    assert is_tidy(made)
    assert every(made) == {moment for start, end in some for moment in range(start, end)}
    assert is_tidy(made | other)
    assert every(made | other) == every(made) | every(other)
    assert (made.length, bool(made)) == (len(every(made)), bool(every(made)))


@given(spans, moments, moments)
def test_what_lies_between_two_moments(ranges: Ranges, start: int, end: int) -> None:
    """Also where the second comes before the first."""
    inside = every(ranges) & set(range(start, end))
    assert every(ranges.within(start, end)) == inside
    assert every(ranges.within(start)) == {moment for moment in every(ranges) if moment >= start}
    assert every(ranges.within(end=end)) == {moment for moment in every(ranges) if moment < end}
    assert ranges.within() == ranges
    if start < end:
        assert ranges.overlaps(start, end) == bool(inside)


@given(spans, st.integers(0, 9), st.integers(0, 9))
def test_widened_by_so_much(ranges: Ranges, before: int, after: int) -> None:
    """Every moment brings those around it along."""
    wide = {moment + shift for moment in every(ranges) for shift in range(-before, after + 1)}
    assert every(ranges.widen(before, after)) == wide
    assert is_tidy(ranges.widen(before, after))


@given(spans, sizes)
def test_aligned_to_windows(ranges: Ranges, micros: int) -> None:
    """All windows that have a moment of it, whole, and no other."""
    windows = {moment // micros for moment in every(ranges)}
    aligned = ranges.align(micros)
    assert every(aligned) == {window * micros + place for window in windows for place in range(micros)}
    assert windows_in(np.array(sorted(every(ranges)), dtype=np.int64), micros) == aligned


@given(spans, st.integers(0, 20))
def test_gaps_are_closed(ranges: Ranges, most: int) -> None:
    """Nothing is lost, nothing beyond the ends is won, and every gap that is left is longer than asked for."""
    closed = ranges.close_gaps(most)
    assert is_tidy(closed)
    expected = every(ranges)
    for (_, one), (other, _) in zip(ranges.parts, ranges.parts[1:], strict=False):
        expected |= set(range(one, other)) if other - one <= most else set()
    assert every(closed) == expected


@given(spans, st.lists(st.integers(-70, 70), max_size=30))
def test_which_moments_it_holds(ranges: Ranges, asked: list[int]) -> None:
    """The start is in it, the end is not."""
    found = ranges.holds(np.array(asked, dtype=np.int64)).tolist()
    assert found == [moment in every(ranges) for moment in asked]


@given(moments, sizes)
def test_where_windows_begin_and_end(moment: int, micros: int) -> None:
    """The window's start is at or before the moment, the next one's at or after it."""
    below, above = floor(moment, micros), ceiling(moment, micros)
    assert (below % micros, above % micros) == (0, 0)
    assert below <= moment <= above
    assert (moment - below < micros, above - moment < micros) == (True, True)


def test_nothing_and_everything() -> None:
    """No time holds no moment, and all time every one that a table may have."""
    ends = np.array([-62_135_596_800_000_000, 0, 253_402_300_799_999_999])
    assert not NO_TIME.holds(ends).any()
    assert EVERYTHING.holds(ends).all()


@given(st.sets(st.integers(-50, 50), min_size=1), st.integers(1, 5))
def test_few_ranges_contain_all_windows(numbers: set[int], most: int) -> None:
    """In order, apart from each other, no more than requested, and beginning and ending with windows."""
    ranges = Ranges.of_windows((number * 10 for number in numbers), 10)
    joined = ranges.join_to(most)
    assert len(joined.parts) <= most
    assert joined == Ranges.of(joined)
    assert joined | ranges == joined
    assert ranges.starts(10) == {number * 10 for number in numbers}
    assert all(start // 10 in numbers and end // 10 - 1 in numbers for start, end in joined)
