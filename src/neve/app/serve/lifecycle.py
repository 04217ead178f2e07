"""The life of a part: which state follows which."""

from __future__ import annotations

from neve.app.serve.part import PartState

FOLLOWING: dict[PartState, frozenset[PartState]] = {
    PartState.CREATED: frozenset({PartState.STARTED, PartState.STOPPED}),
    PartState.STARTED: frozenset({PartState.RUNNING, PartState.DRAINING, PartState.FAILED}),
    PartState.RUNNING: frozenset({PartState.DRAINING, PartState.FAILED}),
    PartState.DRAINING: frozenset({PartState.STOPPED, PartState.FAILED}),
    PartState.FAILED: frozenset({PartState.STARTED, PartState.STOPPED}),
    PartState.STOPPED: frozenset(),
}


def enter(state: PartState, following: PartState) -> PartState:
    """The state that follows; raises `ValueError` where it can't.

    >>> enter(PartState.RUNNING, PartState.DRAINING)
    <PartState.DRAINING: 'draining'>
    """
    if following not in FOLLOWING[state]:
        expected = ", ".join(sorted(FOLLOWING[state])) or "nothing"
        raise ValueError(f"a part that is {state} became {following}, expected {expected}")
    return following
