"""Fewer examples of a property in quick runs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.property_profiles import reduce_examples


@pytest.mark.parametrize(("stated", "expected"), [(60, 15), (15, 5), (5, 5), (3, 3)])
def test_a_quarter_of_the_examples_runs(stated: int, expected: int) -> None:
    """They are the first of all examples, and never fewer than five if there are so many."""
    drawn: list[int] = []

    @settings(max_examples=stated, derandomize=True, database=None)
    @given(number=st.integers())
    def holds(number: int) -> None:
        drawn.append(number)

    holds()
    everything = drawn.copy()
    drawn.clear()
    reduce_examples(holds)
    holds()
    assert (len(everything), len(drawn)) == (stated, expected)
    assert drawn == everything[:expected]


def test_a_state_machine_runs_fewer_times() -> None:
    """The settings of its test are reduced."""
    begun: list[object] = []

    class Machine(RuleBasedStateMachine):
        """Counts itself."""

        def __init__(self) -> None:
            super().__init__()
            begun.append(self)

        @rule()
        def step(self) -> None:
            """Do nothing."""

    test = Machine.TestCase
    test.settings = settings(max_examples=60, stateful_step_count=2, derandomize=True, database=None)
    reduce_examples(test)
    test().runTest()
    assert test.settings.max_examples == 15
    assert 1 <= len(begun) <= 20
