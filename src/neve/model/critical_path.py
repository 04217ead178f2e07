"""The critical path of traces: the spans that their durations depend on, and for how long each of them.

From the end of a root backwards, time belongs to the child that ended last before, and while no child runs, to the span
itself. Of a child that starts before its parent or outlives it, the time within the parent counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Integers = NDArray[np.int64]

__all__ = ["find_critical_paths"]


def find_critical_paths(parents: ArrayLike, starts: ArrayLike, ends: ArrayLike) -> Integers:
    """Return the time of each span on the critical path of its tree, 0 for spans that are not on it.

    `parents` are places of spans, negative for a top. Spans whose parents form a cycle are on no path. All trees are
    walked together, level by level, so that many small traces cost as little as a large one.

    >>> find_critical_paths([-1, 0, 0, 2], [0, 10, 30, 35], [100, 40, 80, 90]).tolist()
    [30, 20, 5, 45]
    """
    above, begin, stop = (np.asarray(one, np.int64) for one in (parents, starts, ends))
    children = np.lexsort((-stop, above))  # of each parent, the last to end first
    places = np.arange(len(above))
    first_child, end_child = (np.searchsorted(above[children], places, side) for side in ("left", "right"))
    found = np.zeros(len(above), np.int64)
    spans = np.flatnonzero(above < 0)
    since, until = begin[spans], stop[spans]
    while len(spans):
        spans, since, until = _walk_level(
            found, spans, (since, until), (children, first_child[spans], end_child[spans]), (begin, stop)
        )
    return found


def _walk_level(
    found: Integers,
    spans: Integers,
    window: tuple[Integers, Integers],
    families: tuple[Integers, Integers, Integers],
    times: tuple[Integers, Integers],
) -> tuple[Integers, Integers, Integers]:
    """Add the time of the spans of a level, and return their children on the path with their windows."""
    (since, cursor), (children, place, end), (begin, stop) = window, families, times
    chosen: list[tuple[Integers, Integers, Integers]] = []
    rest = cursor.copy()
    open_spans = np.flatnonzero((place < end) & (rest > since))
    while len(open_spans):
        child = children[place[open_spans]]
        first = np.maximum(begin[child], since[open_spans])
        last = np.minimum(stop[child], rest[open_spans])
        is_on_path = first < last
        owners = open_spans[is_on_path]
        found[spans[owners]] += rest[owners] - last[is_on_path]
        rest[owners] = first[is_on_path]
        chosen.append((child[is_on_path], first[is_on_path], last[is_on_path]))
        place[open_spans] += 1
        open_spans = open_spans[(place[open_spans] < end[open_spans]) & (rest[open_spans] > since[open_spans])]
    found[spans] += np.maximum(rest - since, 0)
    if not chosen:
        return spans[:0], since[:0], since[:0]
    return tuple(np.concatenate(column) for column in zip(*chosen, strict=True))  # type: ignore[return-value]
