"""The life of a part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neve.app.serve.part import NEXT_STATES, PartState, check_transition
from neve.app.serve.supervisor import Backoff

states = st.sampled_from(PartState)
seconds = st.floats(0.001, 3600)


@given(states, states)
def test_a_state_follows_or_it_is_an_error(before: PartState, after: PartState) -> None:
    """There is no third way, and the error names both states and what was expected."""
    if after in NEXT_STATES[before]:
        assert check_transition(before, after) is after
    else:
        with pytest.raises(ValueError, match=f"that is {before} became {after}, expected"):
            check_transition(before, after)


@given(st.lists(states, max_size=30))
def test_every_life_begins_once_and_can_end(wanted: list[PartState]) -> None:
    """Whatever happens, nothing is created twice, what is stopped stays so, and all else can still be stopped."""
    state = PartState.CREATED
    for following in wanted:
        if following in NEXT_STATES[state]:
            assert state is not PartState.STOPPED
            assert following is not PartState.CREATED
            state = check_transition(state, following)
    assert PartState.STOPPED in _reachable(state)


@given(states)
def test_what_is_at_work_drains_before_it_is_stopped(state: PartState) -> None:
    """Nothing that has begun something is stopped without having been told."""
    assert not (state.is_active and PartState.STOPPED in NEXT_STATES[state])
    assert state.is_active == (PartState.DRAINING in NEXT_STATES[state])


@given(seconds, seconds, st.lists(st.floats(0, 7200), max_size=40))
def test_pauses_grow_up_to_the_longest(first: float, most: float, runs: list[float]) -> None:
    """Twice as long each time, never longer than the longest, and from the beginning after a long run."""
    backoff = Backoff(first, most)
    for ran in runs:
        before, backoff = backoff, backoff.add_failure(ran)
        assert 0 < backoff.seconds <= most
        if ran > most:
            assert backoff.seconds == min(first, most)
        else:
            assert backoff.seconds == min(most, max(first, 2 * before.seconds))


def _reachable(state: PartState) -> set[PartState]:
    found, new = {state}, {state}
    while new := {after for before in new for after in NEXT_STATES[before]} - found:
        found |= new
    return found
