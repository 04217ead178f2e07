"""Trees of spans: parents, nested sets, and the structural operators between two sets of spans.

A nested set numbers a tree from the left: a span's numbers enclose those of its descendants. So ancestors are found by
one search in sorted numbers, however deep a trace is. Spans whose parents form a cycle have no numbers (0).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from neve.traceql.evaluation.vectors import combine_codes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NO_PARENT", "ORPHAN", "SpanTree", "relate"]

NO_PARENT = -1  # a root span
ORPHAN = -2  # the parent is not stored


@dataclass(frozen=True)
class SpanTree:
    """Trees of many traces. `parents` are rows, or `NO_PARENT` or `ORPHAN`; `families` are equal for equal parent ids.

    Rows of one trace are together, in order of time.
    """

    traces: NDArray[np.int64]
    parents: NDArray[np.int64]
    families: NDArray[np.int64]

    @classmethod
    def build(cls, traces: NDArray[np.int64], span_ids: pa.Array, parent_ids: pa.Array) -> SpanTree:
        """Find the parent of each span by its id. Of spans with the same id the first counts."""
        encoded = pa.concat_arrays([span_ids, parent_ids]).dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        empty = encoded.dictionary.index(pa.scalar(b"", encoded.dictionary.type)).as_py()
        count, words = len(traces), len(encoded.dictionary) + 1
        own, wanted = codes[:count], codes[count:]
        has_parent = (wanted >= 0) & (wanted != empty)
        keys = traces * words + own
        order = np.argsort(keys, kind="stable")
        place = np.searchsorted(keys[order], traces * words + wanted)
        place = np.minimum(place, count - 1)
        found = order[place] if count else place
        is_there = has_parent & (keys[found] == traces * words + wanted) & (found != np.arange(count))
        parents = np.where(is_there, found, np.where(has_parent, ORPHAN, NO_PARENT))
        families = traces * words + np.where(has_parent, wanted, words - 1)
        return cls(traces, parents, families)

    @cached_property
    def child_counts(self) -> NDArray[np.int64]:
        """Return the number of children of each span."""
        return np.bincount(self.parents[self.parents >= 0], minlength=len(self.parents)).astype(np.int64)

    @cached_property
    def levels(self) -> list[NDArray[np.int64]]:
        """Return the rows of each level, the tops of trees first. Siblings are together, in order of time."""
        order = np.argsort(self.parents, kind="stable")
        first = np.searchsorted(self.parents[order], np.arange(len(self.parents) + 1))
        tops = np.flatnonzero(self.parents < 0)
        # Roots before orphans, in each trace.
        level = tops[np.lexsort((tops, self.parents[tops] == ORPHAN, self.traces[tops]))]
        found = []
        while len(level):
            found.append(level)
            counts = first[level + 1] - first[level]
            begins = np.repeat(first[level] - (np.cumsum(counts) - counts), counts)
            level = order[np.arange(int(counts.sum())) + begins]
        return found

    @cached_property
    def nested_sets(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the left and right number of each span, from 1 in each trace."""
        count = len(self.parents)
        sizes = np.ones(count, dtype=np.int64)
        for level in reversed(self.levels[1:]):
            np.add.at(sizes, self.parents[level], sizes[level])
        left = np.zeros(count, dtype=np.int64)
        for depth, level in enumerate(self.levels):
            groups = self.traces[level] if depth == 0 else self.parents[level]
            before = _sum_before(2 * sizes[level], groups)
            left[level] = before + 1 if depth == 0 else left[self.parents[level]] + 1 + before
        right = np.where(left > 0, left + 2 * sizes - 1, 0)
        return left, right

    @cached_property
    def set_parents(self) -> NDArray[np.int64]:
        """Return the left number of each span's parent: -1 for a root, 0 if the parent is not stored."""
        left, _ = self.nested_sets
        found = left[np.maximum(self.parents, 0)] if len(left) else left
        return np.where(self.parents == NO_PARENT, -1, np.where(self.parents == ORPHAN, 0, found))


def _sum_before(values: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each value the sum of those before it in its group. Groups are together."""
    totals = np.cumsum(values) - values
    is_first = np.r_[True, groups[1:] != groups[:-1]]
    found: NDArray[np.int64] = totals - totals[is_first][np.cumsum(is_first) - 1]
    return found


def relate(
    symbol: str, tree: SpanTree, sets: NDArray[np.int64], left: NDArray[np.bool_], right: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the spans that a structural operator finds between two masks. Both spans are of the same set."""
    is_union, is_negative = symbol.startswith("&"), symbol.startswith("!")
    relation = symbol.lstrip("&!")
    found = right & _find_partners(relation, tree, sets, left, right)
    if is_union:
        found |= left & _find_partners(_INVERSE[relation], tree, sets, right, left)
    return right & ~found if is_negative else found


_INVERSE = {">": "<", "<": ">", ">>": "<<", "<<": ">>", "~": "~"}


def _find_partners(
    relation: str, tree: SpanTree, sets: NDArray[np.int64], given: NDArray[np.bool_], wanted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return the wanted spans that are children (`>`), parents (`<`), … of a given span."""
    match relation:
        case ">":
            return _find_children(tree, sets, given)
        case "<":
            return _find_parents(tree, sets, given)
        case "~":
            return _find_siblings(tree, sets, given)
    return _find_in_line(tree, sets, given, wanted, is_above=relation == "<<")


def _find_children(tree: SpanTree, sets: NDArray[np.int64], given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    parents = np.maximum(tree.parents, 0)
    found: NDArray[np.bool_] = (tree.parents >= 0) & given[parents] & (sets[parents] == sets)
    return found


def _find_parents(tree: SpanTree, sets: NDArray[np.int64], given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    children = np.flatnonzero(given & (tree.parents >= 0))
    children = children[sets[tree.parents[children]] == sets[children]]
    found = np.zeros(len(given), dtype=bool)
    found[tree.parents[children]] = True
    return found


def _find_siblings(tree: SpanTree, sets: NDArray[np.int64], given: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return spans with the same parent as a given span that is not themselves."""
    groups = combine_codes([tree.families, sets])
    counts = np.bincount(groups[given], minlength=int(groups.max(initial=-1)) + 1)
    found: NDArray[np.bool_] = counts[groups] - given > 0
    return found


def _find_in_line(
    tree: SpanTree, sets: NDArray[np.int64], given: NDArray[np.bool_], wanted: NDArray[np.bool_], *, is_above: bool
) -> NDArray[np.bool_]:
    """Return the wanted spans that are descendants of a given span, or with `is_above` ancestors."""
    left, right = tree.nested_sets
    found = np.zeros(len(given), dtype=bool)
    rows = np.flatnonzero(given & (left > 0))
    asked = np.flatnonzero(wanted & (left > 0))
    if not len(rows) or not len(asked):
        return found
    size = int(right.max()) + 1  # sets do not overlap in these numbers
    begins, ends = sets * size + left, sets * size + right
    rows = rows[np.argsort(begins[rows], kind="stable")]
    before = np.searchsorted(begins[rows], begins[asked])
    if is_above:
        own = np.searchsorted(begins[rows], begins[asked], side="right")  # behind the span itself
        found[asked] = np.searchsorted(begins[rows], ends[asked]) > own
        return found
    farthest = np.maximum.accumulate(ends[rows])
    found[asked] = (before > 0) & (farthest[np.maximum(before - 1, 0)] > begins[asked])
    return found
