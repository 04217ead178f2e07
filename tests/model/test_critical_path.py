"""The critical path of many traces at once equals that of a walk over each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from neve.model.critical_path import find_critical_paths

SPANS = st.lists(st.tuples(st.integers(-1, 12), st.integers(0, 20), st.integers(-3, 20)), max_size=13)


def walk(place: int, first: int, last: int, spans: list[tuple[int, int, int]], found: list[int]) -> None:
    """Add the path below a span, from its end backwards."""
    children = [one for one, (parent, _, _) in enumerate(spans) if parent == place]
    for child in sorted(children, key=lambda one: -(spans[one][1] + spans[one][2])):
        begin, end = max(spans[child][1], first), min(spans[child][1] + spans[child][2], last)
        if begin < end:
            found[place] += last - end
            walk(child, begin, end, spans, found)
            last = begin
    found[place] += max(last - first, 0)


@given(SPANS)
def test_walk(spans: list[tuple[int, int, int]]) -> None:
    """Cycles are on no path, several trees have one each, and ends before starts count nothing."""
    spans = [(parent if parent < len(spans) else -1, start, length) for parent, start, length in spans]
    expected = [0] * len(spans)
    for place, (parent, start, length) in enumerate(spans):
        if parent < 0:
            walk(place, start, start + length, spans, expected)
    starts, ends = [start for _, start, _ in spans], [start + length for _, start, length in spans]
    assert find_critical_paths([parent for parent, _, _ in spans], starts, ends).tolist() == expected
