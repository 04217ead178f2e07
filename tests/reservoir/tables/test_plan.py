"""Which windows a run is about, without a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neve.lake.time_ranges import BEGINNING, END, EVERYTHING, NO_TIME, Ranges
from neve.reservoir.tables.plan import PlannedWindow, Scope, WindowSelection, plan_windows

if TYPE_CHECKING:
    from neve.lake.read.incremental import Frozen

ALL_SETTLED = (END, END)
COUNTS = {("a", 0): 5, ("a", 10): 6, ("b", 10): 7, ("b", 20): 8}


def to_sample(wanted: WindowSelection) -> list[tuple[str, int]]:
    """The windows that are sampled."""
    return [(planned.owner, planned.start) for planned in plan_windows(COUNTS, wanted).to_sample]


def test_only_windows_that_changed() -> None:
    """Of the organization whose rows changed; one without rows any more has a turn, in which its sample goes."""
    wanted = WindowSelection(10, {"a": {10, 30}, "b": {20}}, ALL_SETTLED)
    assert plan_windows(COUNTS, wanted).to_sample == (
        PlannedWindow("a", 10, 6),
        PlannedWindow("a", 30, 0),
        PlannedWindow("b", 20, 8),
    )


def test_nothing_changed() -> None:
    """No time has to be looked at."""
    wanted = WindowSelection(10, {}, ALL_SETTLED)
    assert (wanted.time, to_sample(wanted)) == (NO_TIME, [])


def test_every_window_where_nobody_knows_or_all_are_asked_for() -> None:
    """The whole of time is looked at."""
    for wanted in (WindowSelection(10, None, ALL_SETTLED), WindowSelection(10, {}, ALL_SETTLED, Scope(again=True))):
        assert to_sample(wanted) == list(COUNTS)
        assert wanted.time == EVERYTHING


def test_windows_wait_until_they_settle() -> None:
    """A window that changed and has not settled waits; when it settles it has its turn without a further change."""
    early = plan_windows(COUNTS, WindowSelection(10, {"a": {0, 10}, "b": {20}}, (BEGINNING, 15)))
    assert (early.to_sample, early.waiting) == ((PlannedWindow("a", 0, 5),), 2)
    late = WindowSelection(10, {}, (15, 25))
    assert to_sample(late) == [("a", 10), ("b", 10)]
    assert late.time == Ranges.of([(5, 25)])


def test_a_part_of_time_or_one_organization() -> None:
    """Windows that hold a part of the time that is asked for."""
    assert to_sample(WindowSelection(10, None, ALL_SETTLED, Scope(since=15))) == [("a", 10), ("b", 10), ("b", 20)]
    assert to_sample(WindowSelection(10, None, ALL_SETTLED, Scope(until=15, owner="b"))) == [("b", 10)]
    assert not Scope(owner="b").is_whole


def test_windows_whose_source_is_not_all_there_stay() -> None:
    """They are counted where there are rows of them."""
    frozen: Frozen = {"a": 15, "b": 0}.__getitem__
    plan = plan_windows(COUNTS, WindowSelection(10, {"a": {-10, 0, 10}, "b": {10}}, ALL_SETTLED, frozen=frozen))
    assert (plan.to_sample, plan.left, plan.records) == ((PlannedWindow("b", 10, 7),), 2, 7)
