"""Id conventions: references of rows to their resource and scope, and the convention of a part.

In the specification, the `parent_id` of a resource's attributes is the `resource.id` of the rows. otel-arrow's Parquet
exporter (0.51 to 0.62) puts many batches into a part. It shifts the ids and the parent ids of every batch by the
batch's offset, past those of earlier batches, but leaves `resource.id` and `scope.id` as they were. There a row finds
its resource at its batch's offset plus its `resource.id`.

The offsets are not stored. They are inferred from the ids alone: rows in the order of their ids form runs with the same
resource and scope, and a reference that steps back begins a new batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

ABSENT = -1  # an id that is null


@dataclass(frozen=True)
class Runs:
    """First and last id of every run, and the references of its rows: a line for each kind of reference."""

    first: Ints
    last: Ints
    nested: Ints

    @classmethod
    def of(cls, ids: Ints, nested: Sequence[Ints]) -> Runs:
        """Build the runs of rows with an id, in any order; rows without an id are ignored."""
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
    def join(cls, parts: Sequence[Runs]) -> Runs:
        """Join the runs of several pieces of a part; no two pieces share an id."""
        first = np.concatenate([one.first for one in parts])
        order = np.argsort(first, kind="stable")
        last = np.concatenate([one.last for one in parts])[order]
        return cls(first[order], last, np.concatenate([one.nested for one in parts], axis=1)[:, order])

    def __len__(self) -> int:
        return len(self.first)

    def cut_at(self, ids: Ints) -> Runs:
        """Split the runs so that each of these ids begins one."""
        inside = ids[(ids >= self.first[0]) & (ids <= self.last[-1])] if len(self) else ids[:0]
        first = np.union1d(self.first, inside)
        place = np.searchsorted(self.first, first, side="right") - 1
        exists = first <= self.last[place]
        first, place = first[exists], place[exists]
        last = np.minimum(np.r_[first[1:] - 1, self.last[-1:]], self.last[place])
        return Runs(first, last, self.nested[:, place])


def fill_gaps(lines: Ints) -> Ints:
    """Replace null references by the reference of the previous row, so that a null never looks like a step back."""
    places = np.arange(lines.shape[1])
    filled = []
    for line in lines:
        known = np.maximum.accumulate(np.where(line >= 0, places, -1)) if len(places) else places
        filled.append(np.where(known >= 0, line[known], 0))
    return np.vstack(filled).astype(np.int64)


def find_steps_back(lines: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask of rows with a smaller reference than the previous row: within a batch that never happens."""
    steps = np.zeros(lines.shape[1], np.bool_)
    if len(steps):
        steps[1:] = np.any(np.diff(fill_gaps(lines), axis=1) < 0, axis=0)
    return steps


def distinct_sorted(ordered: Ints) -> Ints:
    """Return each of the sorted numbers once, which is much faster than a search for distinct numbers."""
    is_new: npt.NDArray[np.bool_] = np.diff(ordered, prepend=ordered[:1] - 1) != 0
    return ordered[is_new]


AT_ONCE = 1_000_000  # sums of an offset and a reference that are looked up together


def find_batch_starts(runs: Runs, parents: Sequence[Ints]) -> Ints:
    """Return the offset of every batch, if the part has been shifted.

    Resources and scopes of a batch are numbered from 0 in the order of its rows, so a step back begins a batch. Steps
    do not reveal batches of a single resource before another batch: their rows refer to 0, and so do the first rows of
    the next. There every parent is the offset of a batch, up to that of the last, whose rows refer to more.
    """
    if not len(runs):
        return np.zeros(0, np.int64)
    filled = Runs(runs.first, runs.last, fill_gaps(runs.nested))
    borders = np.r_[0, np.flatnonzero(find_steps_back(runs.nested)), len(runs)]
    found = []
    before = -1
    for begin, end in pairwise(borders.tolist()):
        stretch = Runs(filled.first[begin:end], filled.last[begin:end], filled.nested[:, begin:end])
        found.append(_starts_in(stretch, parents, before))
        before = int(stretch.last[-1])
    return np.unique(np.concatenate(found))


def _starts_in(stretch: Runs, parents: Sequence[Ints], before: int) -> Ints:
    """Return the batches of a stretch without a step back; `before` is the last id of the previous stretch."""
    first = int(stretch.first[0])
    zeros = int(np.argmin(np.append(np.all(stretch.nested == 0, axis=0), False)))
    last_zero = int(stretch.last[zeros - 1]) if zeros else first
    references = [np.unique(line) for line in stretch.nested]
    within = np.unique(np.concatenate([_ids_between(known, first, last_zero) for known in parents]))
    last, matched = _best_offset(_candidates(references, parents, first, last_zero), references, parents)
    if not any(found == len(values) for found, values in zip(matched, references, strict=True)):
        # The first rows of the batch may be missing: then its offset is less than all ids that are present.
        earlier, better = _best_offset(_candidates(references, parents, before + 1, first), references, parents)
        if sum(better) > sum(matched):
            return np.array([earlier])
    return np.union1d(within[within < last], [first, last])


def _candidates(references: Sequence[Ints], parents: Sequence[Ints], least: int, most: int) -> Ints:
    """Return offsets at which the parent of a row exists, for the rows with the smallest and the largest reference."""
    found = [np.array([most if least > most else least])]
    for values, known in zip(references, parents, strict=True):
        for value in {int(values[0]), int(values[-1])}:
            found.append(_ids_between(known, least + value, most + value) - value)
    return np.unique(np.concatenate(found))


def _best_offset(candidates: Ints, references: Sequence[Ints], parents: Sequence[Ints]) -> tuple[int, tuple[int, ...]]:
    """Return the offset with the most matching references, the last of several, and the matches of each kind."""
    kinds = zip(references, parents, strict=True)
    matched = np.vstack([_count_matches(candidates, values, known) for values, known in kinds])
    best = len(candidates) - 1 - int(np.argmax(matched.sum(axis=0)[::-1]))
    return int(candidates[best]), tuple(map(int, matched[:, best]))


def _ids_between(known: Ints, least: int, most: int) -> Ints:
    return known[np.searchsorted(known, least) : np.searchsorted(known, most, side="right")]


def _count_matches(candidates: Ints, values: Ints, known: Ints) -> Ints:
    """Return the number of references that match a parent, for each offset."""
    found = np.zeros(len(candidates), np.int64)
    if len(known):
        step = max(1, AT_ONCE // max(1, len(candidates)))
        for first in range(0, len(values), step):
            references = np.add.outer(candidates, values[first : first + step])
            place = np.minimum(np.searchsorted(known, references), len(known) - 1)
            found += (known[place] == references).sum(axis=1)
    return found


LEFT_OVER = -math.log(0.01)  # one parent in a hundred may have lost the rows that referred to it
SPECIFICATION, EXPORTER = "specification", "exporter"


@dataclass(frozen=True)
class Offsets:
    """Batches of a part: the offset of each, which is also the smallest id that its rows may have."""

    starts: Ints

    def of(self, ids: Ints) -> Ints:
        """Return the offset of the batch of each id; ids before all batches are assigned to the first."""
        if not len(self.starts):
            return np.zeros(len(ids), np.int64)
        return self.starts[np.maximum(np.searchsorted(self.starts, ids, side="right") - 1, 0)]


def infer_offsets(runs: Runs, parents: Sequence[Ints]) -> Offsets | None:
    """Infer the offsets of a part's batches from all its references; None if the ids follow the specification."""
    if not len(runs) or not any(map(len, parents)):
        return None
    plain = _fit(runs.nested, np.zeros(len(runs), np.int64), parents)
    if plain.used == sum(map(len, parents)):
        return None  # no parent is left over, so nothing contradicts the specification
    starts = find_batch_starts(runs, parents)
    offsets = Offsets(starts)
    cut = runs.cut_at(starts)
    shifted = _fit(cut.nested, offsets.of(cut.first), parents)
    is_better = shifted.used > plain.used and shifted.surprise < plain.surprise
    return offsets if is_better and not _may_be_unused(runs, parents, starts) else None


def find_unmatched(nested: Ints, parents: Ints, shift: Ints | int = 0) -> npt.NDArray[np.bool_]:
    """Return a mask of rows that refer to a missing parent; null refers to nothing. `parents` are sorted."""
    return (nested >= 0) & ~np.isin(nested + shift, parents)


def find_row_offsets(ids: Ints, nested: Sequence[Ints], offsets: Offsets) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Return the offset of every row's batch, for rows in file order, and a mask of the rows for which it is a guess.

    A row without an id belongs to the batch of its neighbours. If these belong to two batches, a step back in the
    references shows where the second begins. It is unknown if there is no such step, or if ids are missing between the
    two, as a batch without any id omits one: then the row is assigned to the previous batch.
    """
    has_id = ids >= 0
    known = offsets.of(ids)
    if has_id.all() or not has_id.any() or len(offsets.starts) < 2:
        return known, ~has_id & (len(offsets.starts) > 1)
    places = np.arange(len(ids))
    before = np.maximum.accumulate(np.where(has_id, places, -1))
    after = np.minimum.accumulate(np.where(has_id, places, len(ids))[::-1])[::-1]
    stretch = np.cumsum(find_steps_back(np.vstack(nested)))
    first, last = np.maximum(before, 0), np.minimum(after, len(ids) - 1)
    follows = (before >= 0) & (stretch == stretch[first])
    leads = (after < len(ids)) & (stretch == stretch[last])
    between = (before >= 0) & (after < len(ids)) & (known[first] != known[last])
    guessed = (~follows & ~leads) | (between & ((follows & leads) | (ids[last] - ids[first] > 1)))
    return np.where((leads & ~follows) | (before < 0), known[last], known[first]), guessed & ~has_id


@dataclass(frozen=True)
class _Fit:
    """Quality of a reading: the parents that are referred to, and the improbability of everything left over."""

    used: int
    surprise: float


def _fit(nested: Ints, shift: Ints, parents: Sequence[Ints]) -> _Fit:
    """Rate a reading.

    Parents that are left over are rare. Resources and scopes without attributes are not rare, but then every batch has
    them alike.
    """
    used, surprise = 0, 0.0
    for line, known in zip(nested, parents, strict=True):
        references = np.unique((line + shift)[line != ABSENT])
        found = int(np.isin(references, known).sum())
        used += found
        surprise += LEFT_OVER * (len(known) - found) + _entropy(found, len(references))
    return _Fit(used, surprise)


def _entropy(found: int, all_of_them: int) -> float:
    """Return the entropy, in nats, of the selection of those that were found."""
    shares = np.array([found, all_of_them - found]) / max(all_of_them, 1)
    return float(-all_of_them * (shares * np.log(shares, where=shares > 0, out=np.zeros(2))).sum())


def _may_be_unused(runs: Runs, parents: Sequence[Ints], starts: Ints) -> bool:
    """Return whether unused parents explain the ids as well as batches of a single row before a larger one.

    Parents are then numbered without gaps from 0, as in one batch, and no reference steps back.
    """
    everything = np.unique(np.concatenate([known for known in parents if len(known)]))
    dense = everything[0] == 0 and everything[-1] == len(everything) - 1
    single = bool(np.all(np.diff(starts) == 1)) and starts[0] == 0 and runs.last[-1] > starts[-1]
    return bool(dense and single and not find_steps_back(runs.nested).any())
