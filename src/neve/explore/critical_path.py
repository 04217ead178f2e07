"""The critical path of a trace: the spans that its duration depends on, and for how long each of them.

From the end of a root backwards, time belongs to the child that ended last before, and while no child runs, to the span
itself. Of a child that starts before its parent or outlives it, the time within the parent counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["find_critical_path"]


def find_critical_path(parents: Sequence[int], starts: Sequence[int], ends: Sequence[int]) -> list[int]:
    """Return the time of each span on the critical path of its tree, 0 for spans that are not on it.

    `parents` are places of spans, negative for a top. Spans whose parents form a cycle are on no path.

    >>> find_critical_path([-1, 0, 0, 2], [0, 10, 30, 35], [100, 40, 80, 90])
    [30, 20, 5, 45]
    """
    children: dict[int, list[int]] = {}
    for place, parent in enumerate(parents):
        if parent >= 0:
            children.setdefault(parent, []).append(place)
    found = [0] * len(parents)
    waiting = [(place, starts[place], ends[place]) for place, parent in enumerate(parents) if parent < 0]
    while waiting:
        place, first, cursor = waiting.pop()
        for child in sorted(children.get(place, ()), key=lambda one: -ends[one]):
            begin, end = max(starts[child], first), min(ends[child], cursor)
            if begin < end:
                found[place] += cursor - end
                waiting.append((child, begin, end))
                cursor = begin
        found[place] += max(cursor - first, 0)
    return found
