"""Organizations share the planning of statements."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.query.planning_turns import FREE_SECONDS, LONGEST_PAUSE_SECONDS, PAUSE_FACTOR, PlanningTurns


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.pauses.append(seconds)
        self.now += seconds


def turns_with(clock: Clock) -> PlanningTurns:
    """Turns that go by a clock."""
    return PlanningTurns(clock=lambda: clock.now, sleep=clock.sleep)


def test_short_statements_cost_no_pause() -> None:
    """However many there are."""
    clock = Clock()
    turns = turns_with(clock)
    for _statement in range(1000):
        with turns.take("acme"):
            pass
        turns.charge("acme", FREE_SECONDS)
    assert clock.pauses == []


def test_a_long_statement_delays_the_next_of_its_organization_alone() -> None:
    """In proportion to the CPU time that it took."""
    clock = Clock()
    turns = turns_with(clock)
    turns.charge("hostile", 0.5)
    with turns.take("honest"):
        assert clock.pauses == []
    with turns.take("hostile"):
        assert clock.pauses == [0.5 * PAUSE_FACTOR]


@given(st.lists(st.floats(FREE_SECONDS * 1.01, 1.0), min_size=20, max_size=60))
def test_long_statements_use_a_tenth_of_a_core(costs: list[float]) -> None:
    """Over any sequence of statements, one after the other; each statement's own time passes, too."""
    clock = Clock()
    turns = turns_with(clock)
    began = clock.now
    for cost in costs:
        with turns.take("hostile"):
            clock.now += cost
        turns.charge("hostile", cost)
    with turns.take("hostile"):
        pass
    assert sum(costs) / (clock.now - began) <= 1 / (1 + PAUSE_FACTOR) + 1e-9


@given(st.lists(st.floats(0.2, 100.0), min_size=1, max_size=30))
def test_a_pause_is_bounded(costs: list[float]) -> None:
    """Also after many long statements at a time."""
    clock = Clock()
    turns = turns_with(clock)
    for cost in costs:
        turns.charge("acme", cost)
    with turns.take("acme"):
        assert clock.pauses[0] <= LONGEST_PAUSE_SECONDS


def test_one_statement_of_an_organization_is_read_at_a_time() -> None:
    """Another organization does not wait for it."""
    turns = PlanningTurns()
    order: list[str] = []
    with turns.take("acme"):
        other = threading.Thread(target=lambda: _note(turns, "acme", order))
        other.start()
        _note(turns, "umbrella", order)
        order.append("first")
    other.join()
    assert order == ["umbrella", "first", "acme"]


def _note(turns: PlanningTurns, organization: str, order: list[str]) -> None:
    with turns.take(organization):
        order.append(organization)


def test_a_statement_that_gives_up_leaves_the_turn_to_the_next() -> None:
    """In its pause, and while another statement has the turn."""
    turns = PlanningTurns(clock=lambda: 100.0)
    turns.charge("acme", 0.5)
    pauses: list[float] = []

    def give_up(seconds: float) -> None:
        pauses.append(seconds)
        raise Cancelled

    with pytest.raises(Cancelled), turns.take("acme", give_up):
        pytest.fail("it was cancelled")
    with turns.take("acme", pauses.append), pytest.raises(Cancelled), turns.take("acme", give_up):
        pytest.fail("it was cancelled")
    assert pauses == [0.5 * PAUSE_FACTOR, 0.5 * PAUSE_FACTOR, 0.0]


class Cancelled(Exception):
    """Raised when a statement gives up."""
