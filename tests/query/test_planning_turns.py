"""Organizations share the planning of statements."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.query.planning_turns import (
    ALLOWANCE_SECONDS,
    CORE_SHARE,
    FREE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    PlanningTurns,
)


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


def test_a_few_expensive_statements_cost_no_pause() -> None:
    """The first statements after each commit read new metadata. That does not delay the others."""
    clock = Clock()
    turns = turns_with(clock)
    for _commit in range(100):
        for _statement in range(2):
            with turns.take("acme"):
                pass
            turns.charge("acme", 0.25)
        clock.now += 5.0
    assert clock.pauses == []


def test_long_statements_delay_the_next_of_their_organization_alone() -> None:
    """Until its allowance has grown by the CPU time that they took beyond it."""
    clock = Clock()
    turns = turns_with(clock)
    turns.charge("hostile", ALLOWANCE_SECONDS)
    turns.charge("hostile", 0.5)
    with turns.take("honest"):
        assert clock.pauses == []
    with turns.take("hostile"):
        assert clock.pauses == [pytest.approx(0.5 / CORE_SHARE)]


@given(st.lists(st.floats(FREE_SECONDS * 1.01, 1.0), min_size=20, max_size=60))
def test_long_statements_use_a_tenth_of_a_core(costs: list[float]) -> None:
    """Beyond the allowance, over any sequence of statements, one after the other."""
    clock = Clock()
    turns = turns_with(clock)
    began = clock.now
    for cost in costs:
        with turns.take("hostile"):
            clock.now += cost
        turns.charge("hostile", cost)
    with turns.take("hostile"):
        pass
    assert sum(costs) - ALLOWANCE_SECONDS <= CORE_SHARE * (clock.now - began) + 1e-9


def test_without_limits_nothing_pauses() -> None:
    """The owner of the process has no share."""
    clock = Clock()
    turns = PlanningTurns(None, clock=lambda: clock.now, sleep=clock.sleep)
    turns.charge("acme", 100.0)
    with turns.take("acme"):
        assert clock.pauses == []


@given(st.lists(st.floats(0.2, 100.0), min_size=1, max_size=30))
def test_a_pause_is_bounded(costs: list[float]) -> None:
    """Also after many long statements at a time."""
    clock = Clock()
    turns = turns_with(clock)
    for cost in costs:
        turns.charge("acme", cost)
    with turns.take("acme"):
        assert max(clock.pauses, default=0.0) <= LONGEST_PAUSE_SECONDS + 1e-9


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
    turns.charge("acme", ALLOWANCE_SECONDS + 0.5)
    pauses: list[float] = []

    def give_up(seconds: float) -> None:
        pauses.append(seconds)
        raise Cancelled

    with pytest.raises(Cancelled), turns.take("acme", give_up):
        pytest.fail("it was cancelled")
    with turns.take("acme", pauses.append), pytest.raises(Cancelled), turns.take("acme", give_up):
        pytest.fail("it was cancelled")
    assert pauses == [pytest.approx(0.5 / CORE_SHARE)] * 2 + [0.0]


class Cancelled(Exception):
    """Raised when a statement gives up."""
