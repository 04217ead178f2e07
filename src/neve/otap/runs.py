"""Rows of a root table in the order of their ids, as runs of those that have the same resource and the same scope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

ABSENT = -1  # an id that is null


@dataclass(frozen=True)
class Runs:
    """The first and last id of every run, and what its rows refer to: a line for each kind of reference."""

    first: Ints
    last: Ints
    nested: Ints

    @classmethod
    def of(cls, ids: Ints, nested: Sequence[Ints]) -> Runs:
        """Rows with an id, in whatever order; those without one have no place."""
        has_id = ids >= 0
        ids, lines = ids[has_id].astype(np.int64), np.vstack(nested).astype(np.int64)[:, has_id]
        if np.any(np.diff(ids) < 0):
            order = np.argsort(ids, kind="stable")
            ids, lines = ids[order], lines[:, order]
        if not len(ids):
            return cls(ids, ids, lines)
        starts = np.flatnonzero(np.r_[True, np.any(np.diff(lines, axis=1) != 0, axis=0)])
        return cls(ids[starts], ids[np.r_[starts[1:] - 1, len(ids) - 1]], lines[:, starts])

    @classmethod
    def joined(cls, parts: Sequence[Runs]) -> Runs:
        """Runs of several pieces of a part; each piece holds ids of its own."""
        first = np.concatenate([one.first for one in parts])
        order = np.argsort(first, kind="stable")
        last = np.concatenate([one.last for one in parts])[order]
        return cls(first[order], last, np.concatenate([one.nested for one in parts], axis=1)[:, order])

    def __len__(self) -> int:
        return len(self.first)

    def cut_at(self, ids: Ints) -> Runs:
        """The same runs, cut so that each of these ids begins one."""
        inside = ids[(ids >= self.first[0]) & (ids <= self.last[-1])] if len(self) else ids[:0]
        first = np.union1d(self.first, inside)
        place = np.searchsorted(self.first, first, side="right") - 1
        kept = first <= self.last[place]
        first, place = first[kept], place[kept]
        last = np.minimum(np.r_[first[1:] - 1, self.last[-1:]], self.last[place])
        return Runs(first, last, self.nested[:, place])


def without_gaps(lines: Ints) -> Ints:
    """References with nulls as what the row before refers to, so that a null never looks like a step back."""
    places = np.arange(lines.shape[1])
    filled = []
    for line in lines:
        known = np.maximum.accumulate(np.where(line >= 0, places, -1)) if len(places) else places
        filled.append(np.where(known >= 0, line[known], 0))
    return np.vstack(filled).astype(np.int64)


def steps_back(lines: Ints) -> npt.NDArray[np.bool_]:
    """Where a row refers to less than the one before it: within a batch that never happens."""
    steps = np.zeros(lines.shape[1], np.bool_)
    if len(steps):
        steps[1:] = np.any(np.diff(without_gaps(lines), axis=1) < 0, axis=0)
    return steps


def distinct(ordered: Ints) -> Ints:
    """Each of the numbers once, which are in order already: far quicker than to look for them."""
    is_new: npt.NDArray[np.bool_] = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    return ordered[is_new]
