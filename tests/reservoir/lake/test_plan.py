"""Which windows a run is about, without a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from neve.reservoir.lake.plan import Scope, Turn, Wanted, plan_windows
from neve.reservoir.lake.position import announce
from neve.reservoir.lake.windows import BEGINNING, END, ranges_of

if TYPE_CHECKING:
    from neve.reservoir.lake.plan import Frozen

ALL_SETTLED = (END, END)
COUNTS = {("a", 0): 5, ("a", 10): 6, ("b", 10): 7, ("b", 20): 8}


def turns(wanted: Wanted) -> list[tuple[str, int]]:
    """The windows that are sampled."""
    return [(turn.owner, turn.start) for turn in plan_windows(COUNTS, wanted).turns]


def test_only_windows_that_changed() -> None:
    """Of the organization whose rows changed; one without rows any more has a turn, in which its sample goes."""
    wanted = Wanted(10, {"a": {10, 30}, "b": {20}}, ALL_SETTLED)
    assert plan_windows(COUNTS, wanted).turns == (Turn("a", 10, 6), Turn("a", 30, 0), Turn("b", 20, 8))


def test_nothing_changed() -> None:
    """No time has to be looked at."""
    wanted = Wanted(10, {}, ALL_SETTLED)
    assert (wanted.time, turns(wanted)) == ((), [])


def test_every_window_where_nobody_knows_or_all_are_asked_for() -> None:
    """The whole of time is looked at."""
    for wanted in (Wanted(10, None, ALL_SETTLED), Wanted(10, {}, ALL_SETTLED, Scope(again=True))):
        assert turns(wanted) == list(COUNTS)
        assert wanted.time == ((BEGINNING, END),)


def test_windows_wait_until_they_settle() -> None:
    """A window that changed and has not settled waits; when it settles it has its turn without a further change."""
    early = plan_windows(COUNTS, Wanted(10, {"a": {0, 10}, "b": {20}}, (BEGINNING, 15)))
    assert (early.turns, early.waiting) == ((Turn("a", 0, 5),), 2)
    late = Wanted(10, {}, (15, 25))
    assert turns(late) == [("a", 10), ("b", 10)]
    assert late.time == ((5, 25),)


def test_a_part_of_time_or_one_organization() -> None:
    """Windows that hold a part of the time that is asked for."""
    assert turns(Wanted(10, None, ALL_SETTLED, Scope(since=15))) == [("a", 10), ("b", 10), ("b", 20)]
    assert turns(Wanted(10, None, ALL_SETTLED, Scope(until=15, owner="b"))) == [("b", 10)]
    assert not Scope(owner="b").is_whole


def test_windows_whose_source_is_not_all_there_stay() -> None:
    """They are counted where there are rows of them."""
    frozen: Frozen = {"a": 15, "b": 0}.__getitem__
    plan = plan_windows(COUNTS, Wanted(10, {"a": {-10, 0, 10}, "b": {10}}, ALL_SETTLED, frozen=frozen))
    assert (plan.turns, plan.left, plan.records) == ((Turn("b", 10, 7),), 2, 7)


@given(st.sets(st.integers(-50, 50), min_size=1), st.integers(1, 5))
def test_few_ranges_hold_all_windows(numbers: set[int], most: int) -> None:
    """In order, apart from each other, no more than asked for, and beginning and ending with windows."""
    ranges = ranges_of([number * 10 for number in numbers], 10, most)
    edges = [edge for one in ranges for edge in one]
    assert len(ranges) <= most
    assert edges == sorted(set(edges))
    assert all(any(start <= number * 10 < end for start, end in ranges) for number in numbers)
    assert all(start // 10 in numbers and end // 10 - 1 in numbers for start, end in ranges)


def test_many_windows_are_announced_in_few_words() -> None:
    """With somewhat more time than they have, in the end for everyone."""
    second = 1_000_000
    assert announce({"a": {0, second, 5 * second}}, 1) == {"neve.windows": '{"a":[[0,2],[5,6]]}'}
    odd = {number * second for number in range(1, 5000, 2)}
    assert announce({"a": odd}, 1) == {"neve.windows": '{"a":[[1,5000]]}'}
    owners = {f"organization-{number}": {second} for number in range(1000)}
    assert announce(owners, 1) == {"neve.windows": '{"*":[[1,2]]}'}
