"""What a run computes: everything when it can't know better, else what was touched and what was closed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.lake.read.incremental import TouchedWindows
from neve.lake.time_ranges import BEGINNING, EVERYTHING, Ranges, floor
from neve.model.commits import POSITIONS, STREAM
from neve.model.levels import LEVELS
from neve.rollup.position import ROLLUP, Position
from neve.rollup.window_choice import RunTerms, choose_windows

MINUTE = LEVELS[0]
SIZE = MINUTE.micros
SECOND = 1_000_000
NEWEST = 40 * SIZE

windows = st.integers(0, 40)
moments = st.integers(-60 * SECOND, NEWEST + 300 * SECOND)
spans = st.lists(st.tuples(moments, st.integers(1, 200 * SECOND)), max_size=4).map(
    lambda parts: Ranges.of((start, start + length) for start, length in parts)
)
touches = st.builds(TouchedWindows, st.dictionaries(st.sampled_from("ab"), spans), spans, st.integers(0, 3))


def position(closed: int, definition: str = "same", *, partial: bool = False) -> Position:
    """A position whose windows are closed up to one of them."""
    return Position(1, closed * SIZE, definition, partial)


def numbers(ranges: Ranges) -> set[int]:
    """The windows of some ranges, which must be whole ones."""
    near = ranges.within(-100 * SIZE, 100 * SIZE)
    assert near.align(SIZE) == near
    return {number for start, end in near for number in range(start // SIZE, end // SIZE)}


@given(windows, windows, touches, st.integers(0, 300).map(lambda seconds: seconds * SECOND), st.booleans())
def test_what_was_touched_and_what_was_closed(
    before: int, more: int, touched: TouchedWindows, after: int, partial: bool
) -> None:
    """A window is computed when it closes or a change reaches it; one that is open only when asked for."""
    was, will = position(before, partial=partial), position(before + more, partial=partial)
    wanted = choose_windows(MINUTE, was, will, touched, RunTerms(after))
    for owner in "abc":
        changed = touched.of(owner)
        reached = {
            number
            for number in range(-100, 100)
            if any(start < (number + 1) * SIZE and number * SIZE < end + after for start, end in changed)
        }
        expected = reached | set(range(before, before + more))
        expected = expected if partial else {number for number in expected if number < before + more}
        assert numbers(wanted.of(owner)) == expected
        assert not wanted.unavailable(owner)
        hull = wanted.hull
        assert hull | wanted.of(owner) == hull


@pytest.mark.parametrize(
    ("was", "touched", "reason"),
    [
        (None, None, "position of the level is lost"),
        (None, TouchedWindows(), "position of the level is lost"),
        (position(5, "other"), TouchedWindows(), "definition changed"),
        (position(5, "other"), None, "definition changed"),
        (position(5), None, "has expired"),
    ],
)
@pytest.mark.parametrize("partial", [False, True])
def test_everything(was: Position | None, touched: TouchedWindows | None, reason: str, partial: bool) -> None:
    """On a first run, on another definition, and where nobody knows what happened since."""
    wanted = choose_windows(MINUTE, was, position(9, partial=partial), touched, RunTerms())
    assert reason in wanted.reason
    assert numbers(wanted.of("anybody")) == set(range(-100, 100 if partial else 9))
    assert wanted.hull == (EVERYTHING if partial else Ranges.of([(BEGINNING, 9 * SIZE)]))


def test_nothing() -> None:
    """Nothing touched and nothing closed: nothing to do, with a reason."""
    wanted = choose_windows(MINUTE, position(5), position(5), TouchedWindows(), RunTerms())
    assert (wanted.hull, wanted.of("a")) == (Ranges(), Ranges())
    assert wanted.reason == "no new commits and no closed windows since the last run"
    reasons = choose_windows(MINUTE, position(5), position(6), TouchedWindows(commits=2), RunTerms(since=0)).reason
    assert reasons == "2 commits since the last run, windows closed since the last run, requested by --since"


def test_open_windows_are_wanted_from_now_on() -> None:
    """Once, when that is switched on."""
    wanted = choose_windows(MINUTE, position(5), position(6, partial=True), TouchedWindows(), RunTerms())
    assert (numbers(wanted.of("a")), wanted.reason) == (set(range(5, 100)), "rollup.partial was enabled")
    wanted = choose_windows(MINUTE, position(6, partial=True), position(6), TouchedWindows(), RunTerms())
    assert numbers(wanted.of("a")) == set()


@given(windows, moments, st.booleans())
def test_since(closed: int, since: int, partial: bool) -> None:
    """All windows from the one that a moment lies in, as far as they are closed or open ones are wanted, too."""
    will = position(closed, partial=partial)
    found = numbers(choose_windows(MINUTE, will, will, TouchedWindows(), RunTerms(since=since)).of("a"))
    assert found == set(range(floor(since, SIZE) // SIZE, 100 if partial else closed))


@given(
    st.sampled_from([position(7), position(7, "other")]),
    touches | st.none(),
    moments,
    st.integers(0, 300).map(lambda seconds: seconds * SECOND),
    st.none() | moments,
)
def test_frozen_windows_are_left(
    was: Position, touched: TouchedWindows | None, horizon: int, after: int, since: int | None
) -> None:
    """A window one of whose points, or of those that they are compared with, may be gone is not computed again."""
    terms = RunTerms(after, since=since, frozen=lambda owner: horizon if owner == "a" else BEGINNING)
    free = RunTerms(after, since=since)
    frozen, without = (choose_windows(MINUTE, was, position(12), touched, one) for one in (terms, free))
    asked = numbers(without.of("a"))
    whole = {number for number in range(-100, 100) if number * SIZE - after >= horizon or number >= 7}
    assert numbers(frozen.of("a")) == asked & whole
    assert numbers(frozen.unavailable("a")) == asked - whole
    assert frozen.of("b") == without.of("b")


def test_a_first_run_takes_what_there_is() -> None:
    """Nothing was rolled up that could be kept: better some points of an old window than none."""
    terms = RunTerms(frozen=lambda _owner: 5 * SIZE, has_rows=False)
    wanted = choose_windows(MINUTE, None, position(12), None, terms)
    assert (numbers(wanted.of("a")), wanted.reason) == (set(range(-100, 12)), "first run: every window")
    assert not wanted.unavailable("a")


def test_a_lost_position_loses_no_row() -> None:
    """There are rows, but nobody knows how far they go: those whose points may be gone stay."""
    wanted = choose_windows(MINUTE, None, position(12), None, RunTerms(frozen=lambda _owner: 5 * SIZE))
    assert numbers(wanted.of("a")) == set(range(5, 12))
    assert numbers(wanted.unavailable("a")) == set(range(-100, 5))


@given(st.none() | st.integers(0, 2**63 - 1), st.integers(-(2**62), 2**62), st.text(max_size=16))
def test_a_position_is_read_as_it_was_written(snapshot: int | None, closed: int, definition: str) -> None:
    """Through the words of a commit."""
    here = Position(snapshot, closed, definition)
    assert here.to_summary(ROLLUP)[STREAM] == ROLLUP
    assert Position(**json.loads(here.to_summary(ROLLUP)[POSITIONS])) == here  # nothing is left out
