"""Which windows a run is about, without a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, NO_TIME, Ranges
from neve.reservoir.tables.plan import PlannedWindow, Scope, WantedWindows, plan_windows

if TYPE_CHECKING:
    from neve.lake.read.incremental import Frozen

ALL_SETTLED = (END, END)
COUNTS = {("a", 0): 5, ("a", 10): 6, ("b", 10): 7, ("b", 20): 8}


def turns(wanted: WantedWindows) -> list[tuple[str, int]]:
    """The windows that are sampled."""
    return [(turn.owner, turn.start) for turn in plan_windows(COUNTS, wanted).turns]


def test_only_windows_that_changed() -> None:
    """Of the organization whose rows changed; one without rows any more has a turn, in which its sample goes."""
    wanted = WantedWindows(10, {"a": {10, 30}, "b": {20}}, ALL_SETTLED)
    assert plan_windows(COUNTS, wanted).turns == (
        PlannedWindow("a", 10, 6),
        PlannedWindow("a", 30, 0),
        PlannedWindow("b", 20, 8),
    )


def test_nothing_changed() -> None:
    """No time has to be looked at."""
    wanted = WantedWindows(10, {}, ALL_SETTLED)
    assert (wanted.time, turns(wanted)) == (NO_TIME, [])


def test_every_window_where_nobody_knows_or_all_are_asked_for() -> None:
    """The whole of time is looked at."""
    for wanted in (WantedWindows(10, None, ALL_SETTLED), WantedWindows(10, {}, ALL_SETTLED, Scope(again=True))):
        assert turns(wanted) == list(COUNTS)
        assert wanted.time == EVERYTHING


def test_windows_wait_until_they_settle() -> None:
    """A window that changed and has not settled waits; when it settles it has its turn without a further change."""
    early = plan_windows(COUNTS, WantedWindows(10, {"a": {0, 10}, "b": {20}}, (BEGINNING, 15)))
    assert (early.turns, early.waiting) == ((PlannedWindow("a", 0, 5),), 2)
    late = WantedWindows(10, {}, (15, 25))
    assert turns(late) == [("a", 10), ("b", 10)]
    assert late.time == Ranges.of([(5, 25)])


def test_a_part_of_time_or_one_organization() -> None:
    """Windows that hold a part of the time that is asked for."""
    assert turns(WantedWindows(10, None, ALL_SETTLED, Scope(since=15))) == [("a", 10), ("b", 10), ("b", 20)]
    assert turns(WantedWindows(10, None, ALL_SETTLED, Scope(until=15, owner="b"))) == [("b", 10)]
    assert not Scope(owner="b").is_whole


def test_windows_whose_source_is_not_all_there_stay() -> None:
    """They are counted where there are rows of them."""
    frozen: Frozen = {"a": 15, "b": 0}.__getitem__
    plan = plan_windows(COUNTS, WantedWindows(10, {"a": {-10, 0, 10}, "b": {10}}, ALL_SETTLED, frozen=frozen))
    assert (plan.turns, plan.left, plan.records) == ((PlannedWindow("b", 10, 7),), 2, 7)
