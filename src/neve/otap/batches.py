"""Where the batches of a part begin that otel-arrow's exporter wrote, from nothing but the ids."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from neve.otap.runs import Runs, steps_back, without_gaps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neve.otap.runs import Ints

AT_ONCE = 1_000_000  # sums of an offset and a reference that are looked up together


def batch_starts(runs: Runs, parents: Sequence[Ints]) -> Ints:
    """The offset of every batch, if the part has been shifted.

    Resources and scopes of a batch are numbered from 0 in the order of its rows, so a step back begins a batch. What
    no step tells are batches of a single resource before another batch: their rows refer to 0, and so do the first
    rows of the next. There every parent is the offset of a batch, up to that of the last, whose rows refer to more.
    """
    if not len(runs):
        return np.zeros(0, np.int64)
    filled = Runs(runs.first, runs.last, without_gaps(runs.nested))
    borders = np.r_[0, np.flatnonzero(steps_back(runs.nested)), len(runs)]
    found = []
    before = -1
    for begin, end in pairwise(borders.tolist()):
        stretch = Runs(filled.first[begin:end], filled.last[begin:end], filled.nested[:, begin:end])
        found.append(_starts_in(stretch, parents, before))
        before = int(stretch.last[-1])
    return np.unique(np.concatenate(found))


def _starts_in(stretch: Runs, parents: Sequence[Ints], before: int) -> Ints:
    """The batches of a stretch without a step back; `before` is the last id of the stretch before it."""
    first = int(stretch.first[0])
    zeros = int(np.argmin(np.append(np.all(stretch.nested == 0, axis=0), False)))
    last_zero = int(stretch.last[zeros - 1]) if zeros else first
    meant = [np.unique(line) for line in stretch.nested]
    within = np.unique(np.concatenate([_between(known, first, last_zero) for known in parents]))
    last, matched = _best(_candidates(meant, parents, first, last_zero), meant, parents)
    if not any(found == len(values) for found, values in zip(matched, meant, strict=True)):
        # The first rows of the batch may not be there: then its offset is less than all ids that are.
        earlier, better = _best(_candidates(meant, parents, before + 1, first), meant, parents)
        if sum(better) > sum(matched):
            return np.array([earlier])
    return np.union1d(within[within < last], [first, last])


def _candidates(meant: Sequence[Ints], parents: Sequence[Ints], least: int, most: int) -> Ints:
    """Offsets at which a row's parent would be there: of the rows that refer to the least, and to the most."""
    found = [np.array([most if least > most else least])]
    for values, known in zip(meant, parents, strict=True):
        for value in {int(values[0]), int(values[-1])}:
            found.append(_between(known, least + value, most + value) - value)
    return np.unique(np.concatenate(found))


def _best(candidates: Ints, meant: Sequence[Ints], parents: Sequence[Ints]) -> tuple[int, tuple[int, ...]]:
    """The offset at which most references lead to a parent, the last of several, and how many of each kind do."""
    kinds = zip(meant, parents, strict=True)
    matched = np.vstack([_matched(candidates, values, known) for values, known in kinds])
    best = len(candidates) - 1 - int(np.argmax(matched.sum(axis=0)[::-1]))
    return int(candidates[best]), tuple(map(int, matched[:, best]))


def _between(known: Ints, least: int, most: int) -> Ints:
    return known[np.searchsorted(known, least) : np.searchsorted(known, most, side="right")]


def _matched(candidates: Ints, values: Ints, known: Ints) -> Ints:
    """For each offset, how many of these references lead to a parent."""
    found = np.zeros(len(candidates), np.int64)
    if len(known):
        step = max(1, AT_ONCE // max(1, len(candidates)))
        for first in range(0, len(values), step):
            meant = np.add.outer(candidates, values[first : first + step])
            place = np.minimum(np.searchsorted(known, meant), len(known) - 1)
            found += (known[place] == meant).sum(axis=1)
    return found
