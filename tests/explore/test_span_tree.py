"""Parents by index, and the first levels of a large trace."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from neve.explore.trace import MISSING, NO_PARENT, find_parents, select_levels

PARENTS = st.integers(1, 40).flatmap(
    lambda count: st.lists(st.integers(MISSING, count - 1), min_size=count, max_size=count)
)


def depth(parents: list[int], span: int) -> int:
    """Return the distance of a span from its root; spans of cycles and below them are deeper than all others."""
    steps = 0
    while parents[span] >= 0 and steps <= len(parents):
        span, steps = parents[span], steps + 1
    return steps


@given(PARENTS, st.integers(1, 45))
def test_levels(parents: list[int], most: int) -> None:
    """Every chosen span is at least as near to a root as every span that is left out."""
    chosen = select_levels(np.array(parents), most).tolist()
    assert chosen == sorted(set(chosen))
    assert len(chosen) == min(most, len(parents))
    others = set(range(len(parents))) - set(chosen)
    if others:
        assert max(depth(parents, one) for one in chosen) <= min(depth(parents, one) for one in others)


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 12)), max_size=30))
def test_parents(spans: list[tuple[int, int | None]]) -> None:
    """The parent is the first span with the id, a root has none, and an unknown id is missing."""
    ids = [bytes([one]) * 8 for one, _ in spans]
    wanted = [None if parent is None else bytes([parent]) * 8 for _, parent in spans]
    found = find_parents(pa.chunked_array([ids], pa.binary()), pa.chunked_array([wanted], pa.binary()))
    expected = [NO_PARENT if one is None else ids.index(one) if one in ids else MISSING for one in wanted]
    assert found.tolist() == expected


def test_empty_parent() -> None:
    """An id of no bytes is no parent."""
    ids, parents = pa.chunked_array([[b"a"]], pa.binary()), pa.chunked_array([[b""]], pa.binary())
    assert find_parents(ids, parents).tolist() == [NO_PARENT]
